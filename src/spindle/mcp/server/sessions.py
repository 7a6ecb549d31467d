"""The state of each client of the server: its view of the tools, and the artifacts of its calls.

A client never sees another client's artifacts. Where the protocol has sessions, a client is identified by its session.
Otherwise it is identified by its token, and an artifact's id is a secret that only the call's result contains.
"""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from typing_extensions import override

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import ReaderSession, can_be_read_back
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.queries import get_queries
from spindle.artifacts.table_artifact import TableArtifact
from spindle.calls import CallOutcome, Ok
from spindle.concurrency import ThreadsafeEvent
from spindle.execution.call_state import HeldSlot, Slots
from spindle.mcp.server.tool_list import ToolList
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

ALWAYS_SHOWN: Final = frozenset({"artifact_head", "artifact_tail", "artifact_grep", "artifact_cat"})
"""Readers that every client sees from the start, since many clients list the tools only once."""
MAX_ARTIFACTS: Final = 200
MAX_UNLISTED_ARTIFACTS: Final = 2_000
"""Limit for a token, which several clients may share."""
MAX_SESSIONS: Final = 10_000
IDLE_SECONDS: Final = 3_600
MAX_TAINTED: Final = 100_000
MIN_SHARED_SLOTS: Final = 4
"""With fewer slots, none is kept free."""
TAINT_SECONDS: Final = 7 * 86_400
"""A conversation without calls for so long may be forgotten, once there are too many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The sender of a request."""

    key: str
    """Identifies the client: equal for all its requests and unique to it."""
    profile: str | None = None
    user: str | None = None
    """The person or program, whose logins at upstream servers its calls use; `None` for the only user there is."""
    has_session: bool = True
    """Whether the key identifies a session; otherwise it identifies a token, or all callers without one."""
    client: str | None = None
    """Distinguishes the clients behind one key, where there are no sessions."""
    owner: str | None = None
    """Who owns what outlives a session, such as tasks; by default the key."""
    is_anonymous: bool = False
    """Whether other clients have the same owner, because none has a token."""

    @property
    def conversation(self) -> str:
        """Identifies the conversation whose taint is kept: the session, or the token and its client."""
        return self.key if self.client is None else f"{self.key} by {self.client}"


class FairSlots:
    """Slots for running calls that conversations share in turn, each with at most `max_per_key` of them.

    Some slots are kept for conversations that hold none, so that a quick call does not wait for the slow calls of
    others. A freed slot goes to the next conversation, not to the next call.
    """

    def __init__(self, count: int, *, max_per_key: int) -> None:
        self.lock = Lock()
        self._free = count
        self._kept_free = max(1, count // 8) if count >= MIN_SHARED_SLOTS else 0
        self._max_per_key = max_per_key
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[ThreadsafeEvent]] = OrderedDict()

    def for_key(self, key: str) -> "SharedSlots":
        """Return the slots as one conversation sees them."""
        return SharedSlots(self, key)

    def take(self, key: str) -> bool:
        """Take a slot if the conversation may have one now; return whether it did. The lock must be held."""
        held = self._held[key]
        is_allowed = held < self._max_per_key and self._free > (self._kept_free if held else 0)
        if is_allowed:
            self._free -= 1
            self._held[key] += 1
        elif not held:
            del self._held[key]
        return is_allowed

    def wait(self, key: str) -> ThreadsafeEvent:
        """Queue for a slot; the event is set when it was given. The lock must be held."""
        mine = ThreadsafeEvent()
        self._waiting.setdefault(key, deque()).append(mine)
        return mine

    def leave(self, key: str, mine: ThreadsafeEvent) -> bool:
        """Leave the queue; return whether the slot was given already."""
        with self.lock:
            queue = self._waiting.get(key, deque[ThreadsafeEvent]())
            if mine not in queue:
                return True
            queue.remove(mine)
            if not queue:
                del self._waiting[key]
            return False

    def give_back(self, key: str) -> list[ThreadsafeEvent]:
        """Give a slot back and free slots to those who wait, in turn; return their events. The lock must be held."""
        woken: list[ThreadsafeEvent] = []
        self._free += 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        for following in list(self._waiting):
            if self.take(following):
                queue = self._waiting.pop(following)
                woken.append(queue.popleft())
                if queue:
                    self._waiting[following] = queue  # at the end
        return woken


