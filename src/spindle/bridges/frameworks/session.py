"""Sessions that run a framework's calls through an `Executor`, and keep large results readable.

A framework runs calls one by one, or all calls of a step together. A `Session` runs them, keeps results that were too
large to show, and provides reader tools for them; it lasts for one conversation with a model and is never shared.
"""

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from copy import copy
from functools import partial
from secrets import token_hex
from threading import Lock
from typing import Any, Final, TypeVar

from anyio.from_thread import BlockingPortalProvider

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.forge import ReaderTool, collect_artifacts, forge_all, forge_without_ids
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import get_queries
from spindle.bridges.rendering import MediaSupport, RenderedResult, render_result
from spindle.calls import Call, CallOutcome, Ok, RawArgs, ToolCallRecord
from spindle.execution.approval import Approve
from spindle.execution.budget import fair_share
from spindle.execution.executor import Executor
from spindle.tools.context import ToolContext, to_tool_context
from spindle.tools.declaration import Tool
from spindle.tools.entry import ToolDefinition
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.trust.labels import is_tainting
from spindle.turns.context import DispatchContext

MAX_KEPT_RESULTS: Final = 1_000
"""Maximum number of large results of one conversation that can be read back; then the oldest is dropped."""
MAX_SESSIONS: Final = 1_000

Result = TypeVar("Result")


class FrameworkSession:
    """The calls of one conversation, run through an executor.

    Without an `executor` the session creates one, with a spool that ends with the session. With a `DispatchContext` as
    `ctx`, records are stored there, and its stash, events and gates are used. With `open_readers` the reader tools
    exist from the beginning and accept any id, for frameworks with a fixed list of tools; without, they appear once
    there is something to read.
    """

    def __init__(
        self,
        registry: ToolRegistry | Iterable[Tool],
        *,
        executor: Executor | None = None,
        filter: ToolFilter | None = None,
        ctx: ToolContext | DispatchContext | None = None,
        open_readers: bool = False,
        records: Iterable[ToolCallRecord] = (),
        tainted: bool = False,
    ) -> None:
        self.registry = registry if isinstance(registry, ToolRegistry) else ToolRegistry(registry)
        self._options: dict[str, Any] = {
            "executor": executor,
            "filter": filter,
            "ctx": ctx,
            "open_readers": open_readers,
        }
        self._executor = executor or Executor(self.registry)
        self._filter = filter
        self._ctx = ToolContext(token_hex(16)) if ctx is None else ctx
        to_tool_context(self._ctx)
        self._kept = deque(records, maxlen=MAX_KEPT_RESULTS)
        self._tainted = tainted
        self._open = self._open_readers() if open_readers else None
        self._portals = BlockingPortalProvider()

    def new_conversation(
        self, *, key: object = None, records: Iterable[ToolCallRecord] = (), tainted: bool = False
    ) -> "FrameworkSession":
        """Return a new session with the same tools and only the given records; `key` identifies its conversation.

        A journal treats the same key as the same session, so that a call interrupted by a crash is recognised.
        """
        given = dict(self._options)
        if key is not None and given["ctx"] is None:
            given["ctx"] = ToolContext(str(key))
        return FrameworkSession(self.registry, **given, records=records, tainted=tainted)

    @property
    def tool_calls(self) -> Sequence[ToolCallRecord]:
        """The calls whose results can be read back."""
        return self._ctx.tool_calls if isinstance(self._ctx, DispatchContext) else tuple(self._kept)

    @property
    def has_approver(self) -> bool:
        """Whether the executor handles approval itself."""
        return self._executor.has_approver

    def tools(self) -> ToolRegistry:
        """Return the current tools: those of the registry, and readers whose names are not registered."""
        now = self.registry.copy()
        for reader in forge_all(self) if self._open is None else self._open:
            if reader.name not in now:
                now.register(reader)
        return now

    def can_read(self, reader: str) -> bool:
        """Return whether there is a result that the reader of this name can read."""
        return any(reader in get_queries(artifact) for artifact in collect_artifacts(self).values())

    def definitions(self) -> list[ToolDefinition]:
        """Return the definitions to show the model now."""
        tools = self.tools()
        return tools.to_definitions(self._extend_filter(tools))

    async def run(
        self, calls: Sequence[Call], *, step_calls: int | None = None, approve: Approve | None = None
    ) -> list[CallOutcome]:
        """Run calls in parallel, and return one outcome for each, in order.

        `step_calls` is the number of calls of the step if the framework runs them one by one; they share the budget.
        `approve` is used if the executor has no approver.
        """
        tools = self.tools()
        executor = self._executor.with_registry(tools, approve=approve)
        context = self._context(step_calls or len(calls), len(calls))
        outcomes = await executor.execute_parallel(calls, context, filter=self._extend_filter(tools))
        for outcome in outcomes:
            await self._keep(outcome)
        return outcomes

    def run_blocking(self, work: Callable[..., Awaitable[Result]], *args: Any, **options: Any) -> Result:
        """Run `work` on an event loop in another thread and wait for it; safe in a thread that runs its own loop."""
        with self._portals as portal:
            return portal.call(partial(work, *args, **options))

    def _open_readers(self) -> ToolRegistry:
        kinds = [tool.artifact_constructor for tool in self.registry if isinstance(tool.artifact_constructor, type)]
        # Readers of the same name are interchangeable: each one queries the artifact it finds.
        return ToolRegistry.merge([forge_without_ids(kind, self) for kind in (Artifact, JsonArtifact, *kinds)])

    def _context(self, step_calls: int, calls: int) -> ToolContext:
        context = copy(to_tool_context(self._ctx))
        context.tainted = context.tainted or self._tainted
        if step_calls > calls:
            budget, total = self._executor.budget, context.result_budget_chars
            room = budget.chars_for(budget.total) if total is None else total
            context.result_budget_chars = max(1, fair_share(room, step_calls) * calls)
        return context

    async def _keep(self, outcome: CallOutcome) -> None:
        self._tainted = self._tainted or is_tainting(outcome)
        if isinstance(self._ctx, DispatchContext):
            await self._ctx.store_tool_call(outcome.to_record())
        elif is_kept(outcome):
            self._kept.append(outcome.to_record())

    def _extend_filter(self, tools: ToolRegistry) -> ToolFilter | None:
        """Extend a filter by the current reader tools, whose names it cannot know."""
        wanted = self._filter
        if wanted is None or wanted.allowed_tools is None:
            return wanted
        readers = {tool.name for tool in tools if isinstance(tool, ReaderTool)}
        return ToolFilter(
            allowed_tools=wanted.allowed_tools | readers,
            allowed_mcp_servers=wanted.allowed_mcp_servers,
            allowed_plugins=wanted.allowed_plugins,
            allowed_mcp_tools=wanted.allowed_mcp_tools,
            exclude_tools=wanted.exclude_tools,
        )


