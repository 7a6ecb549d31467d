"""`UpstreamCatalog`: the prompts and resources of all upstream servers, under the names that clients use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import anyio

from spindle.errors import UnknownFeatureError
from spindle.events import Events
from spindle.mcp.client.feature_definitions import Feature, Kind
from spindle.mcp.client.features import KINDS, ChangeKind, ListKind, UpstreamFeatures
from spindle.mcp.client.resource_uris import MAX_URI_CHARS
from spindle.mcp.client.tools import full_name
from spindle.mcp.client.user_connections import find_user
from spindle.text import quote_name
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter, allows_feature

if TYPE_CHECKING:
    from mcp_types import (
        CompleteRequestParams,
        CompleteResult,
        GetPromptResult,
        Prompt,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
    )


_MAX_REPORTED: Final = 1_000

ByUser: TypeAlias = Callable[[ChangeKind, str], None]
"""Gets what has changed, and the user whose list it is."""


@dataclass(frozen=True, slots=True)
class FeatureTarget:
    """Where a prompt or resource is found: its server, and the server's own name of it."""

    server: UpstreamFeatures
    own_name: str


class FeaturesByUser(Protocol):
    """The prompts and resources of a server with OAuth, for each user."""

    def get_features(self, user: str | None) -> UpstreamFeatures:
        """Return those of a user's own connection; those of a user without a login are `AbsentFeatures`."""
        ...


