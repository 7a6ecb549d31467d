"""Why something with a server failed, in one line for people."""

from typing import cast

from spindle.errors import SpindleError
from spindle.tools.problems import printable

_MAX_WORDS = 500


def reason_of(error: BaseException) -> str:
    """Say what went wrong; of several things that went wrong together, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, TimeoutError) and not str(error):
        return "it took too long"
    if isinstance(error, (SpindleError, FileNotFoundError, NotADirectoryError, ValueError)):
        return printable(str(error), _MAX_WORDS)
    message = getattr(error, "message", None)  # what the SDK raises carries the server's own words there
    words = printable(message if isinstance(message, str) else str(error), _MAX_WORDS)
    return words or type(error).__name__