class FrameworkSessions:
    """A session for each conversation key of a framework; the least recently used one is dropped."""

    def __init__(self, first: FrameworkSession) -> None:
        self._first = first
        self._by_key: OrderedDict[Any, FrameworkSession] = OrderedDict()
        self._lock = Lock()

    def get(self, key: object) -> FrameworkSession:
        """Return the session of a conversation; `None` is the default conversation."""
        if key is None:
            return self._first
        with self._lock:  # frameworks call from several threads
            session = self._by_key.pop(key, None) or self._first.new_conversation(key=key)
            self._by_key[key] = session
            if len(self._by_key) > MAX_SESSIONS:
                self._by_key.popitem(last=False)
        return session


def is_kept(outcome: CallOutcome) -> bool:
    """Return whether an outcome left an artifact that can be read back."""
    return isinstance(outcome.result, Ok) and outcome.result.artifact is not None and not outcome.from_artifact_tool


async def has_valid_arguments(tool: Tool, args: RawArgs) -> bool:
    """Return whether arguments are valid; a call that will be rejected needs no approval."""
    try:
        await tool.validate(args)
    except Exception:  # noqa: BLE001  any error of a check rejects the call when it runs
        return False
    return True


async def render_for_framework(outcome: CallOutcome, mime_types: Collection[str]) -> RenderedResult:
    """Render an outcome in its envelope, with media the framework can carry and descriptions of the rest."""
    return await render_result(outcome, MediaSupport(mime_types=frozenset(mime_types), unsupported="fallback-stash"))


def to_metadata(outcome: CallOutcome) -> dict[str, Any]:
    """Return an outcome as plain data for programs; it is not shown to the model."""
    result = outcome.result
    facts: dict[str, Any] = {
        "ok": outcome.ok,
        "checksum": outcome.checksum,
        "duration_ms": outcome.duration_ms,
        "attempts": outcome.attempts,
        "tainting": is_tainting(outcome),
    }
    if isinstance(result, Ok):
        whole = None if is_kept(outcome) else result.structured
        return facts | {"trusted": result.trusted, "cost_usd": result.cost_usd, "structured": whole}
    return facts | {"code": result.code, "field": result.field, "retryable": result.retryable}
