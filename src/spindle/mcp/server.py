"""One registry as an MCP server: what a client may see, what it calls, and what it is answered.

Everything a call goes through is the executor's: this file only translates. Read `_call_tool`.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final, TypeAlias, cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.bridges import mcp as dialect
from spindle.bridges.definitions import Definitions
from spindle.bridges.rendering import Sees
from spindle.calls import Call, CallOutcome, Err
from spindle.errors import UsageError
from spindle.events import Events, ToolProgress
from spindle.execution.executor import Executor
from spindle.mcp.approving import approve_by_gate
from spindle.mcp.questions import form_of, key_of, settle
from spindle.mcp.running import Execute, OpenGate, Parking, RunningCall
from spindle.mcp.sessions import Session, Sessions
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns.gate import Gate
from spindle.turns.waits import GateDesk

PAGE: Final = 200
"""Tools on one page of the list."""
CANCEL_SECONDS: Final = 2.0
"""For calls that were cancelled to come to their end."""
_OFFERED: Final = (
    *("prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read"),
    *("resources/subscribe", "resources/unsubscribe", "logging/setLevel"),
)
"""What a server of the SDK may add to our tools."""

Context: TypeAlias = ServerRequestContext[Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who sent a request."""

    key: str
    """The same for all requests of one client, and of nobody else."""
    profile: str | None = None
    has_session: bool = True
    """Whether the key is a session's; otherwise it is a token's, or that of everybody who has none."""


