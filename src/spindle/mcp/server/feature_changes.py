"""Tells clients of changes: of the lists of prompts and resources, and of resources that they are subscribed to.

On the older protocol a client subscribes to each resource; on the newer one it listens on a stream with a filter.
What a server with OAuth changes over the connection of a user is sent to the clients of this user only.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakSet

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from mcp.shared.exceptions import MCPError
from typing_extensions import override

from spindle.json_types import JsonObject
from spindle.mcp.client.catalog import FeatureTarget, UpstreamCatalog
from spindle.mcp.client.features import ChangeKind, UpstreamFeatures
from spindle.mcp.client.user_connections import DEFAULT_USER
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


@dataclass(frozen=True)
class UserUpdate(ResourceUpdated):
    """A resource that a server with OAuth has changed for one user."""

    source: int
    """The identity of the user's connection."""


@dataclass(frozen=True)
class UserPrompts(PromptsListChanged):
    """Prompts that a server with OAuth has changed for one user."""

    user: str


@dataclass(frozen=True)
class UserResources(ResourcesListChanged):
    """Resources that a server with OAuth has changed for one user."""

    user: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stream:
    """Whom a stream is for."""

    user: str | None = None
    sources: frozenset[int] = frozenset()

    def gets(self, event: ServerEvent) -> bool:
        match event:
            case UserUpdate(source=source):
                return source in self.sources
            case UserPrompts(user=user) | UserResources(user=user):
                return user == self.user
            case _:
                return True


_stream: ContextVar[_Stream | None] = ContextVar("spindle_update_stream", default=None)


class UpdateBus(InMemorySubscriptionBus):
    """A bus whose streams hear of one user's events only if they were opened for him."""

    @override
    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register the listener of a stream."""
        stream = _stream.get() or _Stream()

        def deliver(event: ServerEvent) -> None:
            if stream.gets(event):
                listener(event)

        return super().subscribe(deliver)


@contextmanager
def opened_for(user: str | None, servers: Iterable[object]) -> Generator[None]:
    """Open streams of a user inside the block, for the resources of servers, which must live as long as the streams."""
    token = _stream.set(_Stream(user=find_name(user), sources=frozenset(map(id, servers))))
    try:
        yield
    finally:
        _stream.reset(token)


def find_name(user: str | None) -> str:
    """Return the name of a client's user; where there are no users, it is the only one."""
    return DEFAULT_USER if user is None else user


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
        self._updated: dict[tuple[str, UpstreamFeatures], None] = {}
        self._heard: WeakSet[UpstreamFeatures] = WeakSet()
        self._lists: dict[tuple[ChangeKind, str | None], None] = {}
        """The lists that changed, and the only user for whom; `None` for all."""
        self._has_news = anyio.Event()
        catalog.on_change(self._note_list, by_user=self._note_list)

    def _hear(self, server: UpstreamFeatures) -> None:
        """Note the updates of a server from now on; each connection of a user to a server with OAuth is one."""
        if server not in self._heard:
            self._heard.add(server)
            server.watch.on_update(lambda uri: self._note_update(server, uri))

    def _note_list(self, kind: ChangeKind, user: str | None = None) -> None:
        self._lists[kind, user] = None
        self._has_news.set()

    def _note_update(self, server: UpstreamFeatures, own: str) -> None:
        if len(self._updated) < _MAX_PENDING and server.may_read(own):
            self._updated[server.uris.to_gateway(own), server] = None
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
        target = await self._find(session, uri, guess=offered is None)
        known = subscriber.targets.get(uri)
        if known is not None and (target is None or target.server is known.server):
            return types.EmptyResult()
        if known is not None:  # the connection of its user was replaced
            subscriber.targets.pop(uri)
            known.server.watch.remove(known.own_name)
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
        with _watch(targets.values()) as active, opened_for(session.user, [each.server for each in active]):
            for target in active:
                await target.server.watch.wait_until_active(target.own_name)
            return await self._listening(ctx, params.model_copy(update={"notifications": wanted}))

    async def _find(self, session: McpSession, uri: str, *, guess: bool) -> FeatureTarget | None:
        target = await self._catalog.for_user(session.user).find_resource(uri, session.filter, guess=guess)
        if target is None or target.server.problem is not None or not target.server.can_watch:
            return None
        self._hear(target.server)
        return target

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
            for uri, server in updated:
                await self._send_update(uri, server)
            if self._lists:
                left = notified_at + LIST_SECONDS - anyio.current_time()
                if left <= 0:
                    lists, self._lists = list(self._lists), {}
                    for kind, user in lists:
                        await self._send_list_change(kind, user)
                    notified_at = anyio.current_time()
                else:
                    self._has_news.set()
            await anyio.sleep(UPDATE_SECONDS)

    async def _send_update(self, uri: str, server: UpstreamFeatures) -> None:
        is_shared = server.spec.oauth is None
        await self._bus.publish(ResourceUpdated(uri) if is_shared else UserUpdate(uri, id(server)))
        for key, subscriber in list(self._subscribers.items()):
            target = subscriber.targets.get(uri)
            if target is not None and (is_shared or target.server is server):
                await _send(subscriber.peer.send_resource_updated, uri)
                if self._replica is not None:
                    self._replica.post("resource_updated", {"session": key, "uri": uri})

    async def _hear_of_update(self, content: JsonObject) -> None:
        """Notify a client that is connected here and has subscribed at another replica."""
        for session in self._get_sessions():
            if session.key == content.get("session") and session.peer is not None:
                await _send(session.peer.send_resource_updated, str(content.get("uri")))

    async def _send_list_change(self, kind: ChangeKind, user: str | None) -> None:
        if kind == "prompts":
            await self._bus.publish(PromptsListChanged() if user is None else UserPrompts(user))
        else:
            await self._bus.publish(ResourcesListChanged() if user is None else UserResources(user))
        for session in self._get_sessions():
            if session.peer is not None and user in (None, find_name(session.user)):
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