class UpstreamCatalog:
    """The prompts, resources and resource templates of all servers, in the order of the specs.

    A filter decides at one place what is shown and what may be used. A name that two servers without a prefix offer
    belongs to the first. Of servers with OAuth, these are what the user "default" has, or the user of `ctx`;
    `for_user` returns what another one has.
    """

    def __init__(
        self,
        servers: Sequence[UpstreamFeatures] = (),
        events: Events | None = None,
        *,
        by_user: Mapping[str, FeaturesByUser] | None = None,
    ) -> None:
        self.servers = servers
        self._events = Events() if events is None else events
        self._by_user = by_user or {}
        self._listeners: dict[object, tuple[Callable[[ChangeKind], None], ByUser | None]] = {}
        self._reported: set[tuple[str, str]] = set()
        self._is_withheld: Callable[[str, Kind, str], bool] | None = None

    # --- users

    def for_user(self, user: str | None) -> "UpstreamCatalog":
        """Return what one user has: of servers with OAuth, what they list over his own connection."""
        if not self._by_user:
            return self
        view = UpstreamCatalog([self._select(each, user) for each in self.servers], self._events)
        view._reported = self._reported
        return view

    def _select(self, server: UpstreamFeatures, user: str | None) -> UpstreamFeatures:
        users = self._by_user.get(server.spec.name)
        if users is None:
            return server
        own = users.get_features(user)
        if self._listeners:
            own.follow()
        if self._is_withheld is not None:
            own.is_withheld = _bind(self._is_withheld, own.spec.name)
        return own

    def _for_context(self, ctx: ToolContext | None) -> "UpstreamCatalog":
        return self.for_user(None if ctx is None else find_user(ctx) or "")

    # --- lists

    async def list_prompts(self, filter: ToolFilter | None = None) -> "list[Prompt]":
        """Return the prompts that a filter allows; a server that is idle is started."""
        return [each.shown for each in await self.list("prompts", filter)]

    async def list_resources(self, filter: ToolFilter | None = None) -> "list[Resource]":
        """Return the resources that a filter allows; a server that is idle is started."""
        return [each.shown for each in await self.list("resources", filter)]

    async def list_resource_templates(self, filter: ToolFilter | None = None) -> "list[ResourceTemplate]":
        """Return the resource templates that a filter allows; a server that is idle is started."""
        return [each.shown for each in await self.list("templates", filter)]

    async def list(self, kind: ListKind, filter: ToolFilter | None = None) -> "list[Feature]":
        """Return the definitions of one kind that a filter allows."""
        if self._by_user:
            return await self.for_user(None).list(kind, filter)
        await self._refresh(kind)
        return [each for each in self._merge(kind) if allows_feature(filter, each.filter_kind, each.name, each.server)]

    async def _refresh(self, *kinds: ListKind) -> None:
        enabled = [each for each in self.servers if each.spec.enabled]
        async with anyio.create_task_group() as group:
            for server in enabled:
                for kind in kinds:
                    group.start_soon(server.refresh, kind)

    def _merge(self, kind: ListKind) -> "list[Feature]":
        found: dict[str, Feature] = {}
        for server in self.servers:
            for feature in server.get_shown(kind):
                holder = self._find_holder(feature, found)
                if holder is None:
                    found[feature.name] = feature
                else:
                    self._report_taken(feature, holder)
        return list(found.values())

    def _find_holder(self, feature: Feature, found: Mapping[str, Feature]) -> str | None:
        if feature.name in found:
            return found[feature.name].server
        return None if feature.kind == "prompt" else self._find_prefixed_owner(feature.name, feature.server)

    def _find_prefixed_owner(self, uri: str, besides: str) -> str | None:
        """Return the server to which a URI belongs by its form, if that is another one."""
        owner = self._find_by_form(uri)
        return None if owner is None or owner.server.spec.name == besides else owner.server.spec.name

    def _report_taken(self, feature: Feature, holder: str) -> None:
        key = feature.server, feature.name
        if key not in self._reported and len(self._reported) < _MAX_REPORTED:
            self._reported.add(key)
            what = f"its {feature.kind} {quote_name(feature.own_name)} is left out"
            text = f"MCP server {feature.server!r}: {what}: the name is taken by MCP server {holder!r}"
            self._events.warn(text, source="mcp")

    def get_definitions(self, server: str) -> "list[Feature]":
        """Return all current definitions of a server, also those that are withheld; empty for an unknown server."""
        servers = self.for_user(None).servers
        return [feature for each in servers if each.spec.name == server for feature in each.get_definitions()]

    def withhold(self, is_withheld: Callable[[str, Kind, str], bool]) -> None:
        """Neither show nor read what `is_withheld` returns True for: server, kind, the server's own name or URI.

        Call `report_change` when its answers change.
        """
        self._is_withheld = is_withheld
        for server in self.servers:
            server.is_withheld = _bind(is_withheld, server.spec.name)

    # --- changes

    def on_change(self, fn: Callable[[ChangeKind], None], *, by_user: ByUser | None = None) -> Callable[[], None]:
        """Call `fn` whenever a list changes; return a function that unsubscribes it.

        With `by_user`, this is called instead if a server with OAuth has changed the list of one user.
        """
        key = object()
        self._listeners[key] = fn, by_user
        for server in self.servers:
            server.follow()

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    def report_change(self, kind: ChangeKind, user: str | None = None) -> None:
        """Notify the listeners that a list has changed, with `user` for him alone."""
        for listener, by_user in list(self._listeners.values()):
            try:
                if user is None or by_user is None:
                    listener(kind)
                else:
                    by_user(kind, user)
            except Exception as error:  # noqa: BLE001  a failing listener must not stop a server
                self._events.warn("a listener of the prompts and resources raised", source="mcp", error=error)

    # --- one of them

    async def find_prompt(self, name: str, filter: ToolFilter | None = None) -> FeatureTarget | None:
        """Return where a prompt is found, if a filter allows it."""
        if self._by_user:
            return await self.for_user(None).find_prompt(name, filter)
        for is_retry in (False, True):
            if is_retry:
                await self._refresh("prompts")
            found = next((each for each in self._merge("prompts") if each.name == name), None)
            if found is not None:
                is_allowed = allows_feature(filter, "prompt", name, found.server)
                return FeatureTarget(self._get_server(found.server), found.own_name) if is_allowed else None
        absent = self._find_absent_prompt(name)
        is_allowed = absent is not None and allows_feature(filter, "prompt", name, absent.server.spec.name)
        return absent if is_allowed else None

    def _find_absent_prompt(self, name: str) -> FeatureTarget | None:
        """Return a prompt of a server that has none for this user, so that getting it fails with the reason."""
        for server in self.servers:
            start = full_name(server.spec, "")
            if server.problem is not None and start and name.startswith(start):
                return FeatureTarget(server, name.removeprefix(start))
        return None

    async def find_resource(
        self, uri: str, filter: ToolFilter | None = None, *, guess: bool = True
    ) -> FeatureTarget | None:
        """Return where a resource is found, if a filter allows it or a template that expands to it.

        With `guess`, the only server without a prefix also gets a URI that it does not list.
        """
        if self._by_user:
            return await self.for_user(None).find_resource(uri, filter, guess=guess)
        if len(uri) > MAX_URI_CHARS:
            return None
        target = self._find_by_form(uri)
        if target is not None and target.server.spec.oauth is not None:
            for kind in KINDS:  # a new connection of a user has not been checked against the lock
                if not target.server.has_listed(kind):
                    await target.server.refresh(kind)
        if target is None:
            bare = [each for each in self.servers if not each.spec.prefix and each.can_have("resources")]
            if bare and not any(each.is_listed(uri) for each in bare):
                await self._refresh("resources", "templates")
            owner = next((each for each in bare if each.is_listed(uri)), None)
            if owner is None and guess and len(bare) == 1:
                owner = bare[0]
            target = None if owner is None else FeatureTarget(owner, uri)
        return target if target is not None and self._may_read(target, uri, filter) else None

    def _find_by_form(self, uri: str) -> FeatureTarget | None:
        for server in self.servers:
            own = server.uris.to_server(uri) if server.spec.prefix and server.spec.enabled else None
            if own is not None:
                return FeatureTarget(server, own)
        return None

    def _may_read(self, target: FeatureTarget, uri: str, filter: ToolFilter | None) -> bool:
        name = target.server.spec.name
        if not target.server.may_read(target.own_name):
            return False
        return allows_feature(filter, "resource", uri, name) or any(
            allows_feature(filter, "resource", each.name, name)
            for each in target.server.find_templates(target.own_name)
        )

    def _get_server(self, name: str) -> UpstreamFeatures:
        return next(each for each in self.servers if each.spec.name == name)

    async def find_reference(self, ref: Any, filter: ToolFilter | None = None) -> FeatureTarget | None:
        """Return where the prompt or resource template of a completion request is found."""
        if ref.type == "ref/prompt":
            return await self.find_prompt(ref.name, filter)
        if self._by_user:
            return await self.for_user(None).find_reference(ref, filter)
        for is_retry in (False, True):
            if is_retry:
                await self._refresh("templates", "resources")
            merged = {each.name: each for kind in KINDS if kind != "prompts" for each in self._merge(kind)}
            found = merged.get(ref.uri)
            if found is not None:
                is_allowed = allows_feature(filter, "resource", found.name, found.server)
                return FeatureTarget(self._get_server(found.server), found.own_name) if is_allowed else None
        absent = self._find_by_form(ref.uri)
        if absent is None or absent.server.problem is None:
            return None
        return absent if allows_feature(filter, "resource", ref.uri, absent.server.spec.name) else None

    async def read_resource(
        self,
        uri: str,
        *,
        filter: ToolFilter | None = None,
        ctx: ToolContext | None = None,
    ) -> "ReadResourceResult":
        """Read a resource by the URI that the lists have; its text is untrusted unless its server is trusted.

        Raises:
            UnknownFeatureError: No server has it, or the filter does not allow it.
            UpstreamError: The server refused, cannot be connected, or did not answer in time.
        """
        target = await self._for_context(ctx).find_resource(uri, filter)
        if target is None:
            raise UnknownFeatureError(f"no resource {quote_name(uri)} is offered here", name=uri)
        # Without a second round, a server that asks is answered here.
        return cast("ReadResourceResult", await target.server.read(target.own_name, ctx=ctx or ToolContext()))

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        filter: ToolFilter | None = None,
        ctx: ToolContext | None = None,
    ) -> "GetPromptResult":
        """Get a prompt by the name that the list has; its text is untrusted unless its server is trusted.

        Raises:
            UnknownFeatureError: No server has it, or the filter does not allow it.
            UpstreamError: The server refused, cannot be connected, or did not answer in time.
        """
        target = await self._for_context(ctx).find_prompt(name, filter)
        if target is None:
            raise UnknownFeatureError(f"no prompt {quote_name(name)} is offered here", name=name)
        return cast(
            "GetPromptResult", await target.server.get_prompt(target.own_name, arguments, ctx=ctx or ToolContext())
        )

    async def complete(
        self, params: "CompleteRequestParams", *, filter: ToolFilter | None = None, ctx: ToolContext | None = None
    ) -> "CompleteResult":
        """Complete an argument of a prompt or resource template.

        Raises:
            UnknownFeatureError: No server has it, or the filter does not allow it.
            UpstreamError: The server refused, cannot be connected, or did not answer in time.
        """
        target = await self._for_context(ctx).find_reference(params.ref, filter)
        if target is None:
            name = getattr(params.ref, "name", None) or getattr(params.ref, "uri", "")
            raise UnknownFeatureError(f"no prompt or template {quote_name(name)} is offered here", name=name)
        field = "name" if params.ref.type == "ref/prompt" else "uri"
        ref = params.ref.model_copy(update={field: target.own_name})
        own = params.model_copy(update={"ref": ref, "meta": None})
        return await target.server.complete(own, ctx=ctx or ToolContext())


def _bind(is_withheld: Callable[[str, Kind, str], bool], server: str) -> Callable[[Kind, str], bool]:
    return lambda kind, name: is_withheld(server, kind, name)
