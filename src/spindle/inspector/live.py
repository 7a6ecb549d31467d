"""Live updates of the page: server-sent events, collected and sent in batches.

A feed is a coroutine that watches something for one page until it is cancelled. What it sends under one key within a
batch replaces what it sent before, so that a page that is slow gets the newest state instead of a backlog.
"""

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from spindle.errors import RequestConflictError, SpindleError
from spindle.inspector.endpoints import PageUser
from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonValue

BATCH_SECONDS: Final = 0.25
_BEAT_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 2.0
MAX_PAGES: Final = 50
"""Beyond this many open pages, another one gets no live updates."""
MAX_PAGES_OF_ONE: Final = 20
"""Of one login, and of all logins of one profile, so that others have room; the owner has this many in any case."""
STUCK_SECONDS: Final = 60.0
"""A page that reads nothing for this time is disconnected, and what waits for it is dropped."""
MAX_BATCH: Final = 5_000
"""Beyond this many values that wait for a slow page, the oldest are dropped, and it gets the event `lost`."""
_LOG: Final = logging.getLogger("spindle.inspector")
_listener: ContextVar[PageUser | None] = ContextVar("listener", default=None)


class Publish(Protocol):
    """Sends one value to the page; with a key, it replaces what waits under the same one."""

    def __call__(self, value: JsonValue, *, key: str | None = None) -> None:
        """Send a value."""
        ...


Feed: TypeAlias = Callable[[Workbench, Publish], Awaitable[None]]
"""Watches something until it is cancelled."""


def get_listener() -> PageUser | None:
    """Return whose page a feed runs for, so that it sends nothing that this user may not see."""
    return _listener.get()


async def _stay() -> bool:
    return True


class LiveUpdates:
    """Streams what feeds send to the pages that listen."""

    def __init__(self, bench: Workbench, feeds: Mapping[str, Feed]) -> None:
        self._bench, self._feeds = bench, feeds
        self._pages = 0
        self._by_login: Counter[str] = Counter()
        """How many pages each owner's login, or each profile with all its logins, has open."""
        self._of_profiles = 0
        self._closed = anyio.Event()

    @property
    def pages(self) -> int:
        """How many pages listen now."""
        return self._pages

    def close(self) -> None:
        """End all streams; the pages connect again."""
        self._closed.set()

    def open(
        self,
        topics: set[str],
        user: PageUser | None = None,
        *,
        is_logged_in: Callable[[], Awaitable[bool]] = _stay,
    ) -> Response:
        """Return the stream of some topics; unknown ones are ignored. It ends soon after its user has logged out.

        Raises:
            RequestConflictError: Too many pages listen already.
        """
        self._check_room(user)
        feeds = {name: feed for name, feed in self._feeds.items() if name in topics}
        return _EventStream(self, feeds, user, is_logged_in)

    def _check_room(self, user: PageUser | None) -> None:
        if self._pages >= MAX_PAGES:
            raise RequestConflictError(f"{MAX_PAGES} pages are open already; close one")
        if user is None:
            return
        if self._by_login[_name_login(user)] >= MAX_PAGES_OF_ONE:
            raise RequestConflictError(f"{MAX_PAGES_OF_ONE} pages of this login are open already; close one")
        if user.profile is not None and self._of_profiles >= MAX_PAGES - MAX_PAGES_OF_ONE:
            raise RequestConflictError("too many pages of profiles are open already; close one")

    async def stream(
        self, feeds: Mapping[str, Feed], send: Callable[[bytes], Awaitable[None]], stay: Callable[[], Awaitable[bool]]
    ) -> None:
        """Run feeds, and send what they publish until the server stops or the user has logged out.

        Raises:
            RequestConflictError: Others took the last place since the stream was opened.
        """
        user, batch = get_listener(), _Batch()
        self._check_room(user)
        login = "" if user is None else _name_login(user)
        of_profile = int(user is not None and user.profile is not None)
        self._pages += 1
        self._of_profiles += of_profile
        self._by_login[login] += 1
        try:
            async with anyio.create_task_group() as tasks:
                for name, feed in feeds.items():
                    tasks.start_soon(self._run, name, feed, batch)
                tasks.start_soon(self._wait_for_close, tasks.cancel_scope)
                await send(f"retry: {int(_RETRY_SECONDS * 1000)}\n\nevent: hello\ndata: {{}}\n\n".encode())
                checked_at = anyio.current_time()
                while True:
                    with anyio.move_on_after(_BEAT_SECONDS):
                        await batch.wait()
                    if anyio.current_time() - checked_at >= _BEAT_SECONDS:
                        checked_at = anyio.current_time()
                        if not await stay():
                            break
                    await send(batch.take() or b": beat\n\n")
                    await anyio.sleep(BATCH_SECONDS)
                tasks.cancel_scope.cancel()
        finally:
            self._pages -= 1
            self._of_profiles -= of_profile
            self._by_login[login] -= 1
            if not self._by_login[login]:
                del self._by_login[login]

    async def _wait_for_close(self, scope: anyio.CancelScope) -> None:
        await self._closed.wait()
        scope.cancel()

    async def _run(self, name: str, feed: Feed, batch: "_Batch") -> None:
        """Run a feed; after a failure, for example of the journal, start it again."""

        def publish(value: JsonValue, *, key: str | None = None) -> None:
            batch.add(name, value, key)

        while True:
            try:
                await feed(self._bench, publish)
            except (SpindleError, OSError) as error:
                batch.add("problem", {"topic": name, "message": str(error)[:500]}, name)
            except Exception:  # noqa: BLE001  one feed must not end the stream of the others
                _LOG.exception("the live feed %s failed", name)
                batch.add("problem", {"topic": name, "message": "the server failed; its log says more"}, name)
            await anyio.sleep(_RETRY_SECONDS)


