"""The calls of the reply that a turn is working on: which have finished, and what the others wait for."""

from dataclasses import dataclass, field
from typing import NamedTuple

from spindle.calls import Call, CallOutcome, ToolCallRecord
from spindle.json_types import JsonObject, JsonValue


class Decision(NamedTuple):
    """A person's answer to the ticket of a call."""

    approved: bool
    args: JsonObject | None = None
    """Replaces the arguments of the call."""
    by: str | None = None


class WaitingGate(NamedTuple):
    """A gate at which a handler waits, in a turn that is being suspended."""

    id: str
    reason: str
    payload: JsonValue
    problem: str | None = None
    """Why the last answer was not accepted."""


@dataclass(slots=True, eq=False)
class CallProgress:
    """One call of the reply that a turn is working on: finished, waiting, or still to be run."""

    call: Call
    fingerprint: str | None = None
    """Of the tool when the call was made."""
    record: ToolCallRecord | None = None
    """Set once the call has finished."""
    ticket: str | None = None
    gate: WaitingGate | None = None
    decision: Decision | None = None
    answers: JsonObject = field(default_factory=JsonObject)
    """The answers to the gates of the call, by their ids."""
    problem: str | None = None
    """Why the last answer to the ticket was not accepted."""
    outcome: CallOutcome | None = None
    """The last outcome; not saved."""

    @property
    def waits_for(self) -> str | None:
        """The ticket or the id of the gate that the call waits for."""
        return None if self.record is not None else self.gate.id if self.gate is not None else self.ticket
