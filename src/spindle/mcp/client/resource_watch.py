"""Subscriptions to the resources of one upstream server, on both revisions of the protocol."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskStatus

from spindle.mcp.client.connection import UpstreamConnection
from spindle.mcp.client.lifecycle import ActiveConnection, describe_failure

if TYPE_CHECKING:
    from mcp.client.subscriptions import ServerEvent

MAX_WATCHED: Final = 2_000
"""Resources of one server that clients may be subscribed to at once."""
_ACTIVE_SECONDS: Final = 5.0
_RELISTEN_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)

Notice = Callable[["ServerEvent"], None]


class ResourceWatch:
    """The resources of a server that clients are subscribed to, by its own URIs.

    The older protocol subscribes to each; the newer one has a stream, which is opened anew when they change.
    """

    def __init__(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        self._wanted: Counter[str] = Counter()
        self._changed = anyio.Event()
        self._listeners: dict[object, Callable[[str], None]] = {}
        self._subscribed: set[str] = set()
        self._refused: set[str] = set()
        self._settled = anyio.Event()
        self._has_ended = False

    def on_update(self, fn: Callable[[str], None]) -> Callable[[], None]:
        """Call `fn` with the server's own URI of each updated resource; return a function that unsubscribes it."""
        key = object()
        self._listeners[key] = fn
        return lambda: self._listeners.pop(key, None) and None

    def add(self, uri: str) -> bool:
        """Subscribe to a resource until `remove` was called as often; return whether there was room."""
        if uri not in self._wanted and len(self._wanted) >= MAX_WATCHED:
            return False
        self._wanted[uri] += 1
        if self._wanted[uri] == 1:
            self._changed.set()
        return True

    @property
    def is_wanted(self) -> bool:
        """Whether there is a subscription."""
        return bool(self._wanted)

    def remove(self, uri: str) -> None:
        """End one subscription to a resource."""
        self._wanted[uri] -= 1
        if self._wanted[uri] <= 0:
            del self._wanted[uri]
            self._refused.discard(uri)
            self._changed.set()

    async def wait_until_active(self, uri: str) -> bool:
        """Wait, but not for long, until the server knows of a subscription; return whether it did not refuse it."""
        with anyio.move_on_after(_ACTIVE_SECONDS):
            while uri not in self._subscribed and uri not in self._refused:
                await self._settled.wait()
        return uri not in self._refused

    def _settle(self, subscribed: Iterable[str]) -> None:
        self._subscribed = set(subscribed)
        self._settled.set()
        self._settled = anyio.Event()

    def notify(self, uri: str) -> None:
        """Report an update; that of a part of a resource is an update of the resource."""
        for wanted in list(self._wanted):
            if uri == wanted or uri.startswith(wanted.rstrip("/") + "/"):
                for listener in list(self._listeners.values()):
                    listener(wanted)

    async def run(self, live: ActiveConnection, notice: Notice, on_gap: Callable[[], None]) -> None:
        """Keep the subscriptions of a connection up until cancelled; `notice` gets what the server reports.

        `on_gap` is called when changes may have been missed before a stream was open.
        """
        requests = live.session.features
        declared = requests.capabilities
        self._subscribed, self._refused = set(), set()
        if requests.is_modern:
            if _can_listen(declared):
                await self._run_streams(live, notice, on_gap)
        elif declared.resources is not None and declared.resources.subscribe:
            await self._run_requests(live)

    async def _run_requests(self, live: ActiveConnection) -> None:
        """Subscribe and unsubscribe one by one, as the older protocol does."""
        requests = live.session.features
        while True:
            self._changed = anyio.Event()
            for uri in [*(self._wanted.keys() - self._subscribed), *(self._subscribed - self._wanted.keys())]:
                is_new = uri in self._wanted
                try:
                    await (requests.subscribe(uri) if is_new else requests.unsubscribe(uri))
                    self._refused.discard(uri)
                except Exception as error:  # noqa: BLE001  a refused subscription must not end the others
                    if is_new:
                        self._refused.add(uri)
                        self._connection.warn(f"refused a subscription: {describe_failure(error)}")
                self._settle(self._subscribed | {uri} if is_new else self._subscribed - {uri})
            await self._changed.wait()

    async def _run_streams(self, live: ActiveConnection, notice: Notice, on_gap: Callable[[], None]) -> None:
        """Listen on a stream; another one replaces it, once it is open, when other resources are wanted."""
        previous: anyio.CancelScope | None = None
        failures = 0
        async with anyio.create_task_group() as group:
            while True:
                self._changed = anyio.Event()
                scope: anyio.CancelScope | None = await group.start(self._listen, live, notice)
                is_replaced = previous is not None and not self._has_ended
                if previous is not None:
                    previous.cancel()
                previous = scope
                if scope is None:
                    if failures >= len(_RELISTEN_SECONDS):
                        return
                    await self._connection.services.clock.sleep(_RELISTEN_SECONDS[failures])
                    failures += 1
                    continue
                failures = 0
                if not is_replaced:
                    on_gap()
                self._has_ended = False
                await self._changed.wait()

    async def _listen(
        self, live: ActiveConnection, notice: Notice, *, task_status: TaskStatus[anyio.CancelScope | None]
    ) -> None:
        declared = live.session.features.capabilities
        can_watch = declared.resources is not None and bool(declared.resources.subscribe)
        is_open, scope = False, anyio.CancelScope()
        try:
            with scope:
                wanted = sorted(self._wanted) if can_watch else []
                async with live.session.features.listen(wanted) as events:
                    task_status.started(scope)
                    honored = set(events.honored.resource_subscriptions or ())
                    self._refused = set(wanted) - honored
                    self._settle(honored)
                    is_open = True
                    async for event in events:
                        notice(event)
        except Exception as error:  # noqa: BLE001  whatever ends a stream, it is opened again
            _ignore(error)
        if not is_open:
            task_status.started(None)
        elif not scope.cancel_called:
            await self._connection.services.clock.sleep(_RELISTEN_SECONDS[0])
            self._has_ended = True
            self._changed.set()


def _can_listen(declared: Any) -> bool:
    prompts, resources = declared.prompts, declared.resources
    return bool(
        (prompts is not None and prompts.list_changed)
        or (resources is not None and (resources.list_changed or resources.subscribe))
    )


def _ignore(_error: Exception) -> None:
    """Do nothing with an error that was expected."""