def _name_login(user: PageUser) -> str:
    """Return what pages are counted by: the holder of a token can log in as often as he likes."""
    return user.session if user.profile is None else f"profile {user.profile}"


class _EventStream(Response):
    """The response of a stream; feeds end with the connection, whatever ends it."""

    media_type = "text/event-stream"

    def __init__(
        self,
        live: LiveUpdates,
        feeds: Mapping[str, Feed],
        user: PageUser | None,
        stay: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._live, self._feeds, self._user, self._stay = live, feeds, user, stay

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _listener.set(self._user)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        is_gone = False
        if scope["method"] != "HEAD":
            async with anyio.create_task_group() as tasks:

                async def wait_for_disconnect() -> None:
                    nonlocal is_gone
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    is_gone = True
                    tasks.cancel_scope.cancel()

                async def send_part(part: bytes) -> None:
                    nonlocal is_gone
                    try:
                        with anyio.fail_after(STUCK_SECONDS):
                            await send({"type": "http.response.body", "body": part, "more_body": True})
                    except OSError:  # it has left, or reads nothing (TimeoutError)
                        is_gone = True
                        tasks.cancel_scope.cancel()

                tasks.start_soon(wait_for_disconnect)
                try:
                    await self._live.stream(self._feeds, send_part, self._stay)
                except RequestConflictError:  # the browser tries again, and is refused then
                    pass
                finally:
                    tasks.cancel_scope.cancel()
        if not is_gone:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Batch:
    """What waits to be sent to one page."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str | int], JsonValue] = {}
        self._count = 0
        self._lost: set[str] = set()
        self._has_more = anyio.Event()

    def add(self, topic: str, value: JsonValue, key: str | None) -> None:
        self._count += 1
        self._waiting[topic, self._count if key is None else key] = value
        if len(self._waiting) > MAX_BATCH:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self._lost.add(oldest[0])
        self._has_more.set()

    async def wait(self) -> None:
        await self._has_more.wait()

    def take(self) -> bytes:
        waiting, self._waiting = self._waiting, {}
        lost, self._lost = sorted(self._lost), set()
        self._has_more = anyio.Event()
        parts = [_write("lost", {"topics": list(lost)})] if lost else []
        parts += [_write(topic, value) for (topic, _), value in waiting.items()]
        return b"".join(parts)


def _write(topic: str, value: JsonValue) -> bytes:
    try:
        return f"event: {topic}\ndata: {json.dumps(value, allow_nan=False)}\n\n".encode()
    except (ValueError, TypeError, RecursionError):
        _LOG.exception("a value of the live feed %s is not JSON", topic)
        return b""
