"""Describing what a handler raised, when it cannot be raised as it is."""

from spindle.errors import HandlerFailedError


def text_of(error: BaseException) -> str:
    """Give an exception's message, also of one whose message raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the text is the handler's code, and may do anything
        return "(its message cannot be shown)"


def steering_failure(error: BaseException) -> HandlerFailedError:
    """Give the error that stands for one which coroutines would take for a sign."""
    name = type(error).__name__
    return HandlerFailedError(
        f"the handler raised {name}, which an event loop would take for a sign to itself; "
        "return a value, or raise an ordinary exception",
        class_name=name,
        text=text_of(error),
    )
