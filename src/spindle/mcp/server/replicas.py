"""This server among others that share its journal: who is alive, messages to one of them, and notices to all.

A message is a record of its receiver, so that it survives a lost notice; it is encrypted with the state key. Whether a
replica is alive only decides who goes on with a call: that no call has two effects is up to the journal.
"""

import json
import logging
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
from anyio.abc import TaskGroup

from spindle.errors import JournalError, SecretError
from spindle.journal.notices import LOST, NoticeBoard
from spindle.journal.states import StateQuery, StateRecord, StateStore
from spindle.json_types import JsonObject, is_object

if TYPE_CHECKING:  # it needs the extra `tickets`
    from spindle.execution.state_key import StateKey

BEAT_SECONDS: Final = 2.0
"""How often a replica shows that it is alive, and looks at the others."""
GONE_SECONDS: Final = 10.0
"""After this time without a sign, the questions of a replica are taken over."""
MESSAGE_SECONDS: Final = 900
_FORGET_SECONDS: Final = 3_600.0
_CLEAN_SECONDS: Final = 60.0
_CLEAN_COUNT: Final = 500
_LEAVE_SECONDS: Final = 5.0
_MAX_POSTED: Final = 1_000

ALIVE: Final = "replica"
MESSAGE: Final = "replica_message"

_LOG: Final = logging.getLogger("spindle.mcp.server")

Handler: TypeAlias = Callable[[JsonObject], Awaitable[JsonObject | None]]
"""Handles a notice or message; what it returns is the reply to a request."""


