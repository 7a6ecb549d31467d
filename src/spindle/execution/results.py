"""Normalizes handler values and exceptions to `Ok` or `Err`, and redacts secrets in results and errors."""

import json
import math
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import iscoroutine
from typing import Any, NamedTuple, cast, get_args

from jiter import from_json
from pydantic_core import to_json

from spindle.artifacts.artifact import Artifact
from spindle.calls import Err, ErrCode, Ok
from spindle.capabilities.secrets.secret import Redactor
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
from spindle.media import Media
from spindle.tools.arguments import MASK
from spindle.tools.schema.problems import to_printable

_KNOWN_CODES = frozenset(get_args(ErrCode))
_ARTIFACT_METHODS = ("head", "tail", "grep", "cat", "byte_length", "line_count", "as_text")


class HandlerResult(NamedTuple):
    """A normalized result, with its full bytes if they differ from the text."""

    result: Ok | Err
    full_bytes: bytes | None = None
    """Spooled if the text is truncated; `None` if the text itself is the full result."""

    @property
    def is_lossy(self) -> bool:
        """Whether the text lost data: the handler returned bytes that are not UTF-8, or lone surrogates."""
        result, whole = self.result, self.full_bytes
        if whole is None or not isinstance(result, Ok) or "\ufffd" not in result.value:
            return False
        return whole.removeprefix(BOM_UTF8) != result.value.encode()


def without_cost(settled: HandlerResult) -> HandlerResult:
    """Return the result without its cost, for a call that reuses it."""
    result = settled.result
    if not isinstance(result, Ok) or result.cost_usd is None:
        return settled
    return HandlerResult(replace(result, cost_usd=None), settled.full_bytes)


def normalize(value: Any, *, tool: str, trusted: bool) -> HandlerResult:
    """Convert a handler's value to a result; an invalid value becomes an `Err`, never an exception."""
    if type(value) is str:
        return HandlerResult(Ok(value, trusted=trusted)) if value.isascii() else _from_text(value, trusted=trusted)
    if value is None:
        return HandlerResult(Ok(trusted=trusted))
    try:
        return _convert_value(value, tool=tool, trusted=trusted)
    except BaseException as error:  # noqa: BLE001  inspecting the value runs the handler's own code
        kind = to_printable(type(value).__name__, 60)
        reason = f"a {kind} that is neither text, bytes, media, an artifact nor JSON"
        return HandlerResult(build_invalid_result(tool, reason, error))


def _convert_value(value: Any, *, tool: str, trusted: bool) -> HandlerResult:
    if isinstance(value, (Ok, Err)):
        return _check_returned(value, tool=tool, trusted=trusted)
    if isinstance(value, str):
        return _from_text(str.__str__(value), trusted=trusted)
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(cast("bytes", value))
        return HandlerResult(Ok(data.decode("utf-8-sig", "replace"), trusted=trusted), full_bytes=data)
    if isinstance(value, Artifact):
        return HandlerResult(Ok(artifact=value, trusted=trusted))
    if isinstance(value, Media):
        return HandlerResult(_from_media((value,), trusted=trusted))
    if _is_media_list(value):
        return HandlerResult(_from_media(tuple(value), trusted=trusted))
    return HandlerResult(_from_json(value, trusted=trusted))


def _from_text(text: str, *, trusted: bool) -> HandlerResult:
    """Build a result from text; lone surrogates, which cannot be encoded, are replaced in the text only."""
    shown, whole = _replace_lone_surrogates(text)
    return HandlerResult(Ok(shown, trusted=trusted), full_bytes=whole)


def _replace_lone_surrogates(text: str) -> tuple[str, bytes | None]:
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            whole = text.encode("utf-8", "surrogateescape")  # as in file names: restores the original bytes
        except UnicodeEncodeError:
            whole = text.encode("utf-8", "surrogatepass")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), whole
    return text, None


def _check_returned(value: Ok | Err, *, tool: str, trusted: bool) -> HandlerResult:
    wrong = _find_invalid_err_field(value) if isinstance(value, Err) else _find_invalid_ok_field(value)
    if wrong is not None:
        return HandlerResult(build_invalid_result(tool, wrong))
    if isinstance(value, Err):
        text, _ = _replace_lone_surrogates(str.__str__(value.error))
        return HandlerResult(Err(value.code, text, field=value.field, retryable=value.retryable, cause=value.cause))
    text, whole = _replace_lone_surrogates(str.__str__(value.value))
    media = tuple(value.media)
    result = Ok(
        text,
        structured=value.structured,
        media=media,
        artifact=value.artifact,
        cost_usd=value.cost_usd,
        # A handler cannot raise its own trust.
        trusted=trusted and not _has_third_party_media(media),
    )
    return HandlerResult(result, full_bytes=whole)


