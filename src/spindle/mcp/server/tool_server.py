"""`ToolServer`: serves a registry over MCP; lists tools, runs calls and returns their results.

The executor runs the calls; this module only translates. Read `_call_tool`.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.bridges import mcp as dialect
from spindle.bridges.definitions import Definitions
from spindle.bridges.rendering import MediaSupport
from spindle.calls import Call, CallOutcome, Err
from spindle.errors import ClientCapabilityError, GateAbortedError, GateTimeoutError
from spindle.events import Events
from spindle.execution.approval import ApprovalRequest
from spindle.execution.executor import Executor
from spindle.mcp.server.elicitation import apply_answers, assign_keys, build_request
from spindle.mcp.server.parked_calls import Execute, ParkedCalls, ResumableCall
from spindle.mcp.server.peer import CallClient, Context
from spindle.mcp.server.sessions import McpSession, McpSessions
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.trust.envelope import to_one_line
from spindle.turns.gates import Gate

APPROVAL_SECONDS: Final = 600
MAX_SHOWN_CHARS: Final = 2_000
MAX_TAIL_CHARS: Final = 500
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Run it?", "default": False}},
    "required": ["approve"],
}


async def approve_by_gate(request: ApprovalRequest) -> bool | str:
    """Ask the user whether the call may run; return the answer, or a reason for denial."""
    shown = json.dumps(request.args, ensure_ascii=False, default=str)
    question = f"Run {to_one_line(request.tool.name, 200)} with {to_one_line(shown, MAX_SHOWN_CHARS)}?"
    if len(shown) > MAX_SHOWN_CHARS:
        # The user must also see the end of what they approve.
        question += f" The arguments have {len(shown)} characters; this is their start. They end with: "
        question += to_one_line(shown[-MAX_TAIL_CHARS:], MAX_TAIL_CHARS)
    gate = Gate("approval", {"question": question}, schema=_SCHEMA, timeout_seconds=APPROVAL_SECONDS)
    try:
        answer = await request.ctx.wait_for(gate)
    except PermissionError:
        return False
    except GateAbortedError:
        return "the user dismissed the question"
    except GateTimeoutError:
        return "the user did not answer in time"
    return answer["approve"] is True


PAGE_SIZE: Final = 200
"""Number of tools on one page of the list."""
CANCEL_SECONDS: Final = 2.0
"""Time for cancelled calls to end."""
_PASSTHROUGH: Final = (
    *("prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read"),
    *("resources/subscribe", "resources/unsubscribe"),
)
"""Methods that the SDK server passed as `offers` may handle."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The sender of a request."""

    key: str
    """Identifies the client: equal for all its requests and unique to it."""
    profile: str | None = None
    has_session: bool = True
    """Whether the key identifies a session; otherwise it identifies a token, or all callers without one."""


