"""What goes into and out of a model loop: the reply of a callback, the reports of a dispatch and of a turn."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from spindle.calls import Call, ToolCallRecord
from spindle.errors import ExecutorCallbackError, LimitError, TurnAbortedError, TurnSuspendedError
from spindle.events import DispatchEnd, TurnEnd
from spindle.json_types import JsonObject, JsonValue
from spindle.turns.context import DispatchContext
from spindle.turns.record_types import MessageLike

if TYPE_CHECKING:
    from spindle.turns.turn_saver import TurnSaver


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of a model: text, calls to run, or both."""

    text: str | None = None
    calls: Sequence[Call] = ()
    usage: Any = None


Status: TypeAlias = Literal["ok", "nack", "aborted", "error", "limit", "suspended"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnReport:
    """The result of a turn."""

    status: Status
    text: str
    turn_id: str
    messages: tuple[MessageLike, ...]
    tool_calls: tuple[ToolCallRecord, ...]
    iterations: int
    usage: Mapping[str, JsonValue]
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    error: BaseException | None = None
    state: JsonObject | None = field(default=None, repr=False)
    """Of a suspended turn: one JSON value, with which `TurnRunner.resume` continues it in any process."""

    @property
    def ok(self) -> bool:
        """Whether the turn succeeded."""
        return self.status == "ok"

    def raise_for_error(self) -> "TurnReport":
        """Return this report if the turn succeeded, else raise its error.

        Raises:
            BaseException: The error of the turn; `TurnAbortedError` if it was aborted.
            TurnSuspendedError: The turn was suspended.
        """
        if self.status == "ok":
            return self
        if self.status == "suspended":
            raise TurnSuspendedError(f"The turn {self.turn_id} waits for answers; resume its state with them.")
        if self.error is not None:
            raise self.error
        raise TurnAbortedError(f"The turn {self.turn_id} was aborted without an answer.")


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchReport:
    """The result of a dispatch."""

    status: Literal["ack", "aborted", "suspended"]
    dispatch_id: str
    turn_id: str
    text: str
    iterations: int
    usage: Mapping[str, JsonValue]
    started_at: datetime
    ended_at: datetime
    duration_ms: float


class Advance(NamedTuple):
    """How far a turn on an engine is after one iteration on a worker."""

    status: Literal["running", "suspended", "ended"]
    step: int
    """The version of the turn's record in the journal; it grows whenever the turn is saved."""


@dataclass(slots=True)
class TurnProgress:
    """The state of one turn while it runs."""

    ctx: DispatchContext
    stage: Literal["turn-input", "dispatch", "turn-output"] = "turn-input"
    status: Status = "aborted"
    """Unless the stages end: the turn was cancelled from outside."""
    error: Exception | None = None
    text: str = ""
    saver: "TurnSaver | None" = None
    """Saves the turn, if it can be resumed."""
    state: JsonObject | None = None
    """Of a turn that was suspended."""
    finished_calls: tuple[ToolCallRecord, ...] = ()
    """The finished calls of a batch in which other calls wait."""
    goes_on: bool = False
    """Whether the turn was saved between two iterations, to go on in any process."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_seconds: float = field(default_factory=time.perf_counter)

    def find_status(self) -> Status:
        """Return the status of a turn whose stages have ended."""
        if self.error is None and self.state is not None:
            return "suspended"
        if self.error is None:
            return "ok" if self.ctx.is_acked and not self.ctx.turn.aborted else "aborted"
        if isinstance(self.error, LimitError):
            return "limit"
        return "nack" if self.error is self.ctx.nack_error else "error"

    def to_report(self) -> TurnReport:
        """Build the report of the turn up to now."""
        turn, seconds = self.ctx.turn, time.perf_counter() - self.started_seconds
        return TurnReport(
            status=self.status,
            text=self.text,
            turn_id=turn.id,
            messages=turn.messages,
            tool_calls=turn.tool_calls + self.finished_calls,
            # Also reported for a failed turn: its model calls were made and cost money.
            iterations=self.ctx.iteration,
            usage=dict(self.ctx.usage),
            started_at=self.started_at,
            ended_at=self.started_at + timedelta(seconds=seconds),
            duration_ms=seconds * 1000,
            error=self.error,
            state=self.state if self.status == "suspended" else None,
        )


def build_turn_end(report: TurnReport, caller: JsonObject | None) -> TurnEnd:
    """Build the event of the end of a turn."""
    return TurnEnd(
        turn_id=report.turn_id,
        status=report.status,
        started_at=report.started_at,
        ended_at=report.ended_at,
        duration_ms=report.duration_ms,
        error=report.error,
        caller=caller,
    )


def build_dispatch_end(report: DispatchReport, error: BaseException | None, caller: JsonObject | None) -> DispatchEnd:
    """Build the event of the end of a dispatch."""
    return DispatchEnd(
        dispatch_id=report.dispatch_id,
        turn_id=report.turn_id,
        status=report.status if error is None else "nack",
        iterations=report.iterations,
        started_at=report.started_at,
        ended_at=report.ended_at,
        duration_ms=report.duration_ms,
        error=error,
        caller=caller,
    )


def to_reply(answer: object) -> Reply:
    """Convert what a callback returned to a reply.

    Raises:
        ExecutorCallbackError: It is none.
    """
    kind = type(answer).__name__
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply(text=answer)
    if isinstance(answer, (list, tuple)):
        calls = cast("Sequence[object]", answer)
        if all(isinstance(call, (Call, Mapping)) for call in calls):
            return Reply(calls=cast("Sequence[Call]", calls))
    raise ExecutorCallbackError(
        f"Expected the executor callback to return text, a list of Call, a Reply or None, got {kind}.",
        field="executor_callback",
    )
