"""The mutable state of one call while the executor runs it, and its journal state."""

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
    """The journal state of one call."""

    key: str
    interrupted_entry: JournalEntry | None = None
    """Entry left by a crashed process: the call was started and its outcome is unknown."""
    answer: HandlerResult | None = None
    """The recorded result of an earlier run of the same call."""
    is_begun: bool = False
    """Whether the intent was written; the outcome must then be written too."""
    is_recorded: bool = False
    """Whether nothing is left to write for this call."""
    media: list[dict[str, Any]] | None = None
    """JSON descriptions of its media; `None` until they were built."""

    def for_duplicate(self) -> "JournalState":
        """Return the state for a duplicate call that shares this result; it is not written again."""
        return JournalState(self.key, answer=self.answer, is_recorded=True)


@dataclass(slots=True, eq=False)
class CallState:
    """The state of one call, filled in step by step by admission, execution and truncation."""

    call: Call
    started: float
    entry: Entry = None  # type: ignore[assignment]  # set by the first admission check
    runnable: Runnable = None  # type: ignore[assignment]
    arguments: dict[str, Any] | None = None
    """The arguments as the model sent them, parsed."""
    value: Any = None
    """The validated arguments as the handler receives them."""
    ctx: ToolContext = None  # type: ignore[assignment]
    settled: HandlerResult | None = None
    reduced: Ok | Err | None = None
    is_truncated: bool = False
    """Whether the budget truncated the text."""
    duration_ms: float = 0.0
    attempts: int = 0
    known_checksum: str | None = None
    needs_approval: bool = False
    """Whether approval is required, by the tool or by the sink policy."""
    journal_state: JournalState | None = None
    """`None` without a journal, and until the journal was asked about the call."""

    @property
    def needs_full_copy(self) -> bool:
        """Whether the text is reduced or lossy, so that the full result is spooled even if the text fits."""
        settled = self.settled
        return settled is not None and (self.reduced is not settled.result or settled.is_lossy)

    @property
    def is_from_record(self) -> bool:
        """Whether the result was read from the journal; it is then returned unchanged."""
        return (
            self.journal_state is not None
            and self.journal_state.answer is not None
            and self.settled is self.journal_state.answer
        )

    @property
    def spool_id(self) -> str:
        """The spool id of the full result."""
        return f"{self.ctx.session_id}/{self.ctx.turn_id}/{self.call.tool_call_id}"

    @property
    def checksum(self) -> str:
        """The call's checksum; arguments that cannot be parsed are hashed as text."""
        if self.known_checksum is None:
            self.known_checksum = _checksum(self.call, self.arguments)
        return self.known_checksum

    def finish(self, settled: HandlerResult) -> None:
        """Store the result of the call and its duration."""
        self.settled = settled
        self.reduced = settled.result
        self.duration_ms = (time.perf_counter() - self.started) * 1000

    def outcome(self, *, from_artifact_tool: bool) -> CallOutcome:
        """Return the outcome of the call."""
        result = self.reduced
        if result is None:  # pragma: no cover - every path through the executor finishes the call
            result = Err("execution_failed", "The call ended without a result; report this as a bug.")
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


def compute_call_checksum(call: Call) -> str:
    """Return the checksum of a call that was not admitted yet."""
    try:
        arguments = read_arguments(call.args, tool=call.name, empty_ok=True)
    except InvalidToolArgsError:
        arguments = None
    return _checksum(call, arguments)


def compute_identity(call: Call, arguments: dict[str, Any] | None, context: ToolContext) -> tuple[str, str]:
    """Return a call's checksum and idempotency key.

    Takes no `CallState`: the context keeps this function, and a state would make a reference cycle with it.
    """
    found = _checksum(call, arguments)
    return found, idempotency_key(context.session_id, context.turn_id, call.tool_call_id, found)


def _checksum(call: Call, arguments: dict[str, Any] | None) -> str:
    given: Any = call.args if arguments is None else arguments
    try:
        if arguments is not None and isinstance(call.args, (str, bytes)):
            # Parsed again: a handler may have changed the values that were parsed before.
            given = read_arguments(call.args, tool=call.name, empty_ok=True)
        return checksum(call.name, given)
    except Exception:  # noqa: BLE001  a call without canonical JSON is refused, but its outcome needs a checksum
        return checksum(call.name, _to_ascii(given))


def _to_ascii(given: object) -> str:
    try:
        return ascii(given)
    except Exception:  # noqa: BLE001
        return type(given).__name__
