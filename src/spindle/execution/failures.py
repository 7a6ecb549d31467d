"""What a raised exception is to the model: one table, in our own words."""

from spindle.calls import Err, ErrCode
from spindle.errors import (
    ArtifactQueryError,
    CallError,
    InvalidToolArgsError,
    NotCanonicalError,
    SpindleError,
    ToolDownstreamError,
)
from spindle.tools.problems import printable

_MAX_WORDS = 2_000
_CODES: tuple[tuple[type[SpindleError], ErrCode], ...] = (
    (InvalidToolArgsError, "input_invalid"),
    (NotCanonicalError, "input_invalid"),
    (ArtifactQueryError, "input_invalid"),
)


def err_of(error: BaseException, *, tool: str, expose: bool = False) -> Err:
    """Translate what a handler or a validator raised.

    Our own errors speak to the model; a handler's shows its class and message only where its tool says so.
    """
    if isinstance(error, CallError) and not isinstance(error, ToolDownstreamError):
        return Err(_code_of(error), str(error), field=error.field, cause=error)
    if expose:
        text = f"The tool {tool!r} failed: {type(error).__name__}: {_words(error)}"
    else:
        text = f"The tool {tool!r} failed while running. Its error was recorded; try something else, or ask the user."
    return Err("execution_failed", text, cause=error)


def _code_of(error: CallError) -> ErrCode:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return "execution_failed"


def _words(error: BaseException) -> str:
    try:
        return printable(str(error), _MAX_WORDS)
    except Exception:  # noqa: BLE001  an exception whose text raises is still only a failed call
        return "(its message cannot be shown)"
