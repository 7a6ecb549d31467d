"""`ToolServer`: serves a registry over MCP; lists tools, runs calls and returns their results.

The executor runs the calls; this module only translates. Read `_call_tool`.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import token_hex
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.bridges import mcp as dialect
from spindle.bridges.rendering import MediaSupport
from spindle.calls import Call, CallOutcome, Err
from spindle.errors import UsageError
from spindle.events import Events
from spindle.execution.approval import name_answers
from spindle.execution.executor import Executor
from spindle.mcp.server.elicitation import apply_answers, approve_by_gate, assign_keys, build_request
from spindle.mcp.server.parked_calls import Execute, ParkedCalls, ResumableCall, WaitingCalls
from spindle.mcp.server.peer import CallClient, Context, report_missing_capability
from spindle.mcp.server.sessions import Caller, FairSlots, McpSession, McpSessions, TaintLedger
from spindle.mcp.server.tool_list import ListPages, ToolList, ToolLists
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

CANCEL_SECONDS: Final = 2.0
"""Time for cancelled calls to end."""
_PASSTHROUGH: Final = (
    *("prompts/list", "prompts/get", "completion/complete"),
    *("resources/list", "resources/templates/list", "resources/read"),
    *("resources/subscribe", "resources/unsubscribe"),
)
"""Methods that the SDK server passed as `offers` may handle."""
_CONTENT: Final = ("prompts/get", "resources/read")
"""Those whose answers a model reads; nothing says that they can be trusted."""


class ToolServer:
    """An MCP server for the tools of an executor; each client has its own view.

    `identify` returns the sender of a request, and `filter_of` the tools that its profile may see and run. `offers` is
    a server of the official SDK whose resources and prompts are served beside the tools. `tools_ready` is an event
    that is set once all upstream tools are registered: listing tools and calling an unknown tool wait for it.

    Clients take turns in using the executor's slots, and each runs at most `max_running_per_session` calls at once, by
    default half of them; further calls wait. Beyond `max_calls_per_session` calls in progress, calls are refused.

    Raises:
        UsageError: A limit is below 1.
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
        media: MediaSupport | None = None,
        offers: Server[Any] | None = None,
        tools_ready: anyio.Event | None = None,
        max_calls_per_session: int = 256,
        max_running_per_session: int | None = None,
    ) -> None:
        if min(max_calls_per_session, 1 if max_running_per_session is None else max_running_per_session) < 1:
            raise UsageError("the limits of a session must be at least 1", field="max_calls_per_session")
        self._max_calls = max_calls_per_session
        share = max(1, executor.concurrency // 2) if max_running_per_session is None else max_running_per_session
        self._slots = FairSlots(executor.concurrency, max_per_key=share)
        self._executor, self._base = executor, registry
        self._filter_of, self._identify = filter_of, identify
        self._is_fenced, self._working_dir, self._media = is_fenced, working_dir, media
        self._offers, self._tools_ready = offers, tools_ready
        self._sessions = McpSessions()
        self._taint = TaintLedger()
        self._parked_calls = ParkedCalls()
        self._waiting_calls = WaitingCalls()
        self._tasks: TaskGroup | None = None
        self._running = 0
        self._in_progress: Counter[str] = Counter()
        """The number of calls in progress of each conversation."""
        self._is_stopping = False
        self._idle = anyio.Event()
        self._scopes: set[anyio.CancelScope] = set()
        # Without fences the client also gets raw structured values; with fences only those of trusted tools.
        self._lists = ToolLists(structured=None if is_fenced else True)
        pages = ListPages(self._find_list)
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self.sdk: Server[Any] = Server(
            name,
            version=version,
            instructions=instructions,
            lifespan=self._lifespan,
            # `ToolList.check_headers` knows what a client sees; otherwise the SDK lists the tools for each call.
            get_tool_input_schema=lambda _name: None,
            on_list_tools=pages.handle,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listening,
        )
        self._add_offers()
        self.sdk.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        # The state that a client sends back to resume a call is sealed and bound to that call and client.
        self.sdk.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name))
        self.sdk.middleware.append(pages)

    def _add_offers(self) -> None:
        for method in _PASSTHROUGH:
            entry = None if self._offers is None else self._offers.get_request_handler(method)
            if entry is not None:
                handler = self._add_taint(entry.handler) if method in _CONTENT else entry.handler
                self.sdk.add_request_handler(method, entry.params_type, handler)

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

    def find_readable_calls(self) -> set[str]:
        """Return the ids of the calls whose artifacts a client may still read."""
        return self._sessions.find_readable_calls()

    @property
    def has_full_sessions(self) -> bool:
        """Whether a client has as many calls in progress as it may."""
        return any(count >= self._max_calls for count in self._in_progress.values())

    def is_full(self, conversation: str) -> bool:
        """Return whether a client has as many calls in progress as it may."""
        return self._in_progress.get(conversation, 0) >= self._max_calls

    def explain_full(self) -> str:
        """Return why a call is refused and what to do."""
        return (
            f"This client has {self._max_calls} calls in progress, which is the limit (max_calls_per_session). "
            "Wait until one of them has ended, and call again."
        )

    def forget(self, key: str) -> None:
        """Drop the session of a client that has disconnected."""
        self._sessions.forget(key)
        self._taint.forget(key)

    async def tools_changed(self) -> None:
        """Notify every client that the list of tools has changed."""
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

    def _get_session(self, ctx: Context, caller: Caller | None = None) -> McpSession:
        caller = self._identify(ctx) if caller is None else caller
        # The newer protocol has no sessions; there only a pipe identifies a single client.
        lists = caller.has_session
        session = self._sessions.get(caller.key, filter=self._filter_of(caller.profile), lists_artifacts=lists)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            session.notify = ctx.session.send_tool_list_changed
        return session

    def _add_taint(self, handler: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def handle(ctx: Context, params: Any) -> Any:
            self._taint.add(self._identify(ctx).conversation)
            return await handler(ctx, params)

        return handle

    def _refresh_list(self, session: McpSession) -> ToolList:
        """Return the client's list of the tools that are available now."""
        session.tool_list = self._lists.get(session.get_registry(self._base), session.filter)
        return session.tool_list

    async def _find_list(self, ctx: Context, is_first_page: bool) -> ToolList:  # noqa: FBT001  passed by position
        session = self._get_session(ctx)
        if self._tools_ready is not None:
            await self._tools_ready.wait()
        # The pages of one list fit together, and only the first one looks at every tool.
        return self._refresh_list(session) if is_first_page else self._find_current_list(session)

    def _find_current_list(self, session: McpSession) -> ToolList:
        """Return the list that was last sent to the client, or a new one if tools were added or removed since."""
        sent = session.tool_list
        is_current = sent is not None and sent.view() is session.get_registry(self._base)
        return sent if sent is not None and is_current else self._refresh_list(session)

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
        caller = self._identify(ctx)
        session, conversation = self._get_session(ctx, caller), caller.conversation
        is_full = self.is_full(conversation)
        self._running += 1
        self._in_progress[conversation] += 1
        try:
            if self._tools_ready is not None and params.name not in self._base:
                await self._tools_ready.wait()
            known = self._find_current_list(session)
            known.check_headers(ctx, params)
            if params.request_state is not None:
                return await self._resume(ctx, session, params)
            if is_full:
                refused = Call(f"c_{token_hex(8)}", params.name, params.arguments or {})
                return await self._build_result(ctx, session, _build_refusal(refused, self.explain_full()))
            new = known.definitions.call(f"c_{token_hex(8)}", params.name, params.arguments or {})
            call = self._waiting_calls.reuse_id(conversation, new)
            if self._is_stopping:
                return await self._build_result(
                    ctx, session, _build_refusal(call, "The server is shutting down. Try again later.")
                )
            return await self._run(ctx, session, call, conversation)
        finally:
            self._running -= 1
            self._in_progress[conversation] -= 1
            if not self._in_progress[conversation]:
                del self._in_progress[conversation]
            if not self._running:
                self._idle.set()

    async def _run(
        self, ctx: Context, session: McpSession, call: Call, conversation: str
    ) -> types.CallToolResult | types.InputRequiredResult:
        events = Events()
        peer = CallClient(ctx, session, call, events)
        execute = self._execution(session, call, events, peer, conversation)
        if peer.can_be_asked and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and self._tasks is not None:
            running = self._parked_calls.start(self._tasks, execute, peer, owner=session.key)
            return await self._wait_for_event(ctx, session, running, call)
        outcome = _build_cancelled(call)
        async with peer.attach_request(ctx):
            with anyio.CancelScope() as scope:  # cancelled by `drain`
                self._scopes.add(scope)
                try:
                    outcome = await execute()
                finally:
                    self._scopes.discard(scope)
        return await self._build_result(ctx, session, outcome)

    def _execution(
        self, session: McpSession, call: Call, events: Events, peer: CallClient, conversation: str
    ) -> Execute:
        registry = session.get_registry(self._base)
        approve = name_answers(approve_by_gate, "the user of the client") if peer.can("elicitation") else None
        executor = self._executor.with_registry(registry, approve=approve, slots=self._slots.for_key(conversation))

        async def execute() -> CallOutcome:
            tool_ctx = ToolContext(
                session.key,
                turn_id=call.tool_call_id,
                working_dir=self._working_dir,
                events=events,
                open_gate=peer.open_gate,
                client=peer,
            )
            tool = registry.get(call.name)
            with (
                session.activate(call.tool_call_id),
                self._taint.track(conversation, tool_ctx, trusted=tool is None or tool.trusted),
            ):
                [outcome] = await executor.execute_parallel([call], tool_ctx, session.filter)
            return self._waiting_calls.keep(conversation, call, outcome)

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
        return await self._build_result(ctx, session, news or _build_cancelled(call))

    def _build_input_required(self, running: ResumableCall) -> types.InputRequiredResult:
        requests = {key: build_request(gate) for key, gate in assign_keys(running.questions).items()}
        return types.InputRequiredResult(input_requests=requests, request_state=self._parked_calls.park(running))

    async def _build_result(self, ctx: Context, session: McpSession, outcome: CallOutcome) -> types.CallToolResult:
        outcome = report_missing_capability(ctx, outcome)
        if session.keep_artifact(outcome):
            await self._bus.publish(ToolsListChanged())
            await _notify_session(session)
        known = None if session.tool_list is None else session.tool_list.definitions
        [result] = await dialect.results([outcome], definitions=known, media=self._media, fenced=self._is_fenced)
        return types.CallToolResult.model_validate(result)


def _build_refusal(call: Call, why: str) -> CallOutcome:
    return CallOutcome(
        call.tool_call_id, call.name, "", Err("not_available", why, retryable=True, by="spindle"), attempts=0
    )


def _build_cancelled(call: Call) -> CallOutcome:
    return CallOutcome(call.tool_call_id, call.name, "", Err("cancelled", "The call was cancelled.", by="spindle"))


async def _notify_session(session: McpSession) -> None:
    if session.notify is None:
        return
    try:
        await session.notify()
    except Exception:  # noqa: BLE001  the client has disconnected
        session.notify = None
