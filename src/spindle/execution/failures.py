"""Translates exceptions of handlers to an `Err`, and redacts secrets in it and in its cause."""

from dataclasses import replace
from typing import Any, NoReturn, cast

from spindle.calls import Err, ErrBy, ErrCode, Ok
from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import (
    ApprovalRequiredError,
    ArtifactQueryError,
    CallError,
    HandlerFailedError,
    InvalidToolArgsError,
    NotCanonicalError,
    SpindleError,
    StaleWriteError,
    ToolDownstreamError,
)
from spindle.text import to_printable
from spindle.tools.arguments import NO_SECRETS

_MAX_WORDS = 2_000
_MAX_CLASS_NAME = 100
_CODES: tuple[tuple[type[SpindleError], ErrCode], ...] = (
    (InvalidToolArgsError, "input_invalid"),
    (NotCanonicalError, "input_invalid"),
    (ArtifactQueryError, "input_invalid"),
    (StaleWriteError, "stale_write"),
    (ApprovalRequiredError, "needs_approval"),
)


class _HandlerSuspension(BaseException):
    """Ends a handler that waits for an answer; the turn is suspended, and the handler starts again with the answer.

    Not an `Exception`, so that a handler does not take it for a failure of its own.
    """


def to_err(
    error: BaseException, *, tool: str, expose: bool = False, secrets: Redactor = NO_SECRETS, by: ErrBy = "tool"
) -> Err:
    """Translate an exception of a handler or a validator to an `Err` without `secrets`.

    Messages of Spindle's own errors are passed to the model; class and message of others only with `expose`. `by` says
    who raised an error of Spindle's tree: a handler may raise one with any text.
    """
    if _is_suspension(error):
        return Err("needs_approval", f"The tool {tool!r} waits for a person's answer.", by="spindle")
    if isinstance(error, CallError) and not isinstance(error, ToolDownstreamError):
        return redact_err(Err(_get_code(error), _get_message(error), field=error.field, cause=error, by=by), secrets)
    if expose:
        # Redacted before it is shortened: the beginning of a secret is not recognised.
        text, by = f"The tool {tool!r} failed: {_describe_error(error, secrets)}", "tool"
    else:
        text = f"The tool {tool!r} failed while running. Its error was recorded; try something else, or ask the user."
        by = "spindle"
    return redact_cause(Err("execution_failed", text, cause=error, by=by), secrets)


def _is_suspension(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):  # of a task group of the handler
        return any(map(_is_suspension, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, _HandlerSuspension)


def suspend_handler() -> NoReturn:
    """End a handler by an exception that the executor recognizes; it is started again once its answer is there."""
    raise _HandlerSuspension


def is_suspended(result: Ok | Err) -> bool:
    """Return whether a result says that the handler waits for an answer, and has to be started again with it."""
    return isinstance(result, Err) and result.code == "needs_approval" and result.by == "spindle" and not result.ticket


def _get_code(error: CallError) -> ErrCode:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return "execution_failed"


def _describe_error(error: BaseException, secrets: Redactor) -> str:
    if isinstance(error, HandlerFailedError):
        name, words = error.class_name, error.text
    else:
        name, words = type(error).__name__, _get_message(error)
    name, words = to_printable(name, _MAX_CLASS_NAME), to_printable(secrets.redact(words), _MAX_WORDS)
    return f"{name}: {words}" if words else name


def _get_message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  an exception whose str() raises is still a failed call
        return "(its message cannot be shown)"


def redact_err(err: Err, secrets: Redactor) -> Err:
    """Return the error with secrets redacted in its text, its field and its cause."""
    if not secrets:
        return err
    text, field = secrets.redact(err.error), None if err.field is None else secrets.redact(err.field)
    is_clean = text is err.error and field is err.field
    return redact_cause(err if is_clean else replace(err, error=text, field=field), secrets)


def redact_cause(err: Err, redactor: Redactor) -> Err:
    """Return the error with secrets redacted in its cause; a cause that cannot be redacted is only described."""
    if err.cause is None or not redactor:
        return err
    try:
        cause = _redact_value(err.cause, redactor)
    except Exception:  # noqa: BLE001  inspecting a foreign exception may raise anything
        cause = _describe_cause(err.cause, "(its message cannot be shown)")
    return err if cause is err.cause else replace(err, cause=cause)


def _redact_value(cause: Any, redactor: Redactor) -> Any:
    if not isinstance(cause, BaseException):
        return redactor.redact_value(cause)
    return cause if redactor.redact_error(cause) else _describe_cause(cause, redactor.redact(str(cause)))


def _describe_cause(cause: object, text: str) -> HandlerFailedError:
    name = type(cause).__name__
    return HandlerFailedError(f"A handler raised {name}, whose message contains a secret.", class_name=name, text=text)
