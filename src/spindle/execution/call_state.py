"""One call on its way through the executor."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.errors import InvalidToolArgsError
from spindle.execution.results import HandlerResult
from spindle.journal.entries import JournalEntry, idempotency_key
from spindle.tools.arguments import read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.entry import Entry
from spindle.tools.identity import checksum
from spindle.tools.invocation import Runnable


@dataclass(slots=True, eq=False)
class JournalState:
    """What a call has to do with the journal."""

    key: str
    interrupted_entry: JournalEntry | None = None
    """What a process that is gone left behind: it began this call, and nobody knows what became of it."""
    answer: HandlerResult | None = None
    """What the call was answered with when it was asked before."""
    is_begun: bool = False
    """Whether its intent is written, so that its outcome must be too."""
    is_recorded: bool = False
    """Whether there is nothing left to write about it."""
    media: list[dict[str, Any]] | None = None
    """What is written of its media, once that was looked at."""

    def shared(self) -> "JournalState":
        """The record of an equal call that has the same answer; it is written once."""
        return JournalState(self.key, answer=self.answer, is_recorded=True)


@dataclass(slots=True, eq=False)
class CallState:
    """What is known of a call so far; filled in from gate to gate."""

    call: Call
    begun: float
    entry: Entry = None  # type: ignore[assignment]  # set by the first gate
    runnable: Runnable = None  # type: ignore[assignment]
    arguments: dict[str, Any] | None = None
    """As the model sent them, parsed."""
    value: Any = None
    """As the handler gets them."""
    ctx: ToolContext = None  # type: ignore[assignment]
    settled: HandlerResult | None = None
    reduced: Ok | Err | None = None
    is_trimmed: bool = False
    """Whether the budget cut what is shown."""
    duration_ms: float = 0.0
    attempts: int = 0
    known_checksum: str | None = None
    needs_approval: bool = False
    """Whether a person must agree: as its tool wants it, or a sink policy."""
    record: JournalState | None = None
    """Only where there is a journal, and it has been asked about the call."""

    @property
    def needs_full_copy(self) -> bool:
        """Whether the text says less than the handler gave, so that the whole is kept although all of it fits."""
        settled = self.settled
        return settled is not None and (self.reduced is not settled.result or settled.is_lossy)

    @property
    def is_from_record(self) -> bool:
        """Whether the answer is an older one, which is shown as it was shown then."""
        return self.record is not None and self.record.answer is not None and self.settled is self.record.answer

    @property
    def spool_id(self) -> str:
        """Where in the spool its whole result is kept."""
        return f"{self.ctx.session_id}/{self.ctx.turn_id}/{self.call.tool_call_id}"

    @property
    def checksum(self) -> str:
        """The call's checksum; what cannot be parsed is known by its text."""
        if self.known_checksum is None:
            self.known_checksum = _checksum(self.call, self.arguments)
        return self.known_checksum

    def finish(self, settled: HandlerResult) -> None:
        """Take down what became of the call, and how long it took."""
        self.settled = settled
        self.reduced = settled.result
        self.duration_ms = (time.perf_counter() - self.begun) * 1000

    def outcome(self, *, from_artifact_tool: bool) -> CallOutcome:
        """Give the answer to the call."""
        result = self.reduced
        if result is None:  # pragma: no cover - every way through the executor finishes the job
            result = Err("execution_failed", "The call was lost on its way; report this as a bug.")
        return CallOutcome.with_lazy_checksum(
            self._make_checksum(),
            tool_call_id=self.call.tool_call_id,
            name=self.call.name,
            result=result,
            duration_ms=self.duration_ms,
            attempts=self.attempts,
            from_artifact_tool=from_artifact_tool,
            args=self.arguments or {},
        )

    def _make_checksum(self) -> Callable[[], str]:
        if self.known_checksum is not None:
            known = self.known_checksum
            return lambda: known
        call, arguments = self.call, self.arguments
        return lambda: _checksum(call, arguments)


def call_checksum(call: Call) -> str:
    """Give the checksum of a call that has not been taken in yet."""
    try:
        arguments = read_arguments(call.args, tool=call.name, empty_ok=True)
    except InvalidToolArgsError:
        arguments = None
    return _checksum(call, arguments)


def identity_of(call: Call, arguments: dict[str, Any] | None, context: ToolContext) -> tuple[str, str]:
    """Give a call's checksum and idempotency key; without its job, which would hold its context and be held by it."""
    found = _checksum(call, arguments)
    return found, idempotency_key(context.session_id, context.turn_id, call.tool_call_id, found)


def _checksum(call: Call, arguments: dict[str, Any] | None) -> str:
    given: Any = call.args if arguments is None else arguments
    try:
        if arguments is not None and isinstance(call.args, (str, bytes)):
            # Read anew: by now a handler may have changed what was read before.
            given = read_arguments(call.args, tool=call.name, empty_ok=True)
        return checksum(call.name, given)
    except Exception:  # noqa: BLE001  a call that has no canonical JSON is refused, but still has a name
        return checksum(call.name, _last_resort(given))


def _last_resort(given: object) -> str:
    try:
        return ascii(given)
    except Exception:  # noqa: BLE001
        return type(given).__name__