class SharedSlots(Slots):
    """The slots of a server as one conversation sees them."""

    __slots__ = ("_key", "_shared")

    def __init__(self, shared: FairSlots, key: str) -> None:
        super().__init__(0)
        self.lock, self._shared, self._key = shared.lock, shared, key

    @override
    def acquire_nowait(self) -> bool:
        """Acquire a slot if the conversation may have one now."""
        with self.lock:
            return self._shared.take(self._key)

    @override
    async def acquire(self) -> None:
        """Acquire a slot, waiting for the conversation's turn."""
        with self.lock:
            if self._shared.take(self._key):
                return
            mine = self._shared.wait(self._key)
        try:
            await mine.wait()
        except BaseException:
            if self._shared.leave(self._key, mine):  # it was given while this task was being cancelled
                self.release()
            raise

    @override
    def hold_nowait(self) -> HeldSlot | None:
        """Acquire a slot like `acquire_nowait` and return it, or `None`."""
        return HeldSlot(self) if self.acquire_nowait() else None

    @override
    def give_back(self) -> list[ThreadsafeEvent]:
        """Release the slot under the caller's `lock`; return the events to set after it."""
        return self._shared.give_back(self._key)


class TaintLedger:
    """The conversations that have been shown untrusted content; an idle client still has it in its context."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tainted: OrderedDict[str, float] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._is_full = False

    def add(self, conversation: str) -> None:
        """Remember that a conversation is tainted."""
        now = self._clock()
        self._tainted.pop(conversation, None)
        if len(self._tainted) >= MAX_TAINTED:
            oldest, last_seen = next(iter(self._tainted.items()))
            if now - last_seen <= TAINT_SECONDS:
                self._is_full = True  # forgetting one would let its dangerous calls run
                return
            del self._tainted[oldest]
        self._tainted[conversation] = now

    def has(self, conversation: str) -> bool:
        """Return whether a conversation is tainted, or an untrusted tool runs for it now."""
        return self._is_full or conversation in self._tainted or self._running[conversation] > 0

    def forget(self, conversation: str) -> None:
        """Forget a conversation that has ended."""
        self._tainted.pop(conversation, None)

    @contextmanager
    def track(self, conversation: str, ctx: ToolContext, *, trusted: bool) -> Generator[None]:
        """Pass the taint on to the context of a call, and keep what the call brings in."""
        ctx.tainted = self.has(conversation)
        self._running[conversation] += not trusted
        try:
            yield
        finally:
            self._running[conversation] -= not trusted
            if not self._running[conversation]:
                del self._running[conversation]
            if ctx.tainted:
                self.add(conversation)


@dataclass(frozen=True, slots=True)
class ReadableCall:
    """The part of a call that artifact readers need; kept small, since a client may have thousands."""

    id: str
    results: Any
    from_artifact_tool: bool = False


class SharedViews:
    """The views of the clients: the server's tools, and readers of artifacts, of which a client sees those it can use.

    Clients that see the same tools share a view, because one takes milliseconds to build and 0.1 MB to keep. A reader
    finds the artifacts of the session whose call it runs in.
    """

    def __init__(self, *, names_ids: bool) -> None:
        kinds = (Artifact, JsonArtifact, MarkdownArtifact, TableArtifact)
        self._readers = ReaderSession(_CurrentArtifacts(), kinds=kinds, names_ids=names_ids)
        self._views: dict[frozenset[str], ToolRegistry] = {}
        self._version: object = None

    def add_readers(self, kind: type) -> None:
        """Add the readers of an artifact class."""
        self._readers.add(kind)

    def get(self, base: ToolRegistry, shown: frozenset[str]) -> ToolRegistry:
        """Return the view in which the readers `shown` are listed; the others are hidden, but can be called."""
        if self._version is not base.version:
            self._views, self._version = {}, base.version
        view = self._views.get(shown)
        if view is None:
            view = self._views[shown] = self._readers.extend(base)
            for name in self._readers.names:
                if name not in base and name not in shown:
                    view.hide(name)
        return view


_current_session: ContextVar["McpSession | None"] = ContextVar("spindle_mcp_session", default=None)


class _CurrentArtifacts:
    """The artifacts of the client whose call runs now, for the shared readers."""

    @property
    def tool_calls(self) -> Iterable[ReadableCall]:
        session = _current_session.get()
        return () if session is None else session.tool_calls


@dataclass
class McpSession:
    """The state of one client."""

    key: str
    filter: ToolFilter | None
    lists_artifacts: bool
    """Whether readers appear as it receives artifacts, and may name their ids."""
    tool_calls: deque[ReadableCall] = field(init=False)
    unanswered: set[str] = field(default_factory=set[str])
    """The ids of calls that run, or whose result was not sent yet."""
    last_seen: float = 0.0
    notify: Callable[[], Any] | None = None
    """Notifies the client that its list of tools has changed."""
    peer: Any = field(default=None, repr=False)
    """Sends notifications to the client, on the older protocol."""
    log_level: str | None = None
    """The lowest level of log messages to send to the client; `None` until it sets one."""
    tool_list: ToolList | None = None
    """The list of tools that was last sent to the client, used to parse its calls."""
    views: SharedViews | None = field(default=None, repr=False)
    """The views that it shares with other clients; by default its own."""
    user: str | None = None
    """The user behind the client, as `Caller.user`."""
    profile: str | None = None
    is_current: bool = False
    """Whether it has the artifacts of its calls at other replicas."""
    _shown_readers: frozenset[str] = ALWAYS_SHOWN

    def __post_init__(self) -> None:
        self.tool_calls = deque(maxlen=MAX_ARTIFACTS if self.lists_artifacts else MAX_UNLISTED_ARTIFACTS)
        self._views = self.views or SharedViews(names_ids=self.lists_artifacts)

    def get_registry(self, base: ToolRegistry) -> ToolRegistry:
        """Return the client's view: the server's tools as they are now, and readers of its own artifacts."""
        return self._views.get(base, self._shown_readers)

    @contextmanager
    def activate(self, call_id: str | None = None) -> Generator[None]:
        """Make this the session whose artifacts the shared readers find; it needs the call until its result is kept."""
        token = _current_session.set(self)
        if call_id is not None:
            self.unanswered.add(call_id)
        try:
            yield
        except BaseException:
            self.unanswered.discard(call_id or "")
            raise
        finally:
            _current_session.reset(token)

    async def notify_change(self) -> None:
        """Notify the client that its list of tools has changed."""
        if self.notify is None:
            return
        try:
            await self.notify()
        except Exception:  # noqa: BLE001  the client has disconnected
            self.notify = None

    def keep_artifact(self, outcome: CallOutcome) -> bool:
        """Keep the artifact of a call, if it has one; return whether the list of tools has changed."""
        result = outcome.result
        if not isinstance(result, Ok) or not can_be_read_back(outcome):
            self.unanswered.discard(outcome.tool_call_id)
            return False
        is_changed = self.add_artifact(outcome.tool_call_id, result.artifact)
        self.unanswered.discard(outcome.tool_call_id)
        return is_changed

    def add_artifact(self, call_id: str, artifact: object) -> bool:
        """Add an artifact; return whether the list of tools has changed."""
        self.tool_calls.append(ReadableCall(call_id, artifact))
        readers = frozenset(get_queries(artifact))
        if not self.lists_artifacts or readers <= self._shown_readers:
            return False
        self._shown_readers |= readers
        self._views.add_readers(type(artifact))
        return True


class McpSessions:
    """The recently active clients; idle ones are dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._views = {is_listing: SharedViews(names_ids=is_listing) for is_listing in (True, False)}
        self._sessions: OrderedDict[str, McpSession] = OrderedDict()

    def get(self, key: str, *, filter: ToolFilter | None, lists_artifacts: bool) -> McpSession:
        """Return the session of a client; create it if it does not exist."""
        now = self._clock()
        self._forget(before=now - IDLE_SECONDS)
        session = self._sessions.pop(key, None)
        if session is None:
            session = McpSession(key, filter, lists_artifacts, views=self._views[lists_artifacts])
        session.last_seen = now
        self._sessions[key] = session
        return session

    def open(self, caller: Caller, filter: ToolFilter | None) -> McpSession:
        """Return the session of the sender of a request."""
        # The newer protocol has no sessions; there only a pipe identifies a single client.
        session = self.get(caller.key, filter=filter, lists_artifacts=caller.has_session)
        session.user, session.profile = caller.user, caller.profile
        return session

    def find(self, key: str) -> McpSession | None:
        """Return the session of a client, if it is open."""
        return self._sessions.get(key)

    def all(self) -> list[McpSession]:
        """Return all sessions."""
        return list(self._sessions.values())

    def find_readable_calls(self) -> set[str]:
        """Return the ids of the calls whose artifacts a client may still read; sessions that are idle are dropped."""
        self._forget(before=self._clock() - IDLE_SECONDS)
        kept = {call.id for session in self._sessions.values() for call in session.tool_calls}
        return kept.union(*(session.unanswered for session in self._sessions.values()))

    def forget(self, key: str) -> None:
        """Drop the session of a client that has disconnected."""
        self._sessions.pop(key, None)

    def _forget(self, before: float) -> None:
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if oldest.last_seen >= before and len(self._sessions) < MAX_SESSIONS:
                return
            del self._sessions[oldest.key]
