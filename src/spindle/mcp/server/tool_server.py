"""`ToolServer`: serves a registry over MCP; lists tools, runs calls and returns their results.

The executor runs the calls; this module only translates. Read `_call_tool`.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary
from mcp.server.subscriptions import ListenHandler
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.artifacts.forge import can_be_read_back
from spindle.artifacts.spool import Spool
from spindle.bridges.rendering import MediaSupport
from spindle.calls import Call, CallOutcome
from spindle.errors import JournalError, UsageError
from spindle.events import Events
from spindle.execution.approval import name_answers
from spindle.execution.executor import Executor
from spindle.mcp.client.catalog import UpstreamCatalog
from spindle.mcp.client.servers import McpServers
from spindle.mcp.server.cache_hints import build_cache_hints
from spindle.mcp.server.call_load import CallLoad
from spindle.mcp.server.call_results import CallResults
from spindle.mcp.server.call_rounds import Answer, CallRounds, build_cancelled, build_refusal, build_seal
from spindle.mcp.server.content_budget import ContentBudget
from spindle.mcp.server.elicitation import approve_by_gate
from spindle.mcp.server.feature_changes import FeatureChanges, UpdateBus
from spindle.mcp.server.parked_calls import Execute, WaitingCalls
from spindle.mcp.server.peer import CallClient, Context, report_missing_capability
from spindle.mcp.server.session_flow import SessionFlow, may_taint
from spindle.mcp.server.sessions import Caller, FairSlots, McpSession, McpSessions, TaintLedger
from spindle.mcp.server.tasks.requests import TaskRequests
from spindle.mcp.server.tasks.service import Again, TaskHost, allow_repeat, build_tasks
from spindle.mcp.server.tasks.settings import DEFAULT_TASKS, TaskSettings
from spindle.mcp.server.tool_changes import ToolChanges
from spindle.mcp.server.tool_list import ListPages, ToolList, ToolLists
from spindle.mcp.server.upstream_features import ClientAccess, FeatureServer, GatewaySdk
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:  # it needs the extra `tickets`
    from spindle.mcp.server.shared_records import SharedRecords


class ToolServer:
    """An MCP server for the tools of an executor; each client has its own view.

    `identify` returns the sender of a request, and `filter_of` the tools that its profile may see and run. `offers` is
    a server of the official SDK whose resources and prompts are served beside the tools. `tools_ready` is an event
    that is set once all upstream tools are registered: listing tools and calling an unknown tool wait for it.

    Clients take turns in using the executor's slots, and each runs at most `max_running_per_session` calls at once, by
    default half of them; further calls wait. Beyond `max_calls_per_session` calls in progress, calls are refused.

    With `cache_seconds`, clients of the newer protocol may keep lists for so long; a `public` list is the same for all.
    `upstream` are the servers whose prompts and resources are served too; what is too long of them is kept in `spool`.
    With `shared`, the server is one of several replicas: what it knows about its clients is kept in a common store.
    `tasks` says when a call becomes a task for a client that can use them; `None` means never.

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
        is_structured: bool = True,
        cache_seconds: float = 0,
        cache_scope: Literal["public", "private"] = "private",
        working_dir: str | None = None,
        media: MediaSupport | None = None,
        offers: Server[Any] | None = None,
        tools_ready: anyio.Event | None = None,
        max_calls_per_session: int = 256,
        max_running_per_session: int | None = None,
        shared: "SharedRecords | None" = None,
        upstream: McpServers | None = None,
        spool: Spool | None = None,
        tasks: TaskSettings | None = DEFAULT_TASKS,
    ) -> None:
        if min(max_calls_per_session, 1 if max_running_per_session is None else max_running_per_session) < 1:
            raise UsageError("the limits of a session must be at least 1", field="max_calls_per_session")
        share = max(1, executor.concurrency // 2) if max_running_per_session is None else max_running_per_session
        self._slots = FairSlots(executor.concurrency, max_per_key=share)
        self._executor, self._base = executor, registry
        self._filter_of, self._identify = filter_of, identify
        self._working_dir = working_dir
        self._results = CallResults(max_chars=executor.budget.max_chars, media=media, is_fenced=is_fenced)
        self._offers, self._tools_ready = offers, tools_ready
        self._sessions, self._taint, self._waiting_calls = McpSessions(), TaintLedger(), WaitingCalls()
        self._shared = shared
        self._flow = SessionFlow(executor, None if shared is None else shared.ledgers)
        self._rounds = (CallRounds if shared is None else shared.build_rounds)(self._build_result)
        self.tasks: TaskGroup | None = None
        """Where sessions and calls run while the server does."""
        self.lifespan_state: Any = None
        self.load = CallLoad(max_calls_per_session)
        """The calls in progress."""
        self._lists = ToolLists(users=upstream, structured=is_structured)
        self._cache_hints = build_cache_hints(cache_seconds, cache_scope)
        self._bus = UpdateBus()
        self._listening = ListenHandler(self._bus)
        self._replica = None if shared is None else shared.replica
        self._changes = ToolChanges(self._bus, self._sessions, self._replica)
        self.features = self._build_features(upstream, spool)
        """The prompts and resources of upstream servers and of `offers`."""
        host = TaskHost(
            executor, registry, tools_ready, self._prepare, self._build_result, identify, self._get_session,
            lambda: self.tasks, self.load, self._rounds.parked_calls,
        )  # fmt: skip
        self._task_service = build_tasks(tasks, host, self._replica)
        self._rounds.promoter = self._task_service
        self.sdk: Server[Any] = self._build_sdk(name, version, instructions)

    def _build_sdk(self, name: str, version: str, instructions: str | None) -> Server[Any]:
        pages = ListPages(self._find_list)
        sdk = GatewaySdk(
            name,
            version=version,
            instructions=instructions,
            lifespan=self._lifespan,
            # `ToolList.check_headers` knows what a client sees; otherwise the SDK lists the tools for each call.
            get_tool_input_schema=lambda _name: None,
            on_list_tools=pages.handle,
            on_subscriptions_listen=self._listening,
            cache_hints=self._cache_hints,
        )
        # Not an argument of the SDK's server, which has no type for a task.
        sdk.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        self.features.register(sdk)
        sdk.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        # The state that a client sends back to resume a call is sealed and bound to that call and client.
        sdk.middleware.append(RequestStateBoundary(build_seal(self._replica), default_audience=name))
        sdk.middleware.append(pages)
        if self._task_service is not None:
            TaskRequests(self._task_service).register(sdk)
        return sdk

    def _build_features(self, upstream: McpServers | None, spool: Spool | None) -> FeatureServer:
        access = ClientAccess(
            get_session=self._get_session,
            get_conversation=lambda ctx: self._identify(ctx).conversation,
            on_read=self._taint_reader,
            on_result=lambda ctx, name, got: self._flow.add_read(self._identify(ctx).conversation, name, got),
            is_ready=self._tools_ready,
            load=self.load,
            list_tools=lambda ctx, server: self._find_current_list(self._get_session(ctx)).name_tools_of(server),
        )
        catalog = UpstreamCatalog() if upstream is None else upstream.features
        changes = FeatureChanges(catalog, self._bus, self._listening, self._sessions.all, self._replica)
        budget = ContentBudget(self._executor.budget, spool or Spool.memory(), self._keep_artifact)
        return FeatureServer(catalog, self._offers, access, changes, budget)

    @property
    def options(self) -> InitializationOptions:
        """The options for the `initialize` handshake of the older protocol."""
        return self.sdk.create_initialization_options(NotificationOptions(tools_changed=True))

    @property
    def sessions(self) -> int:
        """Number of recently active clients."""
        return len(self._sessions.all())

    def find_readable_calls(self) -> set[str]:
        """Return the ids of the calls whose artifacts a client may still read."""
        return self._sessions.find_readable_calls()

    async def find_calls_readable_elsewhere(self) -> set[str]:
        """Return the same for the clients of other replicas."""
        return set() if self._shared is None else await self._shared.find_readable_calls()

    def forget(self, key: str) -> None:
        """Drop the session of a client that has disconnected."""
        for each in (self._sessions, self._taint, self._flow, self.features.changes):
            each.forget(key)

    def add_session(self, caller: Caller, peer: Connection) -> None:
        """Add the session of a client that has made no request here yet; `peer` tells it of changes."""
        session = self._sessions.get(caller.key, filter=self._filter_of(caller.profile), lists_artifacts=True)
        session.notify, session.peer = peer.send_tool_list_changed, peer

    async def tools_changed(self) -> None:
        """Notify every client, also of other replicas, that the list of tools has changed."""
        await self._changes.announce()

    def set_log_level(self, key: str, level: str | None) -> None:
        """Set the lowest level of log messages of a session, if it is open here."""
        if (session := self._sessions.find(key)) is not None:
            session.log_level = level

    async def drain(self, seconds: float) -> int:
        """Reject new calls, wait for running ones, then cancel the rest; return how many were cancelled.

        If this wait is itself cancelled, running calls are cancelled at once and still answered.
        """
        self._rounds.parked_calls.cancel_parked()
        if self._task_service is not None:
            self.load.is_stopping = True
            self._task_service.cancel_waiting()

        def cancel_others() -> None:
            self._listening.close()
            self._rounds.parked_calls.cancel_all()

        return await self.load.drain(seconds, self._rounds.wait_until_idle, cancel_others)

    @asynccontextmanager
    async def _lifespan(self, _server: Server[Any]) -> AsyncGenerator[Any]:
        async with AsyncExitStack() as stack:
            offers = self._offers
            state = None if offers is None else await stack.enter_async_context(offers.lifespan(offers))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            self._set_tasks(tasks, state)
            try:
                yield state
            finally:
                self._rounds.parked_calls.cancel_all()
                tasks.cancel_scope.cancel()
                self._set_tasks(None, None)

    def _set_tasks(self, tasks: TaskGroup | None, state: Any) -> None:
        self.tasks, self.lifespan_state, self._rounds.tasks = tasks, state, tasks

    def _get_session(self, ctx: Context, caller: Caller | None = None) -> McpSession:
        caller = self._identify(ctx) if caller is None else caller
        session = self._sessions.open(caller, self._filter_of(caller.profile))
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            session.notify, session.peer = ctx.session.send_tool_list_changed, ctx.session
        return session

    async def _taint_reader(self, ctx: Context) -> None:
        """Remember that the client reads a prompt or resource; nothing says that those can be trusted."""
        conversation = self._identify(ctx).conversation
        if self._shared is not None:
            await self._shared.mark_tainted(conversation)
        self._taint.add(conversation)

    def _refresh_list(self, session: McpSession) -> ToolList:
        """Return the client's list of the tools that are available now."""
        session.tool_list = self._lists.get(session.get_registry(self._base), session.filter, user=session.user)
        return session.tool_list

    async def _find_list(self, ctx: Context, is_first_page: bool) -> ToolList:  # noqa: FBT001  passed by position
        session = self._get_session(ctx)
        if self._tools_ready is not None:
            await self._tools_ready.wait()
        await self._lists.connect(session.user)
        if self._shared is not None:
            await self._shared.join(session, self._identify(ctx).conversation, self._taint, self._base)
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
            if self._shared is not None:
                await self._shared.keep_log_level(session, params.level)
        entry = None if self._offers is None else self._offers.get_request_handler("logging/setLevel")
        if entry is not None:
            await entry.handler(ctx, params)
        return types.EmptyResult()

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        caller = self._identify(ctx)
        session, conversation = self._get_session(ctx, caller), caller.conversation
        is_full = self.load.is_full(conversation)
        with self.load.count(conversation):
            try:
                return await self._answer_call(ctx, params, session, conversation, is_full=is_full)
            except JournalError as error:  # of the shared store; the executor reports its own
                failed = Call(f"c_{token_hex(8)}", params.name, params.arguments or {})
                return await self._build_result(ctx, session, build_refusal(failed, f"The call was not run: {error}"))

    async def _answer_call(
        self,
        ctx: Context,
        params: types.CallToolRequestParams,
        session: McpSession,
        conversation: str,
        *,
        is_full: bool,
    ) -> Answer:
        if self._tools_ready is not None and params.name not in self._base:
            await self._tools_ready.wait()
        if self._shared is not None:
            await self._shared.join(session, conversation, self._taint, self._base)
        known = self._find_current_list(session)
        known.check_headers(ctx, params)

        def build_call(call_id: str) -> Call:
            return known.definitions.call(call_id, params.name, params.arguments or {})

        if params.request_state is not None:
            prepare = partial(self._prepare, ctx, session, conversation)
            return await self._rounds.resume(ctx, session, params, lambda call_id: prepare(build_call(call_id)))
        if is_full:
            refused = Call(f"c_{token_hex(8)}", params.name, params.arguments or {})
            return await self._build_result(ctx, session, build_refusal(refused, self.load.explain_full()))
        call = build_call(f"c_{token_hex(8)}")
        if self._shared is None:
            call = self._waiting_calls.reuse_id(conversation, call)
        else:
            call = await self._shared.prepare_call(session, conversation, call, session.get_registry(self._base))
        if self.load.is_stopping:
            why = "The server is shutting down. Try again later."
            return await self._build_result(ctx, session, build_refusal(call, why))
        return await self._run(ctx, session, call, conversation)

    async def _run(self, ctx: Context, session: McpSession, call: Call, conversation: str) -> Answer:
        execute, peer = self._prepare(ctx, session, conversation, call)
        is_parkable = peer.can_be_asked and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        may_be_task = self._task_service is not None and self._task_service.get_delay(ctx) is not None
        if (is_parkable or may_be_task) and self.tasks is not None:
            return await self._rounds.start(self.tasks, ctx, session, execute, peer)
        outcome = build_cancelled(call)
        async with peer.attach_request(ctx):
            with self.load.cancellable():
                outcome = await execute()
        return await self._build_result(ctx, session, outcome)

    def _prepare(
        self, ctx: Context, session: McpSession, conversation: str, call: Call, again: Again | None = None
    ) -> tuple[Execute, CallClient]:
        events = Events()
        peer = CallClient(ctx, session, call, events)
        registry = session.get_registry(self._base)
        if again is not None and again.can_repeat:
            registry = allow_repeat(registry, call.name)
        tool = registry.get(call.name)
        peer.can_repeat = tool is not None and (tool.idempotent or tool.read_only)
        approve = name_answers(approve_by_gate, "the user of the client") if peer.can("elicitation") else None
        executor = self._executor.with_registry(registry, approve=approve, slots=self._slots.for_key(conversation))

        async def execute() -> CallOutcome:
            tool_ctx = ToolContext(
                session.key if again is None else again.session_id,
                turn_id=call.tool_call_id,
                working_dir=self._working_dir,
                events=events,
                open_gate=peer.open_gate,
                client=peer,
                caller=None if session.user is None else {"user": session.user},
            )
            await self._flow.open(conversation, tool_ctx, peer)
            taints = may_taint(tool)
            if self._shared is not None and taints:
                await self._shared.mark_tainted(conversation)
            with (
                session.activate(call.tool_call_id),
                self._taint.track(conversation, tool_ctx, trusted=not taints),
            ):
                [outcome] = await executor.execute_parallel([call], tool_ctx, session.filter)
            await self._flow.keep(conversation)
            if self._shared is not None and approve is None:
                await self._shared.keep_waiting(conversation, call, outcome, tool)
            return self._waiting_calls.keep(conversation, call, outcome)

        return execute, peer

    async def _build_result(self, ctx: Context, session: McpSession, outcome: CallOutcome) -> types.CallToolResult:
        outcome = report_missing_capability(ctx, outcome)
        await self._keep_artifact(session, outcome)
        tool = session.get_registry(self._base).get(outcome.name)
        return await self._results.build(outcome, tool, session.tool_list, ctx.protocol_version)

    async def _keep_artifact(self, session: McpSession, outcome: CallOutcome) -> None:
        """Let the client read the artifact of a call, if it has one."""
        if self._shared is not None and can_be_read_back(outcome):
            await self._shared.keep_artifact(session, outcome)
        if session.keep_artifact(outcome):
            await self._changes.notify([session])
            if self._shared is not None:
                self._shared.replica.post("tools_changed", {"session": session.key})
