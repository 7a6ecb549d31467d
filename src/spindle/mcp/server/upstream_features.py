"""Serves prompts and resources of upstream servers, and of `offers`, beside the tools. Read `FeatureServer.read`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Any, Final, TypeAlias

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.calls import Call
from spindle.errors import UpstreamError, UpstreamRefusedError
from spindle.events import Events
from spindle.json_types import JsonObject
from spindle.mcp.client.catalog import FeatureTarget, UpstreamCatalog
from spindle.mcp.client.feature_requests import InputAnswers
from spindle.mcp.client.features import ListKind
from spindle.mcp.client.resource_uris import UI
from spindle.mcp.server.app_pages import build_reach, is_app_page, wrap_contents
from spindle.mcp.server.call_load import CallLoad
from spindle.mcp.server.content_budget import ContentBudget
from spindle.mcp.server.feature_changes import FeatureChanges
from spindle.mcp.server.feature_lists import FeatureLists
from spindle.mcp.server.peer import CallClient, Context
from spindle.mcp.server.sessions import McpSession
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter, allows_feature
from spindle.trust.sanitise import sanitise

RESOURCE_NOT_FOUND: Final = -32002
"""The code of the revisions before 2026-07-28, which uses that of invalid parameters."""

ReadAnswer: TypeAlias = types.ReadResourceResult | types.InputRequiredResult
GetAnswer: TypeAlias = types.GetPromptResult | types.InputRequiredResult


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientAccess:
    """What the server knows about the sender of a request."""

    get_session: Callable[[Context], McpSession]
    get_conversation: Callable[[Context], str]
    on_read: Callable[[Context], Awaitable[None]]
    """Remembers that the client reads untrusted content."""
    on_result: Callable[[Context, str, object], None]
    """Remembers the untrusted content of a prompt or resource, by its name."""
    is_ready: anyio.Event | None
    """Set once the upstream servers are connected, or have failed to be."""
    load: CallLoad
    list_tools: Callable[[Context, str], Mapping[str, str]]
    """Returns the tools of an upstream server that the client sees: its own name → the name that the client uses."""

    async def wait_until_ready(self) -> None:
        """Wait until the upstream servers are connected."""
        if self.is_ready is not None:
            await self.is_ready.wait()


class GatewaySdk(Server[Any]):
    """A server of the SDK that declares prompts and resources only if there can be any."""

    features: "FeatureServer | None" = None

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """Return the capabilities that are true now; servers that are not connected yet may have any."""
        options = notification_options
        if self.features is not None and self.features.catalog.servers:
            options = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        declared = super().get_capabilities(
            options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        return declared if self.features is None else self.features.limit_capabilities(declared)


class FeatureServer:
    """The handlers for prompts and resources of all upstream servers and of `offers`."""

    def __init__(
        self,
        catalog: UpstreamCatalog,
        offers: Server[Any] | None,
        access: ClientAccess,
        changes: FeatureChanges,
        budget: ContentBudget,
    ) -> None:
        self.catalog = catalog
        self._offers, self._access, self._budget = offers, access, budget
        self._lists = FeatureLists(catalog, offers)
        self.changes = changes

    def register(self, sdk: GatewaySdk) -> None:
        """Add the handlers to a server."""
        sdk.features = self
        paged = types.PaginatedRequestParams
        handlers: dict[str, tuple[Any, Any]] = {
            "prompts/list": (paged, self._list_prompts),
            "prompts/get": (types.GetPromptRequestParams, self.get_prompt),
            "resources/list": (paged, self._list_resources),
            "resources/templates/list": (paged, self._list_templates),
            "resources/read": (types.ReadResourceRequestParams, self.read),
            "resources/subscribe": (types.SubscribeRequestParams, self._subscribe),
            "resources/unsubscribe": (types.UnsubscribeRequestParams, self._unsubscribe),
            "completion/complete": (types.CompleteRequestParams, self.complete),
            "subscriptions/listen": (types.SubscriptionsListenRequestParams, self._listen),
        }
        for method, (params, handler) in handlers.items():
            if self.catalog.servers or self._find_offer(method) is not None:
                sdk.add_request_handler(method, params, handler)

    def limit_capabilities(self, declared: types.ServerCapabilities) -> types.ServerCapabilities:
        """Return the capabilities without those that neither an upstream server nor `offers` can have."""
        missing: JsonObject = {}
        for name, method in (
            ("prompts", "prompts/list"),
            ("resources", "resources/list"),
            ("completions", "completion/complete"),
        ):
            if not self._can_have(name, method):
                missing[name] = None
        can_watch = any(each.can_watch for each in self.catalog.servers)
        if "resources" not in missing and declared.resources is not None and not can_watch:
            is_offered = self._find_offer("resources/subscribe") is not None
            missing["resources"] = declared.resources.model_copy(update={"subscribe": is_offered})
        return declared.model_copy(update=missing)

    def _can_have(self, name: Any, method: str) -> bool:
        return self._find_offer(method) is not None or any(each.can_have(name) for each in self.catalog.servers)

    def _find_offer(self, method: str) -> Callable[[Context, Any], Awaitable[Any]] | None:
        entry = None if self._offers is None else self._offers.get_request_handler(method)
        return None if entry is None else entry.handler

    # --- lists

    async def _list_prompts(self, ctx: Context, params: types.PaginatedRequestParams) -> types.ListPromptsResult:
        page, cursor = await self._get_page(ctx, "prompts", params)
        return types.ListPromptsResult(prompts=page, next_cursor=cursor)

    async def _list_resources(self, ctx: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
        page, cursor = await self._get_page(ctx, "resources", params)
        return types.ListResourcesResult(resources=page, next_cursor=cursor)

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams
    ) -> types.ListResourceTemplatesResult:
        page, cursor = await self._get_page(ctx, "templates", params)
        return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def _get_page(
        self, ctx: Context, kind: ListKind, params: types.PaginatedRequestParams
    ) -> tuple[list[Any], str | None]:
        session = self._access.get_session(ctx)
        await self._access.wait_until_ready()
        return await self._lists.get_page(ctx, kind, session, params.cursor)

    # --- one of them

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> ReadAnswer:
        """Read a resource: of an upstream server, or of `offers`."""
        session, uri = self._access.get_session(ctx), params.uri
        await self._access.wait_until_ready()
        offered = self._find_offer("resources/read")
        catalog = self.catalog.for_user(session.user)
        target = await catalog.find_resource(uri, session.filter, guess=offered is None)
        if offered is not None and await self._is_offered(ctx, target, uri):
            if allows_feature(session.filter, "resource", uri, None):
                return await self._read_offered(ctx, uri, offered(ctx, params))
            target = None
        if target is None:
            raise _build_not_found(ctx, uri)

        async def send(tool_ctx: ToolContext, given: InputAnswers | None) -> ReadAnswer:
            return await target.server.read(target.own_name, ctx=tool_ctx, given=given)

        answer = await self._ask(ctx, session, params, target, send)
        if not isinstance(answer, types.ReadResourceResult):
            return answer
        cap = target.server.spec.max_result_chars
        is_app = target.own_name.startswith(UI)
        contents = await self._budget.fit_contents(answer.contents, session, max_chars=cap, is_app=is_app)
        return answer.model_copy(update={"contents": await self._limit_apps(ctx, target, session, contents)})

    async def _read_offered(self, ctx: Context, name: str, reading: Awaitable[Any]) -> Any:
        """Return a prompt or resource of `offers`; nothing says that it can be trusted."""
        await self._access.on_read(ctx)
        result = await reading
        self._access.on_result(ctx, name, result)
        return result

    async def _limit_apps(
        self, ctx: Context, target: FeatureTarget, session: McpSession, contents: Sequence[Any]
    ) -> Sequence[Any]:
        spec = target.server.spec
        uri = target.own_name
        if not any(is_app_page(each, uri) for each in contents) or (spec.trusted and not spec.prefix):
            return contents
        tools = self._access.list_tools(ctx, spec.name)
        reach = await build_reach(self.catalog.for_user(session.user), target, session.filter, tools)
        return [wrap_contents(each, reach, uri) for each in contents]

    async def _is_offered(self, ctx: Context, target: FeatureTarget | None, uri: str) -> bool:
        """Return whether a resource is that of `offers`: it lists it, or no upstream server has it."""
        if target is None:
            return True
        return any(getattr(each, "uri", None) == uri for each in await self._lists.list_offers(ctx, "resources"))

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> GetAnswer:
        """Get a prompt: of `offers`, or of an upstream server."""
        session, name = self._access.get_session(ctx), params.name
        await self._access.wait_until_ready()
        offered = self._find_offer("prompts/get")
        if offered is not None and name in {each.name for each in await self._lists.list_offers(ctx, "prompts")}:
            if not allows_feature(session.filter, "prompt", name, None):
                raise MCPError(types.INVALID_PARAMS, f"Prompt not found: {sanitise(name)}")
            return await self._read_offered(ctx, name, offered(ctx, params))
        target = await self.catalog.for_user(session.user).find_prompt(name, session.filter)
        if target is None:
            raise MCPError(types.INVALID_PARAMS, f"Prompt not found: {sanitise(name)}")

        async def send(tool_ctx: ToolContext, given: InputAnswers | None) -> GetAnswer:
            return await target.server.get_prompt(target.own_name, params.arguments, ctx=tool_ctx, given=given)

        answer = await self._ask(ctx, session, params, target, send)
        if not isinstance(answer, types.GetPromptResult):
            return answer
        cap = target.server.spec.max_result_chars
        return answer.model_copy(
            update={"messages": await self._budget.fit_messages(answer.messages, session, max_chars=cap)}
        )

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Complete an argument of a prompt or resource template."""
        session = self._access.get_session(ctx)
        await self._access.wait_until_ready()
        offered = self._find_offer("completion/complete")
        target = await self.catalog.for_user(session.user).find_reference(params.ref, session.filter)
        if target is None or not target.server.can_have("completions"):
            if offered is not None and target is None and self._is_ref_allowed(params.ref, session.filter):
                return await offered(ctx, params)
            if target is None:
                raise MCPError(types.INVALID_PARAMS, "No such prompt or resource template.")
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        field = "name" if params.ref.type == "ref/prompt" else "uri"
        own = params.model_copy(update={"ref": params.ref.model_copy(update={field: target.own_name}), "meta": None})

        async def send(tool_ctx: ToolContext, _given: InputAnswers | None) -> types.CompleteResult:
            return await target.server.complete(own, ctx=tool_ctx)

        return await self._ask(ctx, session, params, target, send)

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        await self._access.wait_until_ready()
        offered = self._find_offer("resources/subscribe")
        ask = None if offered is None else partial(offered, ctx, params)
        return await self.changes.subscribe(ctx, self._access.get_session(ctx), params.uri, ask)

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        offered = self._find_offer("resources/unsubscribe")
        ask = None if offered is None else partial(offered, ctx, params)
        return await self.changes.unsubscribe(self._access.get_session(ctx), params.uri, ask)

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        session = self._access.get_session(ctx)
        return await self.changes.listen(ctx, session, params, has_offers=self._offers is not None)

    @staticmethod
    def _is_ref_allowed(ref: Any, filter: ToolFilter | None) -> bool:
        if ref.type == "ref/prompt":
            return allows_feature(filter, "prompt", ref.name, None)
        return allows_feature(filter, "resource", ref.uri, None)

    async def _ask(
        self,
        ctx: Context,
        session: McpSession,
        params: Any,
        target: FeatureTarget,
        send: "Callable[[ToolContext, InputAnswers | None], Awaitable[Any]]",
    ) -> Any:
        """Send a request of a client to an upstream server; errors of the server become errors of the protocol."""
        conversation, spec = self._access.get_conversation(ctx), target.server.spec
        load = self._access.load
        if load.is_full(conversation):
            raise MCPError(types.INTERNAL_ERROR, load.explain_full())
        if not spec.trusted:
            await self._access.on_read(ctx)
        call_id, events = f"c_{token_hex(8)}", Events()
        peer = CallClient(ctx, session, Call(call_id, ctx.method, {}), events)
        tool_ctx = ToolContext(
            session.key,
            turn_id=call_id,
            events=events,
            open_gate=peer.open_gate,
            client=peer,
            caller=None if session.user is None else {"user": session.user},
        )
        # On the newer protocol, a question is an answer, and the client sends the request again.
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        given: InputAnswers | None = None
        if is_modern and peer.can("elicitation") and hasattr(params, "input_responses"):
            given = InputAnswers(responses=params.input_responses, state=params.request_state)
        with load.count(conversation):
            try:
                answer = await send(tool_ctx, given)
            except UpstreamError as error:
                raise _translate_error(ctx, error, getattr(params, "uri", None)) from error
        if not spec.trusted:
            self._access.on_result(ctx, f"{spec.name}: {target.own_name}", answer)
        return answer


def _build_not_found(ctx: Context, uri: str) -> MCPError:
    is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return MCPError(types.INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})


def _translate_error(ctx: Context, error: UpstreamError, uri: str | None) -> MCPError:
    data: JsonObject = {"server": error.server}
    if uri is not None:
        data["uri"] = uri
    code = types.INTERNAL_ERROR
    if isinstance(error, UpstreamRefusedError):
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        # Each revision has its own code for a resource that does not exist.
        if uri is not None and error.rpc_code in (RESOURCE_NOT_FOUND, types.INVALID_PARAMS):
            code = types.INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
        elif error.rpc_code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
            code = error.rpc_code
    return MCPError(code, sanitise(str(error)), data)
