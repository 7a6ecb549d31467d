"""What the command's exit codes mean, and how a command ends before its time."""

from dataclasses import dataclass
from typing import Final

from spindle.calls import CallOutcome, Err

OK: Final = 0
FAILED: Final = 1
"""The tool answered with an error, or something is wrong with this machine."""
USAGE: Final = 2
"""The command line, the configuration or the arguments of a call are wrong."""
NOT_FOUND: Final = 3
"""There is no such tool, artifact or call."""
REFUSED: Final = 4
"""The call was refused, or waits for somebody's approval."""
ENDED: Final = 5
"""The call timed out or was cancelled."""
INTERRUPTED: Final = 130
"""Ctrl-C."""
PIPE_CLOSED: Final = 141
"""Whoever read the output has left."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended that could not go on: its exit code, why, and what to do."""

    code: int
    message: str
    hint: str | None = None


_BY_CODE = {
    "input_invalid": USAGE,
    "denied": REFUSED,
    "needs_approval": REFUSED,
    "timed_out": ENDED,
    "cancelled": ENDED,
}


def exit_code_of(outcome: CallOutcome) -> int:
    """The exit code of a call's outcome."""
    return _BY_CODE.get(outcome.result.code, FAILED) if isinstance(outcome.result, Err) else OK
