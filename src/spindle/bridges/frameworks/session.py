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
from spindle.artifacts.forge import ReaderSession, can_be_read_back
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.bridges.rendering import MediaSupport, RenderedResult, render_result
from spindle.calls import Call, CallOutcome, Ok, RawArgs, ToolCallRecord
from spindle.execution.approval import Approve
from spindle.execution.budget import fair_share
from spindle.execution.executor import Executor
from spindle.json_types import JsonObject
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.entry import ToolDefinition
from spindle.tools.filters import ToolFilter
from spindle.tools.invocation import to_tool_context
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
        self._readers = ReaderSession(self, kinds=self._list_artifact_classes() if open_readers else ())
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
        return self._readers.extend(self.registry)

    def can_read(self, reader: str) -> bool:
        """Return whether there is a result that the reader of this name can read."""
        return self._readers.can_read(reader)

    def definitions(self) -> list[ToolDefinition]:
        """Return the definitions to show the model now."""
        return self.tools().to_definitions(self._filter)

    async def run(
        self, calls: Sequence[Call], *, step_calls: int | None = None, approve: Approve | None = None
    ) -> list[CallOutcome]:
        """Run calls in parallel, and return one outcome for each, in order.

        `step_calls` is the number of calls of the step if the framework runs them one by one; they share the budget.
        `approve` is used if the executor has no approver.
        """
        executor = self._executor.with_registry(self.tools(), approve=approve)
        context = self._context(step_calls or len(calls), len(calls))
        outcomes = await executor.execute_parallel(calls, context, filter=self._filter)
        for outcome in outcomes:
            await self._keep(outcome)
        return outcomes

    def run_blocking(self, work: Callable[..., Awaitable[Result]], *args: object, **options: object) -> Result:
        """Run `work` on an event loop in another thread and wait for it; safe in a thread that runs its own loop."""
        with self._portals as portal:
            return portal.call(partial(work, *args, **options))

    def _list_artifact_classes(self) -> list[type]:
        """Return the classes of the artifacts that the tools may leave."""
        own = [tool.artifact_constructor for tool in self.registry if isinstance(tool.artifact_constructor, type)]
        return [Artifact, JsonArtifact, *own]

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
        elif can_be_read_back(outcome):
            self._kept.append(outcome.to_record())


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


def to_metadata(outcome: CallOutcome) -> JsonObject:
    """Return an outcome as plain data for programs; it is not shown to the model."""
    result = outcome.result
    facts: JsonObject = {
        "ok": outcome.ok,
        "checksum": outcome.checksum,
        "duration_ms": outcome.duration_ms,
        "attempts": outcome.attempts,
        "tainting": is_tainting(outcome),
    }
    if isinstance(result, Ok):
        whole = None if can_be_read_back(outcome) else result.structured
        return facts | {"trusted": result.trusted, "cost_usd": result.cost_usd, "structured": whole}
    return facts | {"code": result.code, "field": result.field, "retryable": result.retryable}