class ToolServer:
    """Serves the tools of an executor's house to MCP clients, each of whom has its own view.

    `identify` says who sends a request, and `filter_of` what that profile may see and run. `offers` is a server of the
    official SDK whose resources and prompts are served beside the tools. Until `settled`, more tools are about to come:
    who asks for the list, or for one that is not there yet, waits for them.
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
        sees: Sees | None = None,
        offers: Server[Any] | None = None,
        settled: anyio.Event | None = None,
    ) -> None:
        self._executor, self._base = executor, registry
        self._filter_of, self._identify = filter_of, identify
        self._is_fenced, self._working_dir, self._sees = is_fenced, working_dir, sees
        self._offers, self._settled = offers, settled
        self._version = 0
        self._sessions = Sessions()
        self._parking = Parking()
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
        for method in _OFFERED:
            entry = None if offers is None else offers.get_request_handler(method)
            if entry is not None:
                self.sdk.add_request_handler(method, entry.params_type, entry.handler)
        # What a client sends back to resume a call is sealed, and bound to the same call of the same client.
        self.sdk.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name))

    @property
    def options(self) -> InitializationOptions:
        """What the handshake of the older protocol says of this server."""
        return self.sdk.create_initialization_options(NotificationOptions(tools_changed=True))

    @property
    def running_calls(self) -> int:
        """How many calls are being answered now."""
        return self._running

    @property
    def sessions(self) -> int:
        """How many clients were seen lately."""
        return len(self._sessions.all())

    def forget(self, key: str) -> None:
        """Let go of all that a client had, which has left for good."""
        self._sessions.forget(key)

    async def tools_changed(self) -> None:
        """Tell every client that the tools are other ones now."""
        self._version += 1
        await self._bus.publish(ToolsListChanged())
        for session in self._sessions.all():
            await _tell(session)

    async def drain(self, seconds: float) -> int:
        """Take no more calls, let the running ones end, and cancel what is left; says how many that were.

        Who is cancelled does not wait any longer, but those who are left are still answered.
        """
        self._is_stopping = True
        self._parking.cancel_parked()
        left = 0
        try:
            with anyio.move_on_after(seconds):
                await self._until_idle()
        finally:
            left = self._running
            self._listening.close()
            self._parking.cancel_all()
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
                self._parking.cancel_all()
                tasks.cancel_scope.cancel()
                self._tasks = None

    def _session(self, ctx: Context) -> Session:
        caller = self._identify(ctx)
        # On the newer protocol requests stand alone; only a pipe has one client at its other end.
        lists = caller.has_session
        session = self._sessions.get(caller.key, filter=self._filter_of(caller.profile), lists_artifacts=lists)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            session.notify = ctx.session.send_tool_list_changed
        return session

    def _definitions(self, session: Session) -> Definitions:
        registry = session.registry(self._base, self._version)
        # Without fences a program gets the raw values too; with them only those of tools that may be believed.
        structured = None if self._is_fenced else True
        session.known = dialect.definitions(registry, filter=session.filter, structured=structured)
        return session.known

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        session = self._session(ctx)
        if self._settled is not None:
            await self._settled.wait()
        listed = self._definitions(session).tools
        start = _position(params.cursor if params is not None else None, len(listed))
        page = [types.Tool.model_validate(each) for each in listed[start : start + PAGE]]
        end = start + len(page)
        return types.ListToolsResult(tools=page, next_cursor=str(end) if end < len(listed) else None)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        session = self._session(ctx)
        self._running += 1
        try:
            if params.request_state is not None:
                return await self._resume(session, params)
            if self._settled is not None and params.name not in self._base:
                await self._settled.wait()
            known = session.known or self._definitions(session)
            call = known.call(f"c_{token_hex(8)}", params.name, params.arguments or {})
            if self._is_stopping:
                return await self._answer(session, _refused(call, "The server is stopping. Ask again later."))
            return await self._run(ctx, session, call)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _run(
        self, ctx: Context, session: Session, call: Call
    ) -> types.CallToolResult | types.InputRequiredResult:
        events = Events()
        _report_progress(ctx, events)
        execute = self._execution(session, call, events, can_ask=_can_ask(ctx))
        if _can_ask(ctx) and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and self._tasks is not None:
            running = self._parking.start(
                self._tasks, execute, turn_id=call.tool_call_id, events=events, owner=session.key
            )
            return await self._follow(session, running, call)
        outcome = _cancelled(call)
        with anyio.CancelScope() as scope:  # by which `drain` ends it
            self._scopes.add(scope)
            try:
                outcome = await execute(_asking(ctx, call, events))
            finally:
                self._scopes.discard(scope)
        return await self._answer(session, outcome)

    def _execution(self, session: Session, call: Call, events: Events, *, can_ask: bool) -> Execute:
        registry = session.registry(self._base, self._version)
        executor = self._executor.with_registry(registry, approve=approve_by_gate if can_ask else None)

        async def execute(open_gate: OpenGate) -> CallOutcome:
            tool_ctx = ToolContext(
                session.key,
                turn_id=call.tool_call_id,
                working_dir=self._working_dir,
                events=events,
                open_gate=open_gate if can_ask else None,
            )
            with session.calling():
                [outcome] = await executor.execute_parallel([call], tool_ctx, session.filter)
            return outcome

        return execute

    async def _resume(
        self, session: Session, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        running = self._parking.take(params.request_state or "", owner=session.key)
        call = Call(f"c_{token_hex(8)}", params.name, params.arguments or {})
        if running is None:
            return await self._answer(session, _refused(call, "That question is no longer open. Call again."))
        question = running.question
        answered = None if question is None else (params.input_responses or {}).get(key_of(question))
        if question is not None and isinstance(answered, types.ElicitResult):
            settle(question, answered)
        elif question is not None and not question.is_settled:
            return self._asked(running, question)
        return await self._follow(session, running, call)

    async def _follow(
        self, session: Session, running: RunningCall, call: Call
    ) -> types.CallToolResult | types.InputRequiredResult:
        news = await running.news()
        if isinstance(news, Gate):
            return self._asked(running, news)
        return await self._answer(session, news or _cancelled(call))

    def _asked(self, running: RunningCall, gate: Gate) -> types.InputRequiredResult:
        ticket = self._parking.park(running)
        return types.InputRequiredResult(input_requests={key_of(gate): form_of(gate)}, request_state=ticket)

    async def _answer(self, session: Session, outcome: CallOutcome) -> types.CallToolResult:
        if session.keep(outcome):
            await self._bus.publish(ToolsListChanged())
            await _tell(session)
        [result] = await dialect.results([outcome], definitions=session.known, sees=self._sees, fenced=self._is_fenced)
        return types.CallToolResult.model_validate(result)


def _position(cursor: str | None, count: int) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and 0 < int(cursor) <= count):
        raise MCPError(types.INVALID_PARAMS, "That cursor was not given by this server, or is of an older list.")
    return int(cursor)


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None:
        return False
    # A client that names no mode can show forms.
    return elicitation.form is not None or elicitation.url is None


def _asking(ctx: Context, call: Call, events: Events) -> OpenGate:
    """Ask the client's user in the middle of the call, as the older protocol can."""
    desk = GateDesk()

    async def ask(gate: Gate) -> None:
        form = cast("types.ElicitRequestFormParams", form_of(gate).params)
        try:
            answered = await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
        except MCPError as error:
            gate.reject(UsageError(f"the client could not ask its user: {error}"))
        else:
            settle(gate, answered)

    async def open_gate(gate: Gate) -> Any:
        value: Any = None
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, gate)
            try:
                value = await desk.wait(gate, turn_id=call.tool_call_id, events=events)
            except Exception as error:  # noqa: BLE001  raised below as it is, not as one of a group
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return value

    return open_gate


def _report_progress(ctx: Context, events: Events) -> None:
    if ctx.meta is None or ctx.meta.get("progress_token") is None:
        return
    last = 0.0

    async def report(told: ToolProgress) -> None:
        nonlocal last
        # The specification wants each value above the one before; a tool need not care.
        last = max(last + 0.001, told.percent if told.percent is not None else 0.0)
        await ctx.session.report_progress(last, 100 if told.percent is not None else None, told.message)

    events.on("tool_progress", report)


def _refused(call: Call, why: str) -> CallOutcome:
    return CallOutcome(call.tool_call_id, call.name, "", Err("not_available", why, retryable=True), attempts=0)


def _cancelled(call: Call) -> CallOutcome:
    return CallOutcome(call.tool_call_id, call.name, "", Err("cancelled", "The call was cancelled."))


async def _tell(session: Session) -> None:
    if session.notify is None:
        return
    try:
        await session.notify()
    except Exception:  # noqa: BLE001  a client that is gone needs no news
        session.notify = None
