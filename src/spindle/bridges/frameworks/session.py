"""How a framework's calls are run: a session of an `Executor`, its kept results, and a door for who cannot wait.

A framework asks call by call, or for all calls of a step. A `Session` runs them, keeps what was too large to show, and
makes the reader tools for it; it lasts as long as one conversation with a model and is never shared by two.
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
from spindle.artifacts.forge import ReaderTool, addresses, forge_all, forge_open
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.queries import queries_for
from spindle.bridges.rendering import Answer, Sees, answer_of
from spindle.calls import Call, CallOutcome, Ok, RawArgs, ToolCallRecord
from spindle.execution.approval import Approve
from spindle.execution.budget import fair_share
from spindle.execution.executor import Executor
from spindle.tools.context import ToolContext, as_tool_context
from spindle.tools.declaration import Tool
from spindle.tools.entry import ToolDefinition
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.trust.labels import taints
from spindle.turns.context import DispatchContext

MAX_KEPT: Final = 1_000
"""So many large results of one conversation can be read back; then the oldest is let go."""
MAX_SESSIONS: Final = 1_000

Result = TypeVar("Result")


class Session:
    """One conversation's calls, run through an executor.

    Without an `executor` the session has one of its own, and with it a spool that ends with the session. Give a
    `DispatchContext` as `ctx` to have the records kept there, with its stash, its events and its gates. With
    `open_readers` the reader tools are there from the beginning and take any id, for a framework whose list of tools is
    made once; without, they come when there is something to read.
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
        self._given: dict[str, Any] = {"executor": executor, "filter": filter, "ctx": ctx, "open_readers": open_readers}
        self._executor = executor or Executor(self.registry)
        self._filter = filter
        self._ctx = ToolContext(token_hex(16)) if ctx is None else ctx
        as_tool_context(self._ctx)
        self._kept = deque(records, maxlen=MAX_KEPT)
        self._tainted = tainted
        self._open = self._open_readers() if open_readers else None
        self._portals = BlockingPortalProvider()

    def fresh(self, *, key: object = None, records: Iterable[ToolCallRecord] = (), tainted: bool = False) -> "Session":
        """Give a session of the same tools that has run nothing but what is told; `key` names its conversation.

        The same name is the same session to a journal, so that a call which a crash interrupted is known again.
        """
        given = dict(self._given)
        if key is not None and given["ctx"] is None:
            given["ctx"] = ToolContext(str(key))
        return Session(self.registry, **given, records=records, tainted=tainted)

    @property
    def tool_calls(self) -> Sequence[ToolCallRecord]:
        """The calls whose results can be read back."""
        return self._ctx.tool_calls if isinstance(self._ctx, DispatchContext) else tuple(self._kept)

    @property
    def has_approver(self) -> bool:
        """Whether the executor itself asks somebody."""
        return self._executor.has_approver

    def tools(self) -> ToolRegistry:
        """Give the tools there are now: those of the registry, and readers; a tool of the user's own comes first."""
        now = self.registry.copy()
        for reader in forge_all(self) if self._open is None else self._open:
            if reader.name not in now:
                now.register(reader)
        return now

    def can_read(self, reader: str) -> bool:
        """Say whether there is anything now that a reader of this name can read."""
        return any(reader in queries_for(artifact) for artifact in addresses(self).values())

    def definitions(self) -> list[ToolDefinition]:
        """Tell what the model may be told now."""
        tools = self.tools()
        return tools.to_definitions(self._permitting(tools))

    async def run(
        self, calls: Sequence[Call], *, step_calls: int | None = None, approve: Approve | None = None
    ) -> list[CallOutcome]:
        """Run calls side by side, and give one outcome each, in their order.

        `step_calls` says of how many calls these are some, where the framework asks one by one; the budget is shared
        by all of them. `approve` is asked where the executor asks nobody.
        """
        tools = self.tools()
        executor = self._executor.with_registry(tools, approve=approve)
        context = self._context(step_calls or len(calls), len(calls))
        outcomes = await executor.execute_parallel(calls, context, filter=self._permitting(tools))
        for outcome in outcomes:
            await self._keep(outcome)
        return outcomes

    def run_blocking(self, work: Callable[..., Awaitable[Result]], *args: Any, **options: Any) -> Result:
        """Wait for `work` on an event loop in another thread: safe also where this thread runs a loop of its own."""
        with self._portals as portal:
            return portal.call(partial(work, *args, **options))

    def _open_readers(self) -> ToolRegistry:
        kinds = [tool.artifact_constructor for tool in self.registry if isinstance(tool.artifact_constructor, type)]
        # Of two with the same name either will do: a reader asks the artifact it finds.
        return ToolRegistry.merge([forge_open(kind, self) for kind in (Artifact, JsonArtifact, *kinds)])

    def _context(self, step_calls: int, calls: int) -> ToolContext:
        context = copy(as_tool_context(self._ctx))
        context.tainted = context.tainted or self._tainted
        if step_calls > calls:
            budget, total = self._executor.budget, context.result_budget_chars
            room = budget.chars_for(budget.total) if total is None else total
            context.result_budget_chars = max(1, fair_share(room, step_calls) * calls)
        return context

    async def _keep(self, outcome: CallOutcome) -> None:
        self._tainted = self._tainted or taints(outcome)
        if isinstance(self._ctx, DispatchContext):
            await self._ctx.store_tool_call(outcome.to_record())
        elif is_kept(outcome):
            self._kept.append(outcome.to_record())

    def _permitting(self, tools: ToolRegistry) -> ToolFilter | None:
        """Let the readers of permitted results pass a filter that cannot know their names."""
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