def _find_invalid_err_field(err: Any) -> str | None:
    if not isinstance(err.error, str):
        return "Err.error is not text"
    if err.code not in _KNOWN_CODES:
        return "Err.code is not a known code"
    if not (err.field is None or isinstance(err.field, str)):
        return "Err.field is not text"
    return None if isinstance(err.retryable, bool) else "Err.retryable is neither True nor False"


def _find_invalid_ok_field(ok: Any) -> str | None:
    if not isinstance(ok.value, str):
        return "Ok.value is not text"
    if ok.media not in ((), []) and not _is_media_list(ok.media):
        return "Ok.media is not a tuple of Media"
    if not (ok.artifact is None or isinstance(ok.artifact, Artifact) or _is_artifact_like(ok.artifact)):
        return "Ok.artifact is not an Artifact"
    if ok.cost_usd is not None and not _is_amount(ok.cost_usd):
        return "Ok.cost_usd is not a finite number"
    return None


def _is_artifact_like(artifact: object) -> bool:
    """Return whether the object has the methods of an artifact, as tools check it."""
    return all(callable(getattr(artifact, name, None)) for name in _ARTIFACT_METHODS)


def _is_amount(cost: object) -> bool:
    return isinstance(cost, (int, float)) and not isinstance(cost, bool) and math.isfinite(cost)


def _is_media_list(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(each, Media) for each in cast("Sequence[object]", value))


def _from_media(media: tuple[Media, ...], *, trusted: bool) -> Ok:
    text = "\n".join(f"[media id: {each.id} | {each.safe_filename}]" for each in media)
    return Ok(text, media=media, trusted=trusted and not _has_third_party_media(media))


def _has_third_party_media(media: Sequence[Any]) -> bool:
    return any(getattr(each, "trust_tier", None) != "first-party" for each in media)


def _from_json(value: Any, *, trusted: bool) -> Ok:
    if iscoroutine(value):
        value.close()  # avoids the "never awaited" warning
        raise TypeError("a coroutine that was not awaited")
    if isinstance(value, Iterator):
        raise TypeError("an iterator, which may be endless; return a list")
    # JSON has no NaN: written as a string it keeps the rest readable.
    data = to_json(value, inf_nan_mode="strings")
    try:
        structured: Any = from_json(data)
    except ValueError:  # nested too deeply for the parser; only the text remains
        structured = None
    return Ok(data.decode(), structured=structured, trusted=trusted)


def build_invalid_result(tool: str, reason: str, cause: BaseException | None = None) -> Err:
    """Build the error for a tool that returned an invalid result."""
    return Err("execution_failed", f"The tool {tool!r} returned an invalid result: {reason}.", cause=cause)


MAX_ARTIFACT_BYTES = 8 << 20
"""Artifacts up to this size are read completely to find secrets, and rebuilt if they contain one."""


def redact_result(settled: HandlerResult, redactor: Redactor) -> HandlerResult:
    """Return the result with all secrets redacted in text, structured value, full bytes, error and cause."""
    if not redactor:
        return settled
    result = settled.result
    if isinstance(result, Ok):
        result = _redact_ok(result, redactor)
    else:
        result = redact_cause(replace(result, error=redactor.redact(result.error)), redactor)
    whole = None if settled.full_bytes is None else redactor.redact_bytes(settled.full_bytes)
    return HandlerResult(result, whole)


def _redact_ok(result: Ok, redactor: Redactor) -> Ok:
    value, structured = redactor.redact(result.value), redactor.redact_value(result.structured)
    media = redactor.redact_value(result.media) if result.media else result.media
    if value is result.value and structured is result.structured and media is result.media:
        return result
    return replace(result, value=value, structured=structured, media=media)


