"""Sessions that run a framework's calls through an `Executor`, and keep large results readable.

A framework runs calls one by one, or all calls of a step together. A `Session` runs them, keeps results that were too
large to show, and provides reader tools for them; it lasts for one conversation with a model and is never shared.
"""

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
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
from spindle.execution.flow import may_ask
from spindle.json_types import JsonObject
from spindle.tools.arguments import read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.entry import ToolDefinition
from spindle.tools.filters import ToolFilter
from spindle.tools.invocation import to_tool_context
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.policy import FlowCall
from spindle.trust.flow.roles import ToolFlow
from spindle.trust.labels import TAINTING, UNKNOWN, Label, is_tainting, read_label
from spindle.turns.context import DispatchContext
from spindle.turns.flow_feed import add_foreign_text, add_user_text

MAX_KEPT_RESULTS: Final = 1_000
"""Maximum number of large results of one conversation that can be read back; then the oldest is dropped."""
MAX_SESSIONS: Final = 1_000
_MAX_OWN_CALLS: Final = 10_000

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierResult:
    """The result of a call in a framework's history, which another tool, run or process may have written."""

    call_id: str
    tool: str
    text: str
    facts: Mapping[str, object]
    """What `to_metadata` says about it; empty if the framework did not keep it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What a framework knows of a conversation, for the flow policy."""

    user_texts: Iterable[str] = ()
    results: Iterable[EarlierResult] = ()


_NO_HISTORY: Final = History()


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
        self._own_calls: OrderedDict[str, None] = OrderedDict()
        """Ids of the calls of this session, whose results its executor has added to the ledger."""
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

    @property
    def has_flow(self) -> bool:
        """Whether a flow policy judges the calls, which needs the history of the conversation."""
        return self._executor.flow is not None

    def may_ask(self, tool: Tool) -> bool:
        """Return whether the flow policy may require approval for a call of a tool."""
        guard = self._executor.flow
        return guard is not None and may_ask(guard.policy, tool)

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
        self,
        calls: Sequence[Call],
        *,
        step_calls: int | None = None,
        approve: Approve | None = None,
        history: History = _NO_HISTORY,
    ) -> list[CallOutcome]:
        """Run calls in parallel, and return one outcome for each, in order.

        `step_calls` is the number of calls of the step if the framework runs them one by one; they share the budget.
        `approve` is used if the executor has no approver. `history` tells a flow policy what came before.
        """
        executor = self._executor.with_registry(self.tools(), approve=approve)
        context = self._context(step_calls or len(calls), len(calls))
        await self._feed(context, history)
        outcomes = await executor.execute_parallel(calls, context, filter=self._filter)
        for outcome in outcomes:
            await self._keep(outcome)
        return outcomes

    async def find_asked(self, calls: Sequence[Call], history: History) -> dict[str, tuple[str, ...]]:
        """Return why a person must approve calls, by call id: those whose tool or whose values require it.

        A call that will be rejected needs no approval.
        """
        valid: list[tuple[Call, Tool, JsonObject]] = []
        for call in calls:
            tool = self.registry.get(call.name)
            if tool is not None and await has_valid_arguments(tool, call.args):
                valid.append((call, tool, read_arguments(call.args, tool=tool.name, empty_ok=True)))
        asked: dict[str, tuple[str, ...]] = {call.tool_call_id: () for call, tool, _ in valid if tool.requires_approval}
        guard = self._executor.flow
        if guard is not None and valid:
            context = self._context(len(calls), len(calls))
            await self._feed(context, history)
            await guard.prepare(context, self.tools())
            decisions = await guard.preview([FlowCall(tool=tool, args=args) for _, tool, args in valid], context)
            for (call, _, _), decision in zip(valid, decisions, strict=True):
                if decision.needs_approval:
                    asked[call.tool_call_id] = decision.reasons
        return asked

    async def _feed(self, context: ToolContext, history: History) -> None:
        """Tell the ledger of the conversation what the framework knows of it; only with a flow policy."""
        guard = self._executor.flow
        if guard is None:
            return
        ledger, tools = guard.open(context), self.tools()
        for text in history.user_texts:
            await add_user_text(ledger, text)
        for each in history.results:
            tool = tools.get(each.tool)
            label = UNKNOWN if tool is None else _read_label(each.facts)
            if each.call_id in self._own_calls or label is None:
                continue
            if ledger.knows_call(each.call_id):
                ledger.receive(label, each.call_id, each.tool)  # the executor has added its text
                continue
            flow = ToolFlow(name=each.tool) if tool is None else tool.flow
            key = ("result", each.call_id, hash(each.text))
            await add_foreign_text(ledger, flow, each.text, label, call_id=each.call_id, key=key)

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
        self._own_calls[outcome.tool_call_id] = None
        if len(self._own_calls) > _MAX_OWN_CALLS:
            self._own_calls.popitem(last=False)
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
        facts["label"] = read_label(result.label, trusted=result.trusted)
        return facts | {"trusted": result.trusted, "cost_usd": result.cost_usd, "structured": whole}
    return facts | {"code": result.code, "field": result.field, "retryable": result.retryable}


def _read_label(facts: Mapping[str, object]) -> Label | None:
    """Return the label that a session gave a result; `None` for a refusal, which brought nothing in."""
    given = facts.get("label")
    if facts.get("tainting") is not False:
        return "third-party-public" if given == "third-party-public" else UNKNOWN
    label = read_label(given, trusted=facts.get("trusted") is True)
    return None if given is None or label in TAINTING else label