class Sessions:
    """A session for each conversation that a framework tells apart; the one not used for longest is let go."""

    def __init__(self, first: Session) -> None:
        self._first = first
        self._by_key: OrderedDict[Any, Session] = OrderedDict()
        self._lock = Lock()

    def of(self, key: object) -> Session:
        """Give the session of a conversation; `None` is the one that has no name."""
        if key is None:
            return self._first
        with self._lock:  # frameworks ask from several threads at once
            session = self._by_key.pop(key, None) or self._first.fresh(key=key)
            self._by_key[key] = session
            if len(self._by_key) > MAX_SESSIONS:
                self._by_key.popitem(last=False)
        return session


def is_kept(outcome: CallOutcome) -> bool:
    """Say whether an outcome left something that can be read back."""
    return isinstance(outcome.result, Ok) and outcome.result.artifact is not None and not outcome.from_artifact_tool


async def has_valid_arguments(tool: Tool, args: RawArgs) -> bool:
    """Say whether a call has arguments it could run with; about one that will be refused nobody need be asked."""
    try:
        await tool.validate(args)
    except Exception:  # noqa: BLE001  whatever a check raises refuses the call when it is made
        return False
    return True


async def answered(outcome: CallOutcome, mime_types: Collection[str]) -> Answer:
    """Render an outcome in its envelope, with the media that the framework can carry and words for the rest."""
    return await answer_of(outcome, Sees(mime_types=frozenset(mime_types), unsupported="fallback-stash"))


def facts_of(outcome: CallOutcome) -> dict[str, Any]:
    """Tell an outcome as plain data, for programs; the model is not shown it."""
    result = outcome.result
    facts: dict[str, Any] = {
        "ok": outcome.ok,
        "checksum": outcome.checksum,
        "duration_ms": outcome.duration_ms,
        "attempts": outcome.attempts,
        "tainting": taints(outcome),
    }
    if isinstance(result, Ok):
        whole = None if is_kept(outcome) else result.structured
        return facts | {"trusted": result.trusted, "cost_usd": result.cost_usd, "structured": whole}
    return facts | {"code": result.code, "field": result.field, "retryable": result.retryable}
