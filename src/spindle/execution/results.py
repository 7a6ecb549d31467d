"""Normalizes the values of handlers to `Ok` or `Err`, and redacts secrets in results."""

import math
from codecs import BOM_UTF8, getincrementaldecoder
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from jiter import from_json
from typing_extensions import TypeIs

from spindle import artifacts as lazy_artifacts
from spindle import media as lazy_media
from spindle.calls import LABELS, ArtifactLike, Err, ErrCode, Label, Ok, SingleMedia, build_media_markers
from spindle.capabilities.secrets.secret import Redactor
from spindle.concurrency import spool_threads
from spindle.execution.failures import redact_err
from spindle.json_types import JsonValue, is_large, is_mapping
from spindle.text import to_printable
from spindle.trust.labels import join, media_label

if TYPE_CHECKING:
    from spindle.media import Media

_KNOWN_CODES = frozenset(get_args(ErrCode))


class HandlerResult(NamedTuple):
    """A normalized result, with its full bytes if they differ from the text."""

    result: Ok | Err
    full_bytes: bytes | None = None
    """Spooled if the text is truncated; `None` if the text itself is the full result."""
    artifact_text: "tuple[str, int] | None" = None
    """What is shown of an artifact without a text of its own: at least its beginning, and how long it is."""

    @property
    def has_text(self) -> bool:
        """Whether the handler itself returned a text."""
        return isinstance(self.result, Ok) and bool(self.result.value)

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt may succeed: the error says so, or the handler raised it."""
        result = self.result
        if not isinstance(result, Err):
            return False
        return result.retryable or (result.code == "execution_failed" and result.cause is not None)

    @property
    def is_lossy(self) -> bool:
        """Whether the text lost data: the handler returned bytes that are not UTF-8, or lone surrogates."""
        result, whole = self.result, self.full_bytes
        if whole is None or not isinstance(result, Ok) or "\ufffd" not in result.value:
            return False
        return whole.removeprefix(BOM_UTF8) != result.value.encode()


def without_cost(handled: HandlerResult) -> HandlerResult:
    """Return the result without its cost, for a call that reuses it."""
    result = handled.result
    if not isinstance(result, Ok) or result.cost_usd is None:
        return handled
    return handled._replace(result=replace(result, cost_usd=None))


_CHUNK_ITEMS = 500
_CHUNK_CHARS = 1 << 16


async def normalize_off_loop(value: object, *, tool: str, output: Label) -> HandlerResult:
    """Convert a handler's value to a result, in a thread if that takes long."""
    text = value.value if isinstance(value, Ok) else value.error if isinstance(value, Err) else value
    if not isinstance(text, (int, float, type(None))) and is_large(text):
        return await spool_threads.run(partial(normalize, value, tool=tool, output=output))
    return normalize(value, tool=tool, output=output)


def normalize(value: object, *, tool: str, output: Label) -> HandlerResult:
    """Convert a handler's value to a result; an invalid value becomes an `Err`, never an exception."""
    if type(value) is str:
        return HandlerResult(_build_ok(value, output)) if value.isascii() else _from_text(value, output)
    if value is None:
        return HandlerResult(_build_ok("", output))
    try:
        return _convert_value(value, tool=tool, output=output)
    except BaseException as error:  # noqa: BLE001  inspecting the value runs the handler's own code
        kind = to_printable(type(value).__name__, 60)
        reason = f"a {kind} that is neither text, bytes, media, an artifact nor JSON"
        return HandlerResult(build_invalid_result(tool, reason, error))


def _convert_value(value: object, *, tool: str, output: Label) -> HandlerResult:
    if isinstance(value, (Ok, Err)):
        return _check_returned(value, tool=tool, output=output)
    if isinstance(value, str):
        return _from_text(str.__str__(value), output)
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(cast("bytes", value))
        return HandlerResult(_build_ok(data.decode("utf-8-sig", "replace"), output), full_bytes=data)
    if isinstance(value, lazy_artifacts.Artifact):
        return HandlerResult(replace(_build_ok("", output), artifact=value))
    if isinstance(value, lazy_media.Media):
        return HandlerResult(_from_media(SingleMedia((value,)), output))
    if _is_media_list(value):
        return HandlerResult(_from_media(tuple(value), output))
    return HandlerResult(_from_json(value, output))


def _build_ok(value: str, label: Label, structured: JsonValue = None) -> Ok:
    return Ok(value, structured=structured, trusted=label == "trusted", label=label)


def _from_text(text: str, label: Label) -> HandlerResult:
    """Build a result from text; lone surrogates, which cannot be encoded, are replaced in the text only."""
    shown, whole = _replace_lone_surrogates(text)
    return HandlerResult(_build_ok(shown, label), whole)


def _replace_lone_surrogates(text: str) -> tuple[str, bytes | None]:
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            whole = text.encode("utf-8", "surrogateescape")  # as in file names: restores the original bytes
        except UnicodeEncodeError:
            whole = text.encode("utf-8", "surrogatepass")
        return _join_surrogates(text), whole
    return text, None


def _join_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone ones; in chunks, because a codec holds the interpreter's lock."""
    decoder = getincrementaldecoder("utf-16-le")("replace")
    chunks = (text[at : at + _CHUNK_CHARS] for at in range(0, len(text), _CHUNK_CHARS))
    joined = [decoder.decode(chunk.encode("utf-16-le", "surrogatepass")) for chunk in chunks]
    return "".join([*joined, decoder.decode(b"", final=True)])


