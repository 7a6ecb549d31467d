"""What a handler gave, as the one kind of result there is."""

import math
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import iscoroutine
from typing import Any, NamedTuple, cast, get_args

from jiter import from_json
from pydantic_core import to_json

from spindle.artifacts.artifact import Artifact
from spindle.calls import Err, ErrCode, Ok
from spindle.media import Media
from spindle.tools.problems import printable

_CODES = frozenset(get_args(ErrCode))
_ARTIFACT_METHODS = ("head", "tail", "grep", "cat", "byte_length", "line_count", "as_text")


class Settled(NamedTuple):
    """A result, and its whole bytes where the text is not the whole."""

    result: Ok | Err
    whole: bytes | None = None
    """What is to be kept if the text gets cut; `None` when that is the text itself."""

    @property
    def is_lossy(self) -> bool:
        """Whether the text could not say all: the handler gave bytes that are no text, or half of a character."""
        result, whole = self.result, self.whole
        if whole is None or not isinstance(result, Ok) or "\ufffd" not in result.value:
            return False
        return whole.removeprefix(BOM_UTF8) != result.value.encode()


def given_again(settled: Settled) -> Settled:
    """Give a result to another call, which costs nothing more."""
    result = settled.result
    if not isinstance(result, Ok) or result.cost_usd is None:
        return settled
    return Settled(replace(result, cost_usd=None), settled.whole)


def settle(value: Any, *, tool: str, trusted: bool) -> Settled:
    """Turn a handler's value into a result; what cannot be one becomes an `Err`, never an exception."""
    if type(value) is str:
        return Settled(Ok(value, trusted=trusted)) if value.isascii() else _of_text(value, trusted=trusted)
    if value is None:
        return Settled(Ok(trusted=trusted))
    try:
        return _settled(value, tool=tool, trusted=trusted)
    except BaseException as error:  # noqa: BLE001  the value is the handler's, and may do anything when looked at
        kind = printable(type(value).__name__, 60)
        reason = f"a {kind} that is neither text, bytes, media, an artifact nor JSON"
        return Settled(invalid_result(tool, reason, error))


def _settled(value: Any, *, tool: str, trusted: bool) -> Settled:
    if isinstance(value, (Ok, Err)):
        return _returned(value, tool=tool, trusted=trusted)
    if isinstance(value, str):
        return _of_text(str.__str__(value), trusted=trusted)
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(cast("bytes", value))
        return Settled(Ok(data.decode("utf-8-sig", "replace"), trusted=trusted), whole=data)
    if isinstance(value, Artifact):
        return Settled(Ok(artifact=value, trusted=trusted))
    if isinstance(value, Media):
        return Settled(_of_media((value,), trusted=trusted))
    if _is_media_list(value):
        return Settled(_of_media(tuple(value), trusted=trusted))
    return Settled(_of_json(value, trusted=trusted))


def _of_text(text: str, *, trusted: bool) -> Settled:
    """Take a text as it is; halves of surrogate pairs, which no wire can carry, are replaced in what is shown."""
    shown, whole = _sendable(text)
    return Settled(Ok(shown, trusted=trusted), whole=whole)


def _sendable(text: str) -> tuple[str, bytes | None]:
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            whole = text.encode("utf-8", "surrogateescape")  # as from a file name: these were the bytes
        except UnicodeEncodeError:
            whole = text.encode("utf-8", "surrogatepass")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), whole
    return text, None


def _returned(value: Ok | Err, *, tool: str, trusted: bool) -> Settled:
    wrong = _wrong_field_of_err(value) if isinstance(value, Err) else _wrong_field_of_ok(value)
    if wrong is not None:
        return Settled(invalid_result(tool, wrong))
    if isinstance(value, Err):
        text, _ = _sendable(str.__str__(value.error))
        return Settled(Err(value.code, text, field=value.field, retryable=value.retryable, cause=value.cause))
    text, whole = _sendable(str.__str__(value.value))
    media = tuple(value.media)
    result = Ok(
        text,
        structured=value.structured,
        media=media,
        artifact=value.artifact,
        cost_usd=value.cost_usd,
        # A handler cannot raise its own trust.
        trusted=trusted and not _has_foreign_media(media),
    )
    return Settled(result, whole=whole)


def _wrong_field_of_err(err: Any) -> str | None:
    if not isinstance(err.error, str):
        return "Err.error is not text"
    if err.code not in _CODES:
        return "Err.code is none of the codes there are"
    if not (err.field is None or isinstance(err.field, str)):
        return "Err.field is not text"
    return None if isinstance(err.retryable, bool) else "Err.retryable is neither True nor False"


def _wrong_field_of_ok(ok: Any) -> str | None:
    if not isinstance(ok.value, str):
        return "Ok.value is not text"
    if ok.media not in ((), []) and not _is_media_list(ok.media):
        return "Ok.media is not a tuple of Media"
    if not (ok.artifact is None or isinstance(ok.artifact, Artifact) or _reads_like_one(ok.artifact)):
        return "Ok.artifact is no Artifact"
    if ok.cost_usd is not None and not _is_amount(ok.cost_usd):
        return "Ok.cost_usd is no amount"
    return None


def _reads_like_one(artifact: object) -> bool:
    """Tell an artifact of the user's own class by its shape, as tools do."""
    return all(callable(getattr(artifact, name, None)) for name in _ARTIFACT_METHODS)


def _is_amount(cost: object) -> bool:
    return isinstance(cost, (int, float)) and not isinstance(cost, bool) and math.isfinite(cost)


def _is_media_list(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(each, Media) for each in cast("Sequence[object]", value))


def _of_media(media: tuple[Media, ...], *, trusted: bool) -> Ok:
    text = "\n".join(f"[media id: {each.id} | {each.safe_filename}]" for each in media)
    return Ok(text, media=media, trusted=trusted and not _has_foreign_media(media))


def _has_foreign_media(media: Sequence[Any]) -> bool:
    return any(getattr(each, "trust_tier", None) != "first-party" for each in media)


def _of_json(value: Any, *, trusted: bool) -> Ok:
    if iscoroutine(value):
        value.close()  # or the interpreter would complain that nobody awaited it
        raise TypeError("a coroutine that nobody awaited")
    if isinstance(value, Iterator):
        raise TypeError("an iterator, which may never end; give a list")
    # JSON has no NaN: as a text it is still told, and everyone can read the rest.
    data = to_json(value, inf_nan_mode="strings")
    try:
        structured: Any = from_json(data)
    except ValueError:  # nested deeper than anyone reads; the text is all there is
        structured = None
    return Ok(data.decode(), structured=structured, trusted=trusted)


def invalid_result(tool: str, reason: str, cause: BaseException | None = None) -> Err:
    """Say that a tool answered with something that is no result."""
    return Err("execution_failed", f"The tool {tool!r} returned an invalid result: {reason}.", cause=cause)
