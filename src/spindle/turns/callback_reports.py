"""What an executor callback works with: reports of deltas, log lines and usage, and the calls of its loop."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, cast

from spindle.calls import Call, CallOutcome, Ok, RawArgs
from spindle.errors import LimitError, UsageError
from spindle.events import Events, Logged, TextDelta, ToolCallDelta
from spindle.execution.admission import read_call
from spindle.execution.call_state import compute_call_checksum
from spindle.execution.executor import DirectRunner, Executor
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.arguments import copy_masked, mask_call_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.identity import checksum
from spindle.tools.registry import ToolRegistry
from spindle.turns.context import DispatchContext
from spindle.turns.retrieved_texts import check_call_id

if TYPE_CHECKING:
    from spindle.execution.approval import Approve


class CallUpdate(TypedDict, total=False):
    """What a model callback knows so far of a call that the model is still writing."""

    tool: str
    args: RawArgs
    is_complete: bool
    is_error: bool
    results: JsonValue


@dataclass(slots=True)
class _PartialReport:
    full: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    is_complete: bool = False
    iteration: int | None = None
    call: CallUpdate = field(default_factory=CallUpdate)


class Usage:
    """Usage totals of a turn, such as tokens and cost."""

    def __init__(self, total: JsonObject) -> None:
        self.total = total

    def add(self, usage: object) -> None:
        """Add usage figures: numbers are summed, other values are overwritten."""
        if usage is None:
            return
        for name, value in _to_mapping(usage).items():
            before = self.total.get(name)
            both_numbers = _is_number(before) and _is_number(value)
            self.total[name] = before + value if both_numbers else value


def _to_mapping(usage: object) -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", usage) if isinstance(usage, Mapping) else vars(usage)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Log:
    """Writes lines to the `log` event."""

    def __init__(self, helpers: "CallbackHelpers") -> None:
        self._helpers = helpers

    def trace(self, message: str, **payload: object) -> None:
        """Write a line at trace level."""
        self._helpers.write("trace", message, payload)

    def debug(self, message: str, **payload: object) -> None:
        """Write a line at debug level."""
        self._helpers.write("debug", message, payload)

    def info(self, message: str, **payload: object) -> None:
        """Write a line at info level."""
        self._helpers.write("info", message, payload)

    def warn(self, message: str, **payload: object) -> None:
        """Write a line at warn level."""
        self._helpers.write("warn", message, payload)

    def error(self, message: str, **payload: object) -> None:
        """Write a line at error level."""
        self._helpers.write("error", message, payload)


class CallbackHelpers:
    """The second argument of an executor callback; emits events to observers and stores no records."""

    def __init__(self, ctx: DispatchContext, events: Events, usage: Usage) -> None:
        self._ctx = ctx
        self._events = events
        self._usage = usage
        self._reports: dict[tuple[str, str], _PartialReport] = {}

    @property
    def log(self) -> Log:
        """Writes lines to the `log` event."""
        # Not cached: that would be a reference cycle.
        return Log(self)

    def report_message(self, id: str, delta: str, is_complete: bool = False) -> None:  # noqa: FBT001, FBT002  the public shape
        """Emit a delta of the answer."""
        self._report_text("message", id, delta, is_complete=is_complete)

    def report_thought(self, id: str, delta: str, is_complete: bool = False) -> None:  # noqa: FBT001, FBT002
        """Emit a delta of the model's reasoning."""
        self._report_text("thought", id, delta, is_complete=is_complete)

    def report_tool_call(self, id: str, **partial: Unpack[CallUpdate]) -> None:
        """Emit an update of a call: `tool`, `args`, `is_complete`, `is_error`, `results`; merged with earlier updates.

        Secret fields of the tool are masked in the event.
        """
        growing = self._get_report("tool_call", id)
        facts = growing.call
        facts.update(partial)
        growing.is_complete = bool(facts.get("is_complete"))
        if not self._events.has_observer("tool_call"):
            return
        now = datetime.now(UTC)
        tool, args = facts.get("tool", ""), facts.get("args")
        self._events.notify(
            "tool_call",
            ToolCallDelta(
                id=id,
                turn_id=self._ctx.turn_id,
                tool=tool,
                args=self._mask_args(tool, args),
                checksum=_checksum(tool, args) if tool and "args" in facts else "",
                is_complete=growing.is_complete,
                is_error=bool(facts.get("is_error")),
                results=facts.get("results"),
                created_at=growing.created_at,
                updated_at=now,
                completed_at=now if growing.is_complete else None,
            ),
        )

    def report_usage(self, usage: object) -> None:
        """Add figures to the turn's usage."""
        self._usage.add(usage)

    def write(self, level: Literal["trace", "debug", "info", "warn", "error"], message: str, payload: object) -> None:
        """Emit a `log` event."""
        ctx = self._ctx
        self._events.notify(
            "log",
            Logged(
                level=level,
                message=message,
                turn_id=ctx.turn_id,
                dispatch_id=ctx.dispatch_id,
                iteration=ctx.iteration,
                emitted_at=datetime.now(UTC),
                payload=payload or None,
            ),
        )

    def _report_text(self, kind: Literal["message", "thought"], id: str, delta: str, *, is_complete: bool) -> None:
        growing = self._get_report(kind, id)
        growing.full += delta
        growing.is_complete = is_complete
        if kind == "thought":
            self._ctx.watch.add_thought(id, growing.full)
        now = datetime.now(UTC)
        self._events.notify(
            kind,
            TextDelta(
                id=id,
                turn_id=self._ctx.turn_id,
                delta=delta,
                full=growing.full,
                is_complete=is_complete,
                created_at=growing.created_at,
                updated_at=now,
                completed_at=now if is_complete else None,
            ),
        )

    def _mask_args(self, tool: str, args: RawArgs) -> JsonValue:
        found = self._ctx.tools.get(tool)
        secret_fields = () if found is None else found.secret_fields
        return copy_masked(mask_call_arguments(args, tool=tool, secret_fields=secret_fields), ())

    def _get_report(self, kind: str, id: str) -> _PartialReport:
        growing = self._reports.setdefault((kind, id), _PartialReport())
        if growing.is_complete:
            # Providers restart their ids in each response, so a complete id in a later iteration is a new item.
            if growing.iteration in {None, self._ctx.iteration}:
                raise UsageError(f"The {kind} {id!r} is already complete; use another id for a new one.", field="id")
            growing = self._reports[kind, id] = _PartialReport()
        if growing.iteration is None:
            growing.iteration = self._ctx.iteration
        return growing