class ToolServer:
    """An MCP server for the tools of an executor; each client has its own view.

    `identify` returns the sender of a request, and `filter_of` the tools that its profile may see and run. `offers` is
    a server of the official SDK whose resources and prompts are served beside the tools. `settled` is an event that is
    set once all upstream tools are registered: until then, listing tools and calling an unknown tool wait for it.
    """

    def __init__(
        self,
        executor: Executor,
        registry: ToolRegistry,
        *,
        name: str = "spindle",
        version: str = "",
        instructions: str | None = None,
        filter_of: Callable[[str | None], ToolFilter | None] = lambda _profile: None,
        identify: Callable[[Context], Caller] = lambda _ctx: Caller(key="stdio"),
        is_fenced: bool = True,
        working_dir: str | None = None,
        sees: MediaSupport | None = None,
        offers: Server[Any] | None = None,
        settled: anyio.Event | None = None,
    ) -> None:
        self._executor, self._base = executor, registry
        self._filter_of, self._identify = filter_of, identify
        self._is_fenced, self._working_dir, self._sees = is_fenced, working_dir, sees
        self._offers, self._tools_ready = offers, settled
        self._version = 0
        self._sessions = McpSessions()
        self._parked_calls = ParkedCalls()
        self._tasks: TaskGroup | None = None
        self._running = 0
        self._is_stopping = False
        self._idle = anyio.Event()
        self._scopes: set[anyio.CancelScope] = set()
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self.sdk: Server[Any] = Server(
            name,
            version=version,
            instructions=instructions,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listening,
        )
        for method in _PASSTHROUGH:
            entry = None if offers is None else offers.get_request_handler(method)
            if entry is not None:
                self.sdk.add_request_handler(method, entry.params_type, entry.handler)
        self.sdk.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        # The state that a client sends back to resume a call is sealed and bound to that call and client.
        self.sdk.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name))

    @property
    def options(self) -> InitializationOptions:
        """The options for the `initialize` handshake of the older protocol."""
        return self.sdk.create_initialization_options(NotificationOptions(tools_changed=True))

    @property
    def running_calls(self) -> int:
        """Number of calls in progress."""
        return self._running

    @property
    def sessions(self) -> int:
        """Number of recently active clients."""
        return len(self._sessions.all())

    def forget(self, key: str) -> None:
        """Drop the session of a client that has disconnected."""
        self._sessions.forget(key)

    async def tools_changed(self) -> None:
        """Notify every client that the list of tools has changed."""
        self._version += 1
        await self._bus.publish(ToolsListChanged())
        for session in self._sessions.all():
            await _notify_session(session)

    async def drain(self, seconds: float) -> int:
        """Reject new calls, wait for running ones, then cancel the rest; return how many were cancelled.

        If this wait is itself cancelled, running calls are cancelled at once and still answered.
        """
        self._is_stopping = True
        self._parked_calls.cancel_parked()
        left = 0
        try:
            with anyio.move_on_after(seconds):
                await self._until_idle()
        finally:
            left = self._running
            self._listening.close()
            self._parked_calls.cancel_all()
            for scope in tuple(self._scopes):
                scope.cancel()
            with anyio.move_on_after(CANCEL_SECONDS, shield=True):
                await self._until_idle()
        return left

    async def _until_idle(self) -> None:
        while self._running:
            self._idle = anyio.Event()
            await self._idle.wait()

    @asynccontextmanager
    async def _lifespan(self, _server: Server[Any]) -> AsyncGenerator[Any]:
        async with AsyncExitStack() as stack:
            offers = self._offers
            state = None if offers is None else await stack.enter_async_context(offers.lifespan(offers))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            self._tasks = tasks
            try:
                yield state
            finally:
                self._parked_calls.cancel_all()
                tasks.cancel_scope.cancel()
                self._tasks = None

    def _get_session(self, ctx: Context) -> McpSession:
        caller = self._identify(ctx)
        # The newer protocol has no sessions; there only a pipe identifies a single client.
        lists = caller.has_session
        session = self._sessions.get(caller.key, filter=self._filter_of(caller.profile), lists_artifacts=lists)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            session.notify = ctx.session.send_tool_list_changed
        return session

    def _definitions(self, session: McpSession) -> Definitions:
        registry = session.get_registry(self._base, self._version)
        # Without fences the client also gets raw structured values; with fences only those of trusted tools.
        structured = None if self._is_fenced else True
        session.sent_definitions = dialect.definitions(registry, filter=session.filter, structured=structured)
        return session.sent_definitions

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        session = self._get_session(ctx)
        if self._tools_ready is not None:
            await self._tools_ready.wait()
        listed = self._definitions(session).tools
        start = _position(params.cursor if params is not None else None, len(listed))
        page = [types.Tool.model_validate(each) for each in listed[start : start + PAGE_SIZE]]
        end = start + len(page)
        return types.ListToolsResult(tools=page, next_cursor=str(end) if end < len(listed) else None)

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        session = self._get_session(ctx)
        if session.lists_artifacts:  # otherwise several clients share the session
            session.log_level = params.level
        entry = None if self._offers is None else self._offers.get_request_handler("logging/setLevel")
        if entry is not None:
            await entry.handler(ctx, params)
        return types.EmptyResult()

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        session = self._get_session(ctx)
        self._running += 1
        try:
            if params.request_state is not None:
                return await self._resume(ctx, session, params)
            if self._tools_ready is not None and params.name not in self._base:
                await self._tools_ready.wait()
            known = session.sent_definitions or self._definitions(session)
            call = known.call(f"c_{token_hex(8)}", params.name, params.arguments or {})
            if self._is_stopping:
                return await self._build_result(
                    ctx, session, _build_refusal(call, "The server is shutting down. Try again later.")
                )
            return await self._run(ctx, session, call)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _run(
        self, ctx: Context, session: McpSession, call: Call
    ) -> types.CallToolResult | types.InputRequiredResult:
        events = Events()
        peer = CallClient(ctx, session, call, events)
        execute = self._execution(session, call, events, peer)
        if peer.can_be_asked and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and self._tasks is not None:
            running = self._parked_calls.start(self._tasks, execute, peer, owner=session.key)
            return await self._wait_for_event(ctx, session, running, call)
        outcome = _cancelled(call)
        async with peer.attach_request(ctx):
            with anyio.CancelScope() as scope:  # cancelled by `drain`
                self._scopes.add(scope)
                try:
                    outcome = await execute()
                finally:
                    self._scopes.discard(scope)
        return await self._build_result(ctx, session, outcome)

    def _execution(self, session: McpSession, call: Call, events: Events, peer: CallClient) -> Execute:
        registry = session.get_registry(self._base, self._version)
        approve = approve_by_gate if peer.can("elicitation") else None
        executor = self._executor.with_registry(registry, approve=approve)

        async def execute() -> CallOutcome:
            tool_ctx = ToolContext(
                session.key,
                turn_id=call.tool_call_id,
                working_dir=self._working_dir,
                events=events,
                open_gate=peer.open_gate,
                client=peer,
            )
            with session.activate():
                [outcome] = await executor.execute_parallel([call], tool_ctx, session.filter)
            return outcome

        return execute

    async def _resume(
        self, ctx: Context, session: McpSession, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        running = self._parked_calls.take(params.request_state or "", owner=session.key)
        call = Call(f"c_{token_hex(8)}", params.name, params.arguments or {})
        if running is None:
            return await self._build_result(
                ctx, session, _build_refusal(call, "That question is no longer open. Call the tool again.")
            )
        running.client.request = ctx
        running.questions = apply_answers(running.questions, params.input_responses or {})
        if running.questions:
            return self._build_input_required(running)
        return await self._wait_for_event(ctx, session, running, call)

    async def _wait_for_event(
        self, ctx: Context, session: McpSession, running: ResumableCall, call: Call
    ) -> types.CallToolResult | types.InputRequiredResult:
        async with running.client.attach_request(ctx):
            news = await running.next_event()
        if isinstance(news, tuple):
            return self._build_input_required(running)
        return await self._build_result(ctx, session, news or _cancelled(call))

    def _build_input_required(self, running: ResumableCall) -> types.InputRequiredResult:
        requests = {key: build_request(gate) for key, gate in assign_keys(running.questions).items()}
        return types.InputRequiredResult(input_requests=requests, request_state=self._parked_calls.park(running))

    async def _build_result(self, ctx: Context, session: McpSession, outcome: CallOutcome) -> types.CallToolResult:
        outcome = _report_missing_capability(ctx, outcome)
        if session.keep_artifact(outcome):
            await self._bus.publish(ToolsListChanged())
            await _notify_session(session)
        [result] = await dialect.results(
            [outcome], definitions=session.sent_definitions, sees=self._sees, fenced=self._is_fenced
        )
        return types.CallToolResult.model_validate(result)


def _position(cursor: str | None, count: int) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and 0 < int(cursor) <= count):
        raise MCPError(
            types.INVALID_PARAMS, "Invalid cursor: it was not issued by this server, or the list has changed."
        )
    return int(cursor)


def _report_missing_capability(ctx: Context, outcome: CallOutcome) -> CallOutcome:
    """Report a capability that the client lacks; the newer protocol has an error code for it."""
    result = outcome.result
    if not (isinstance(result, Err) and isinstance(lack := result.cause, ClientCapabilityError)):
        return outcome
    if result.code != "execution_failed":  # the tool handled it with its own error
        return outcome
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        needed: dict[str, Any] = {"requiredCapabilities": {lack.capability: {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, str(lack), needed)
    return replace(outcome, result=replace(result, error=str(lack)))


def _build_refusal(call: Call, why: str) -> CallOutcome:
    return CallOutcome(call.tool_call_id, call.name, "", Err("not_available", why, retryable=True), attempts=0)


def _cancelled(call: Call) -> CallOutcome:
    return CallOutcome(call.tool_call_id, call.name, "", Err("cancelled", "The call was cancelled."))


async def _notify_session(session: McpSession) -> None:
    if session.notify is None:
        return
    try:
        await session.notify()
    except Exception:  # noqa: BLE001  the client has disconnected
        session.notify = None
