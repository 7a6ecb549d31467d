"""Tells clients of changes: of the lists of prompts and resources, and of resources that they are subscribed to.

On the older protocol a client subscribes to each resource; on the newer one it listens on a stream with a filter.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

from spindle.json_types import JsonObject
from spindle.mcp.client.catalog import FeatureTarget, UpstreamCatalog
from spindle.mcp.client.features import ChangeKind, UpstreamFeatures
from spindle.mcp.server.peer import Context
from spindle.mcp.server.replicas import Replica
from spindle.mcp.server.sessions import MAX_SESSIONS, McpSession
from spindle.mcp.server.tool_changes import NOTIFY_SECONDS
from spindle.tools.filters import allows_feature

MAX_SUBSCRIPTIONS: Final = 500
"""Resources that one client may be subscribed to at once."""
LIST_SECONDS: Final = 1.0
"""Least time between two notifications of a changed list."""
UPDATE_SECONDS: Final = 0.1
"""Least time between two rounds of notifications of updated resources; updates meanwhile are sent together."""
_MAX_PENDING: Final = 10_000


@dataclass(eq=False)
class _Subscriber:
    """A client of the older protocol and the resources it is subscribed to, by the URIs it uses."""

    peer: Any
    targets: dict[str, FeatureTarget] = field(default_factory=dict[str, FeatureTarget])


class FeatureChanges:
    """The subscriptions of clients; `propagate` sends them what changes."""

    def __init__(
        self,
        catalog: UpstreamCatalog,
        bus: InMemorySubscriptionBus,
        listening: ListenHandler,
        get_sessions: Callable[[], Sequence[McpSession]],
        replica: Replica | None,
    ) -> None:
        self._catalog, self._bus, self._listening = catalog, bus, listening
        self._get_sessions, self._replica = get_sessions, replica
        if replica is not None:
            replica.on("resource_updated", self._hear_of_update)
        self._subscribers: OrderedDict[str, _Subscriber] = OrderedDict()
        self._updated: dict[str, None] = {}
        self._lists: dict[ChangeKind, None] = {}
        self._has_news = anyio.Event()
        catalog.on_change(self._note_list)
        for server in catalog.servers:
            server.watch.on_update(lambda uri, server=server: self._note_update(server, uri))

    def _note_list(self, kind: ChangeKind) -> None:
        self._lists[kind] = None
        self._has_news.set()

    def _note_update(self, server: UpstreamFeatures, own: str) -> None:
        if len(self._updated) < _MAX_PENDING and server.may_read(own):
            self._updated[server.uris.to_gateway(own)] = None
            self._has_news.set()

    # --- subscriptions

    async def subscribe(
        self, ctx: Context, session: McpSession, uri: str, offered: Callable[[], Awaitable[Any]] | None
    ) -> types.EmptyResult:
        """Subscribe a client of the older protocol to a resource; `offered` does so at the server of `offers`.

        Raises:
            MCPError: There is no such resource, its server has no subscriptions, or there are too many.
        """
        subscriber = self._subscribers.setdefault(session.key, _Subscriber(ctx.session))
        subscriber.peer = ctx.session
        self._subscribers.move_to_end(session.key)
        if uri in subscriber.targets:
            return types.EmptyResult()
        target = await self._find(session, uri, guess=offered is None)
        if target is None:
            if offered is not None and allows_feature(session.filter, "resource", uri, None):
                return await offered()
            raise MCPError(types.INVALID_PARAMS, "No such resource, or no subscriptions to it", {"uri": uri})
        if len(subscriber.targets) >= MAX_SUBSCRIPTIONS or not target.server.watch.add(target.own_name):
            raise MCPError(types.INTERNAL_ERROR, f"More than {MAX_SUBSCRIPTIONS} subscriptions; end some of them.")
        subscriber.targets[uri] = target
        if not await target.server.watch.wait_until_active(target.own_name):
            subscriber.targets.pop(uri, None)
            target.server.watch.remove(target.own_name)
            name = target.server.spec.name
            raise MCPError(types.INTERNAL_ERROR, f"MCP server {name!r} refused the subscription.", {"uri": uri})
        while len(self._subscribers) > MAX_SESSIONS:
            self.forget(next(iter(self._subscribers)))
        return types.EmptyResult()

    async def unsubscribe(
        self, session: McpSession, uri: str, offered: Callable[[], Awaitable[Any]] | None
    ) -> types.EmptyResult:
        """End a subscription of a client of the older protocol."""
        subscriber = self._subscribers.get(session.key)
        target = None if subscriber is None else subscriber.targets.pop(uri, None)
        if target is not None:
            target.server.watch.remove(target.own_name)
        elif offered is not None:
            return await offered()
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, session: McpSession, params: types.SubscriptionsListenRequestParams, *, has_offers: bool
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of the newer protocol; only resources that the client may read are acknowledged."""
        asked = params.notifications.resource_subscriptions or []
        targets: dict[str, FeatureTarget] = {}
        honored: list[str] = []
        for uri in list(dict.fromkeys(asked))[:MAX_SUBSCRIPTIONS]:
            target = await self._find(session, uri, guess=not has_offers)
            if target is not None:
                targets[uri] = target
            if target is not None or (has_offers and allows_feature(session.filter, "resource", uri, None)):
                honored.append(uri)
        wanted = params.notifications.model_copy(update={"resource_subscriptions": honored or None})
        with _watch(targets.values()) as active:
            for target in active:
                await target.server.watch.wait_until_active(target.own_name)
            return await self._listening(ctx, params.model_copy(update={"notifications": wanted}))

    async def _find(self, session: McpSession, uri: str, *, guess: bool) -> FeatureTarget | None:
        target = await self._catalog.find_resource(uri, session.filter, guess=guess)
        return target if target is not None and target.server.can_watch else None

    def forget(self, key: str) -> None:
        """End the subscriptions of a client that has disconnected."""
        subscriber = self._subscribers.pop(key, None)
        for target in () if subscriber is None else subscriber.targets.values():
            target.server.watch.remove(target.own_name)

    # --- notifications

    async def propagate(self) -> None:
        """Notify clients of changes until cancelled."""
        notified_at = -LIST_SECONDS
        while True:
            await self._has_news.wait()
            self._has_news = anyio.Event()
            updated, self._updated = list(self._updated), {}
            for uri in updated:
                await self._send_update(uri)
            if self._lists:
                left = notified_at + LIST_SECONDS - anyio.current_time()
                if left <= 0:
                    lists, self._lists = list(self._lists), {}
                    for kind in lists:
                        await self._send_list_change(kind)
                    notified_at = anyio.current_time()
                else:
                    self._has_news.set()
            await anyio.sleep(UPDATE_SECONDS)

    async def _send_update(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri))
        for key, subscriber in list(self._subscribers.items()):
            if uri in subscriber.targets:
                await _send(subscriber.peer.send_resource_updated, uri)
                if self._replica is not None:
                    self._replica.post("resource_updated", {"session": key, "uri": uri})

    async def _hear_of_update(self, content: JsonObject) -> None:
        """Notify a client that is connected here and has subscribed at another replica."""
        for session in self._get_sessions():
            if session.key == content.get("session") and session.peer is not None:
                await _send(session.peer.send_resource_updated, str(content.get("uri")))

    async def _send_list_change(self, kind: ChangeKind) -> None:
        await self._bus.publish(PromptsListChanged() if kind == "prompts" else ResourcesListChanged())
        for session in self._get_sessions():
            if session.peer is not None:
                peer = session.peer
                await _send(peer.send_prompt_list_changed if kind == "prompts" else peer.send_resource_list_changed)


@contextmanager
def _watch(targets: "Any") -> Generator[list[FeatureTarget]]:
    """Subscribe to resources inside the block, as far as there is room."""
    active = [each for each in targets if each.server.watch.add(each.own_name)]
    try:
        yield active
    finally:
        for each in active:
            each.server.watch.remove(each.own_name)


async def _send(send: Callable[..., Awaitable[None]], *args: str) -> None:
    try:
        with anyio.move_on_after(NOTIFY_SECONDS):
            await send(*args)
    except Exception:  # noqa: BLE001  the client has disconnected
        return