async def redact_artifact(settled: HandlerResult, redactor: Redactor) -> HandlerResult:
    """Return the result with secrets redacted in its artifact; a larger artifact is redacted when it is read."""
    result = settled.result
    if not redactor or not isinstance(result, Ok) or not isinstance(result.artifact, Artifact):
        return settled
    try:
        if await result.artifact.byte_length() > MAX_ARTIFACT_BYTES:
            return settled
        data = await result.artifact.as_bytes()
    except Exception:  # noqa: BLE001  a custom reader may raise anything; reported when it is shown
        return settled
    clean = redactor.redact_bytes(data)
    if clean is data:
        return settled
    return HandlerResult(replace(result, artifact=_rebuild_artifact(result.artifact, clean)), settled.full_bytes)


def _rebuild_artifact(artifact: Artifact, data: bytes) -> Artifact:
    plain = Artifact.from_bytes(data)
    try:
        return artifact.over(plain.reader)
    except Exception:  # noqa: BLE001  a custom artifact class may raise anything
        return plain


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


_MAX_WORDS = 2_000
_MAX_CLASS_NAME = 100
_NO_SECRETS = Redactor()
_CODES: tuple[tuple[type[SpindleError], ErrCode], ...] = (
    (InvalidToolArgsError, "input_invalid"),
    (NotCanonicalError, "input_invalid"),
    (ArtifactQueryError, "input_invalid"),
    (StaleWriteError, "stale_write"),
)


def to_err(error: BaseException, *, tool: str, expose: bool = False) -> Err:
    """Translate an exception of a handler or a validator to an `Err`.

    Messages of Spindle's own errors are passed to the model; class and message of others only with `expose`.
    """
    if isinstance(error, CallError) and not isinstance(error, ToolDownstreamError):
        return Err(_get_code(error), _get_message(error, None), field=error.field, cause=error)
    if expose:
        text = f"The tool {tool!r} failed: {_describe_error(error)}"
    else:
        text = f"The tool {tool!r} failed while running. Its error was recorded; try something else, or ask the user."
    return Err("execution_failed", text, cause=error)


def mask_secret_fields(err: Err, arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> Err:
    """Mask the values of secret fields in the error text and in the cause."""
    if not secret_fields:
        return err
    text = mask_secrets(err.error, arguments, secret_fields)
    told = err if text == err.error else replace(err, error=text)
    return redact_cause(told, build_redactor(arguments, secret_fields))


def build_redactor(arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> Redactor:
    """Return a redactor for the values of secret fields; it redacts nothing if there are none."""
    return Redactor(_secret_texts(arguments, secret_fields)) if secret_fields else _NO_SECRETS


def mask_secrets(text: str, arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> str:
    """Mask the values of secret fields in a text, in each quoted spelling."""
    spellings = {spelled for part in _secret_texts(arguments, secret_fields) for spelled in _get_spellings(part)}
    for spelled in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelled, MASK)
    return text


def _secret_texts(arguments: Mapping[str, Any] | None, secret_fields: Collection[str]) -> list[str]:
    return [text for name in secret_fields for text in _iter_texts((arguments or {}).get(name))]


def _get_code(error: CallError) -> ErrCode:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return "execution_failed"


def _describe_error(error: BaseException) -> str:
    if isinstance(error, HandlerFailedError):
        name, words = error.class_name, to_printable(error.text, _MAX_WORDS)
    else:
        name, words = type(error).__name__, _get_message(error, _MAX_WORDS)
    name = to_printable(name, _MAX_CLASS_NAME)
    return f"{name}: {words}" if words else name


def _get_message(error: BaseException, limit: int | None) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  an exception whose str() raises is still a failed call
        return "(its message cannot be shown)"
    return text if limit is None else to_printable(text, limit)


def _iter_texts(secret: Any) -> Iterator[str]:
    """Yield the texts of a secret: itself, or every text and number inside it."""
    if isinstance(secret, Mapping):
        secret = list(cast("Mapping[Any, Any]", secret).values())
    if isinstance(secret, Sequence) and not isinstance(secret, (str, bytes)):
        for part in cast("Sequence[Any]", secret):
            yield from _iter_texts(part)
    elif secret is not None and not isinstance(secret, bool) and len(text := str(secret)) > 2:
        yield text


def _get_spellings(text: str) -> set[str]:
    """Return the spellings in which error messages quote a text."""
    return {text, to_printable(text, _MAX_WORDS), repr(text)[1:-1], json.dumps(text)[1:-1]}