class Replica:
    """One of several servers; `on` adds what it does on a topic, before it is opened."""

    def __init__(
        self,
        states: StateStore,
        notices: NoticeBoard,
        key: "StateKey",
        *,
        beat_seconds: float = BEAT_SECONDS,
        gone_seconds: float = GONE_SECONDS,
    ) -> None:
        self.id = token_hex(6)
        self.states, self.key = states, key
        self._notices = notices
        self._beat_seconds, self._gone_seconds = beat_seconds, gone_seconds
        self._handlers: dict[str, Handler] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        """The last sign of each other replica, and when it was first seen here: clocks of machines differ."""
        self._looked_at = -math.inf
        self._cleaned_at = -math.inf
        self._kinds: set[str] = {MESSAGE}
        self._has_mail = anyio.Event()
        self._may_have_mail = True
        self._heard: deque[JsonObject] = deque(maxlen=_MAX_POSTED)
        self._replies: dict[str, tuple[anyio.Event, list[JsonObject]]] = {}
        self._serving: dict[str, anyio.CancelScope] = {}
        self._tasks: TaskGroup | None = None
        self._posted: deque[JsonObject] = deque(maxlen=_MAX_POSTED)
        self._has_posted = anyio.Event()
        self._has_failed = False
        self.on("reply", self._take_reply)
        self.on("abandon", self._abandon)

    def on(self, topic: str, handler: Handler) -> None:
        """Call `handler` with the notices and messages of a topic."""
        self._handlers[topic] = handler

    def clean(self, *kinds: str) -> None:
        """Delete records of these kinds once they have expired."""
        self._kinds.update(kinds)

    @property
    def others(self) -> int:
        """Number of other replicas that are alive."""
        now = anyio.current_time()
        return sum(now - at <= self._gone_seconds for _, at in self._seen.values())

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["Replica"]:
        """Join the others; inside the block, notices and messages are handled.

        Raises:
            JournalError: The journal cannot be used.
        """
        await self.states.insert(self._build_record(1))
        await self._look()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            stop = await self._notices.subscribe(self._hear)
            for each in (self._beat, self._read_mail, self._publish_posted):
                tasks.start_soon(each)
            try:
                yield self
            finally:
                stop()
                self._tasks = None
                tasks.cancel_scope.cancel()
        with anyio.move_on_after(_LEAVE_SECONDS, shield=True), suppress(JournalError):
            await self.states.delete(ALIVE, self.id)
            await self._notices.publish(json.dumps({"topic": "left", "from": self.id}))

    def post(self, topic: str, payload: JsonObject) -> None:
        """Send a notice to all other replicas, soon; it must be short and without secrets, and may be lost."""
        self._posted.append({**payload, "topic": topic, "from": self.id})
        self._has_posted.set()

    async def send(self, to: str, topic: str, payload: JsonObject) -> None:
        """Send a message to one replica; it is kept until that one reads it, or it expires.

        Raises:
            JournalError: The message could not be written.
        """
        name, now = token_hex(12), now_micros()
        sealed = self.key.seal(json.dumps({**payload, "topic": topic}).encode(), bound=f"{MESSAGE} {name}")
        expires_at = now + MESSAGE_SECONDS * 1_000_000
        await self.states.insert(
            StateRecord(MESSAGE, name, "sent", "{}", now, sealed=sealed, group=to, expires_at=expires_at)
        )
        await self._notices.publish(json.dumps({"to": to}))

    async def request(self, to: str, topic: str, payload: JsonObject) -> JsonObject | None:
        """Send a message and return the reply, or `None` if the other replica is gone; cancelling it cancels the work.

        Raises:
            JournalError: The message could not be written.
        """
        name = token_hex(12)
        arrived, replies = self._replies[name] = anyio.Event(), list[JsonObject]()
        try:
            await self.send(to, topic, {**payload, "request": name, "reply_to": self.id})
            while not arrived.is_set():
                if await self.is_gone(to):
                    await self._take_mail()  # it may have replied before
                    with anyio.move_on_after(0.1):
                        await arrived.wait()
                    break
                with anyio.move_on_after(self._beat_seconds):
                    await arrived.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_LEAVE_SECONDS, shield=True), suppress(JournalError):
                await self.send(to, "abandon", {"abandoned": name})
            raise
        finally:
            del self._replies[name]
        return replies[0] if replies else None

    async def is_gone(self, id: str) -> bool:
        """Return whether a replica has left, or has shown no sign for a while."""
        if id == self.id:
            return False
        if id not in self._seen:  # it may be new
            await self._look()
        seen = self._seen.get(id)
        return seen is None or anyio.current_time() - seen[1] > self._gone_seconds

    def _build_record(self, version: int) -> StateRecord:
        return StateRecord(ALIVE, self.id, "alive", json.dumps({"key": self.key.id}), now_micros(), version=version)

    async def _beat(self) -> None:
        version = 1
        while True:
            await anyio.sleep(self._beat_seconds)
            try:
                version += 1
                known = await self.states.get(ALIVE, self.id)
                if known is None:  # taken for gone, and forgotten
                    await self.states.insert(self._build_record(version))
                else:
                    version = known.version + 1
                    await self.states.replace(self._build_record(version))
                await self._look()
                await self._clean_up()
                self._has_failed = False
            except JournalError as error:
                if not self._has_failed:
                    _LOG.warning("the journal of the replicas cannot be used: %s", error)
                self._has_failed = True
            self._wake()  # a notice may be lost

    async def _look(self) -> None:
        records = await self.states.select(StateQuery(ALIVE))
        now, before = anyio.current_time(), self._looked_at
        self._looked_at = now
        has_missed = now - before > self._gone_seconds / 2  # the journal was not available, for the others as well
        seen: dict[str, tuple[int, float]] = {}
        for record in records:
            if record.id == self.id:
                continue
            version, at = self._seen.get(record.id, (0, now))
            seen[record.id] = record.version, at if version == record.version and not has_missed else now
            if record.id not in self._seen:
                self._check_key(record)
        self._seen = seen

    def _check_key(self, record: StateRecord) -> None:
        if not self.key.knows(json.loads(record.data).get("key", "")):
            _LOG.warning(
                "another replica has another state key, so neither can read what the other writes; "
                "set SPINDLE_STATE_KEY to the same value for all of them"
            )

    async def _clean_up(self) -> None:
        now = anyio.current_time()
        if now - self._cleaned_at < _CLEAN_SECONDS:
            return
        self._cleaned_at = now
        for kind in sorted(self._kinds):
            for record in await self.states.select(StateQuery(kind, expired_at=now_micros(), limit=_CLEAN_COUNT)):
                await self.states.delete(kind, record.id)
        for other, (_, at) in list(self._seen.items()):
            if now - at > _FORGET_SECONDS:
                await self.states.delete(ALIVE, other)

    def _hear(self, text: str) -> None:
        if text == LOST:
            self._wake()
            return
        with suppress(ValueError):
            notice: object = json.loads(text)
            if not is_object(notice) or notice.get("from") == self.id:
                return
            if notice.get("to") == self.id:
                self._wake()
            elif notice.get("topic") == "left":
                self._seen.pop(str(notice.get("from")), None)
            else:  # called by the event loop, not by a task, which could start one
                self._heard.append(notice)
                self._has_mail.set()

    def _wake(self) -> None:
        self._may_have_mail = True
        self._has_mail.set()

    async def _read_mail(self) -> None:
        while True:
            self._has_mail = anyio.Event()
            while self._heard and self._tasks is not None:
                self._tasks.start_soon(self._handle, self._heard.popleft())
            if self._may_have_mail:
                self._may_have_mail = False
                with suppress(JournalError):  # reported by `_beat`, which wakes this again
                    await self._take_mail()
            await self._has_mail.wait()

    async def _take_mail(self) -> None:
        for record in reversed(await self.states.select(StateQuery(MESSAGE, group=self.id))):
            if not await self.states.delete(MESSAGE, record.id):
                continue
            try:
                content = json.loads(self.key.unseal(record.sealed or b"", bound=f"{MESSAGE} {record.id}"))
            except SecretError as error:
                _LOG.warning("a message of another replica cannot be read: %s", error)
                continue
            if self._tasks is not None:
                self._tasks.start_soon(self._handle, content)

    async def _handle(self, content: JsonObject) -> None:
        handler = self._handlers.get(str(content.get("topic")))
        if handler is None:
            return
        request, reply = str(content.get("request", "")), None
        with anyio.CancelScope() as scope:
            if request:
                self._serving[request] = scope
            try:
                reply = await handler(content)
            except Exception:  # noqa: BLE001  one message must not stop the others
                _LOG.exception("a message of another replica could not be handled")
        self._serving.pop(request, None)
        if request and not scope.cancelled_caught:
            try:
                await self.send(str(content["reply_to"]), "reply", {"replied": request, "reply": reply or {}})
            except JournalError as error:
                _LOG.warning("a reply to another replica could not be written: %s", error)

    async def _take_reply(self, content: JsonObject) -> None:
        arrived, replies = self._replies.get(str(content.get("replied")), (anyio.Event(), list[JsonObject]()))
        replies.append(content["reply"])
        arrived.set()

    async def _abandon(self, content: JsonObject) -> None:
        scope = self._serving.get(str(content.get("abandoned")))
        if scope is not None:
            scope.cancel()

    async def _publish_posted(self) -> None:
        while True:
            self._has_posted = anyio.Event()
            while self._posted:
                with suppress(JournalError):  # reported by `_beat`
                    await self._notices.publish(json.dumps(self._posted.popleft()))
            await self._has_posted.wait()


def digest(*parts: str) -> str:
    """Return the id of a record that belongs to a client, by what identifies it."""
    return sha256(json.dumps(parts).encode()).hexdigest()


def now_micros() -> int:
    """Return the time as records have it."""
    return time.time_ns() // 1_000