def _checksum(tool: str, args: RawArgs) -> str:
    try:
        return checksum(tool, args)
    except Exception:  # noqa: BLE001  an incomplete call may contain anything
        return ""


class LoopCalls:
    """The calls of one model loop: run by its executor, within its limits, and with a record of each.

    It is the `ToolRunner` of the loop's contexts, so `tool.executor(ctx)` has the current settings of the dispatch.
    """

    def __init__(
        self,
        ctx: DispatchContext,
        executor: Executor,
        usage: Usage,
        *,
        max_repeats: int | None,
        on_stored: Callable[[], object],
        approve: "Approve | None" = None,
    ) -> None:
        self._ctx = ctx
        self._tools: ToolRegistry | None = None
        self._executor = executor
        self._approve = approve
        self._usage = usage
        self._max_repeats = max_repeats
        self._on_stored = on_stored

    @property
    def executor(self) -> Executor:
        """The loop's executor, with the turn's current registry, so that shown tools are those that can run."""
        if self._tools is not self._ctx.tools:
            self._tools = self._ctx.tools
            self._executor = self._executor.with_registry(
                self._tools, spool=self._ctx.turn.spool, approve=self._approve
            )
        return self._executor

    def __enter__(self) -> None:
        """Let the contexts of the dispatch and of its turn run calls; not longer, to leave no reference cycle."""
        self._ctx.bind_loop(self)

    def __exit__(self, *_: object) -> None:
        self._ctx.bind_loop(None)

    def tool_context(self) -> ToolContext:
        """Return the context of the dispatch for handlers."""
        return self._ctx.tool_context()

    async def execute(self, calls: Iterable[Call | Mapping[str, JsonValue]]) -> list[CallOutcome]:
        """Run calls that the callback or middleware requests, and store a record of each.

        Raises:
            ArtifactIdCollisionError: A retrievable of the turn has the id of a call.
            LimitError: A call was repeated too often.
        """
        outcomes = await self.run_batch(list(calls))
        self._on_stored()
        return outcomes

    async def run_batch(self, calls: "list[Call | Mapping[str, JsonValue]] | list[Call]") -> list[CallOutcome]:
        """Run the calls of one reply, and store a record of each.

        Raises:
            ArtifactIdCollisionError: A retrievable of the turn has the id of a call.
            LimitError: A call was repeated too often.
        """
        self.check(calls)
        outcomes = await self.run(calls)
        for outcome in outcomes:
            await self._ctx.store_tool_call(outcome.to_record())
            self.add_cost(outcome)
        return outcomes

    def check(self, calls: Iterable[Call | Mapping[str, JsonValue]]) -> None:
        """Check the ids of calls, and how often each was made.

        Raises:
            ArtifactIdCollisionError: A retrievable of the turn has the id of a call.
            LimitError: A call was repeated too often.
        """
        for given in calls:
            call, _ = read_call(given)
            check_call_id(call.tool_call_id, self._ctx.turn.records)
            self._check_repeats(call)

    async def run(self, calls: Iterable[Call | Mapping[str, JsonValue]]) -> list[CallOutcome]:
        """Run calls without storing records."""
        ctx = self._ctx
        return await self.executor.execute_parallel(calls, ctx, ctx.filter, ctx.attachments)

    def add_cost(self, outcome: CallOutcome) -> None:
        """Add the cost of a call to the usage of the turn."""
        if isinstance(outcome.result, Ok) and outcome.result.cost_usd is not None:
            self._usage.add({"tool_cost_usd": outcome.result.cost_usd})

    def _check_repeats(self, call: Call) -> None:
        most = self._max_repeats
        if most is None:
            return
        times = self._ctx.tool_call_count(compute_call_checksum(call))
        if times >= most:
            raise LimitError(
                f"The model requested the same call of {call.name!r} {times + 1} times; "
                "raise max_repeats if that is expected for this tool.",
                tool=call.name,
                field="max_repeats",
            )
        if times == most - 1:
            message = f"the same call of {call.name!r} was requested {times + 1} times; the next one ends the turn"
            self._ctx.events.warn(message, source="max_repeats")

    def find_plain_timeout(self, ctx: ToolContext) -> float | None:
        """Return the time of a tool that needs nothing else from the executor, or `None`; see `ToolRunner`."""
        own = self._ctx
        is_current = (ctx.dry_run, ctx.working_dir) == (own.dry_run, own.working_dir)
        return DirectRunner(self.executor, own.filter, ()).find_plain_timeout(ctx) if is_current else None

    async def run_tool(self, tool: Tool, args: RawArgs, ctx: ToolContext) -> object:  # noqa: ARG002  may be outdated
        """Run one call with the current settings of the dispatch, and return the handler's value."""
        own = self._ctx
        return await DirectRunner(self.executor, own.filter, own.attachments).run_tool(tool, args, own.tool_context())
