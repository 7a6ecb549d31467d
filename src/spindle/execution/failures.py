"""What a raised exception is to the model: one table, in our own words."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from spindle.calls import Err, ErrCode
from spindle.capabilities.secrets import Redactor
from spindle.errors import (
    ArtifactQueryError,
    CallError,
    HandlerFailedError,
    InvalidToolArgsError,
    NotCanonicalError,
    SpindleError,
    StaleWriteError,
    ToolDownstreamError,
)
from spindle.execution.redacting import with_clean_cause
from spindle.tools.masking import MASK
from spindle.tools.problems import printable

_MAX_WORDS = 2_000
_MAX_CLASS_NAME = 100
_NO_SECRETS = Redactor()
_CODES: tuple[tuple[type[SpindleError], ErrCode], ...] = (
    (InvalidToolArgsError, "input_invalid"),
    (NotCanonicalError, "input_invalid"),
    (ArtifactQueryError, "input_invalid"),
    (StaleWriteError, "stale_write"),
)


def err_of(error: BaseException, *, tool: str, expose: bool = False) -> Err:
    """Translate what a handler or a validator raised.

    Our own errors speak to the model; a handler's shows its class and message only where its tool says so.
    """
    if isinstance(error, CallError) and not isinstance(error, ToolDownstreamError):
        return Err(_code_of(error), _words(error, None), field=error.field, cause=error)
    if expose:
        text = f"The tool {tool!r} failed: {_described(error)}"
    else:
        text = f"The tool {tool!r} failed while running. Its error was recorded; try something else, or ask the user."
    return Err("execution_failed", text, cause=error)


def without_secrets(err: Err, arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> Err:
    """Mask the values of secret fields in what the model is told, and in what was raised."""
    if not secret_fields:
        return err
    text = secrets_masked(err.error, arguments, secret_fields)
    told = err if text == err.error else replace(err, error=text)
    return with_clean_cause(told, redactor_of(arguments, secret_fields))


def redactor_of(arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> Redactor:
    """Give what masks the values of secret fields; where there are none it masks nothing."""
    return Redactor(_secret_texts(arguments, secret_fields)) if secret_fields else _NO_SECRETS


def secrets_masked(text: str, arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> str:
    """Mask the values of secret fields in a text, however they are spelled there."""
    spellings = {spelled for part in _secret_texts(arguments, secret_fields) for spelled in _spelled(part)}
    for spelled in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelled, MASK)
    return text


def _secret_texts(arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> list[str]:
    return [text for name in secret_fields for text in _texts((arguments or {}).get(name))]


def _code_of(error: CallError) -> ErrCode:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return "execution_failed"


def _described(error: BaseException) -> str:
    if isinstance(error, HandlerFailedError):
        name, words = error.class_name, printable(error.text, _MAX_WORDS)
    else:
        name, words = type(error).__name__, _words(error, _MAX_WORDS)
    name = printable(name, _MAX_CLASS_NAME)
    return f"{name}: {words}" if words else name


def _words(error: BaseException, limit: int | None) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  an exception whose text raises is still only a failed call
        return "(its message cannot be shown)"
    return text if limit is None else printable(text, limit)


def _texts(secret: Any) -> Iterator[str]:
    """Give what a secret may show up as: itself, and every text and number in it."""
    if isinstance(secret, Mapping):
        secret = list(cast("Mapping[Any, Any]", secret).values())
    if isinstance(secret, Sequence) and not isinstance(secret, (str, bytes)):
        for part in cast("Sequence[Any]", secret):
            yield from _texts(part)
    elif secret is not None and not isinstance(secret, bool) and len(text := str(secret)) > 2:
        yield text


def _spelled(text: str) -> set[str]:
    """Give the ways in which a text is quoted in errors; a very short one would mask half the message."""
    return {text, printable(text, _MAX_WORDS), repr(text)[1:-1], json.dumps(text)[1:-1]}