def _check_returned(value: Ok | Err, *, tool: str, output: Label) -> HandlerResult:
    wrong = _find_invalid_err_field(value) if isinstance(value, Err) else _find_invalid_ok_field(value)
    if wrong is not None:
        return HandlerResult(build_invalid_result(tool, wrong))
    if isinstance(value, Err):
        text, _ = _replace_lone_surrogates(str.__str__(value.error))
        return HandlerResult(Err(value.code, text, field=value.field, retryable=value.retryable, cause=value.cause))
    text, whole = _replace_lone_surrogates(str.__str__(value.value))
    media = tuple(value.media)
    # A handler cannot raise its own trust; it can return something less trusted than what it usually does.
    label = join(output, value.label or output, *map(media_label, media))
    result = Ok(
        text,
        structured=value.structured,
        media=media,
        artifact=value.artifact,
        cost_usd=value.cost_usd,
        trusted=label == "trusted",
        wire=value.wire,
        label=label,
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
    if not (ok.artifact is None or isinstance(ok.artifact, ArtifactLike)):
        return "Ok.artifact is not an Artifact"
    if ok.wire is not None and not is_mapping(ok.wire):
        return "Ok.wire is not a mapping"
    if ok.label not in (None, *LABELS):
        return "Ok.label is not a trust label"
    cost = ok.cost_usd
    is_amount = isinstance(cost, (int, float)) and not isinstance(cost, bool) and math.isfinite(cost)
    return None if cost is None or is_amount else "Ok.cost_usd is not a finite number"


def _is_media_list(value: object) -> "TypeIs[list[Media] | tuple[Media, ...]]":
    # Checked in place: this runs for every result that is not text.
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(each, lazy_media.Media) for each in cast("Sequence[object]", value))


def _from_media(media: tuple["Media", ...], output: Label) -> Ok:
    return replace(_build_ok(build_media_markers(media), join(output, *map(media_label, media))), media=media)


def _from_json(value: object, label: Label) -> Ok:
    if iscoroutine(value):
        value.close()  # avoids the "never awaited" warning
        raise TypeError("a coroutine that was not awaited")
    if isinstance(value, Iterator):
        raise TypeError("an iterator, which may be endless; return a list")
    if value.__class__ is list and len(cast("list[object]", value)) > _CHUNK_ITEMS:
        return _from_long_list(cast("list[object]", value), label)
    data, structured = _to_plain_json(value)
    return _build_ok(data.decode(), label, structured)


def _from_long_list(items: list[object], label: Label) -> Ok:
    """Convert a list in chunks: the converter holds the interpreter's lock, and the event loop must run in between."""
    chunks = [_to_plain_json(items[at : at + _CHUNK_ITEMS]) for at in range(0, len(items), _CHUNK_ITEMS)]
    whole = b"[" + b",".join([data[1:-1] for data, _ in chunks]) + b"]"
    has_all = all(isinstance(part, list) for _, part in chunks)
    structured = [item for _, part in chunks for item in part] if has_all else None
    return _build_ok(whole.decode(), label, structured)


def _to_plain_json(value: object) -> tuple[bytes, JsonValue]:
    from pydantic_core import to_json  # noqa: PLC0415  takes long to import

    # JSON has no NaN: written as a string it keeps the rest readable.
    data = to_json(value, inf_nan_mode="strings")
    try:
        return data, from_json(data)
    except ValueError:  # nested too deeply for the parser; only the text remains
        return data, None


def build_invalid_result(tool: str, reason: str, cause: BaseException | None = None) -> Err:
    """Build the error for a tool that returned an invalid result."""
    return Err(
        "execution_failed", f"The tool {tool!r} returned an invalid result: {reason}.", cause=cause, by="spindle"
    )


async def redact_off_loop(handled: HandlerResult, redactor: Redactor) -> HandlerResult:
    """Redact a result, in a thread if that takes long."""
    result = handled.result
    shown: tuple[object, ...] = (result.error,) if isinstance(result, Err) else (result.value, result.structured)
    if isinstance(result, Ok):
        shown += tuple(each.get_text_bytes() for each in result.media)
    if is_large((*shown, handled.full_bytes)):
        return await spool_threads.run_abandonable(redact_result, handled, redactor)
    return redact_result(handled, redactor)


def redact_result(handled: HandlerResult, redactor: Redactor) -> HandlerResult:
    """Return the result with all secrets redacted in text, structured value, full bytes, error and cause."""
    if not redactor:
        return handled
    result = handled.result
    result = _redact_ok(result, redactor) if isinstance(result, Ok) else redact_err(result, redactor)
    whole = None if handled.full_bytes is None else redactor.redact_bytes(handled.full_bytes)
    return handled._replace(result=result, full_bytes=whole, artifact_text=None)


def _redact_ok(result: Ok, redactor: Redactor) -> Ok:
    value, structured = redactor.redact(result.value), redactor.redact_value(result.structured)
    media = result.media
    if media:
        masked = redactor.redact_value(tuple(_redact_text_media(each, redactor) for each in media))
        media = masked if any(new is not old for new, old in zip(masked, media, strict=True)) else media
    if isinstance(result.media, SingleMedia) and media is not result.media:
        media = SingleMedia(media)
    wire = redactor.redact_value(result.wire)
    if value is result.value and structured is result.structured and media is result.media and wire is result.wire:
        return result
    return replace(result, value=value, structured=structured, media=media, wire=wire)


def _redact_text_media(each: "Media", redactor: Redactor) -> "Media":
    data = each.get_text_bytes()
    masked = None if data is None else redactor.redact_bytes(data)
    return each if masked is None or masked == data else each.with_bytes(masked)
