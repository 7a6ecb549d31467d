"""What a handler gave, as the one kind of result there is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from jiter import from_json
from pydantic_core import PydanticSerializationError, to_json

from spindle.artifacts.artifact import Artifact
from spindle.calls import Err, Ok
from spindle.media import Media


class Settled(NamedTuple):
    """A result, and its whole bytes where the text is not the whole."""

    result: Ok | Err
    whole: bytes | None = None
    """What is to be kept if the text gets cut; `None` when that is the text itself."""


def settle(value: Any, *, tool: str, trusted: bool) -> Settled:
    """Turn a handler's value into a result; what cannot be one becomes an `Err`, never an exception."""
    if value.__class__ is str:
        return Settled(Ok(value, trusted=trusted))
    if value is None:
        return Settled(Ok(trusted=trusted))
    if isinstance(value, (Ok, Err)):
        return Settled(_returned(value, tool=tool, trusted=trusted))
    if isinstance(value, str):
        return Settled(Ok(str.__str__(value), trusted=trusted))
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(cast("bytes", value))
        return Settled(Ok(data.decode("utf-8-sig", "replace"), trusted=trusted), whole=data)
    if isinstance(value, Artifact):
        return Settled(Ok(artifact=value, trusted=trusted))
    if isinstance(value, Media):
        return Settled(_of_media((value,), trusted=trusted))
    if _is_media_list(value):
        return Settled(_of_media(tuple(value), trusted=trusted))
    return Settled(_of_json(value, tool=tool, trusted=trusted))


def _returned(value: Ok | Err, *, tool: str, trusted: bool) -> Ok | Err:
    if isinstance(value, Err):
        return value if isinstance(cast("object", value.error), str) else invalid_result(tool, "Err.error is not text")
    if not isinstance(cast("object", value.value), str):
        return invalid_result(tool, "Ok.value is not text")
    # A handler cannot raise its own trust.
    return replace(value, trusted=trusted and not _has_foreign_media(value.media), media=tuple(value.media))


def _is_media_list(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(each, Media) for each in cast("Sequence[object]", value))


def _of_media(media: tuple[Media, ...], *, trusted: bool) -> Ok:
    text = "\n".join(f"[media id: {each.id} | {each.safe_filename}]" for each in media)
    return Ok(text, media=media, trusted=trusted and not _has_foreign_media(media))


def _has_foreign_media(media: Sequence[Any]) -> bool:
    return any(getattr(each, "trust_tier", None) != "first-party" for each in media)


def _of_json(value: Any, *, tool: str, trusted: bool) -> Ok | Err:
    try:
        data = to_json(value, inf_nan_mode="constants")
        return Ok(data.decode(), structured=from_json(data, allow_inf_nan=True), trusted=trusted)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        reason = f"a {type(value).__name__} that is neither text, bytes, media, an artifact nor JSON"
        return invalid_result(tool, reason, error)


def invalid_result(tool: str, reason: str, cause: BaseException | None = None) -> Err:
    """Say that a tool answered with something that is no result."""
    return Err("execution_failed", f"The tool {tool!r} returned an invalid result: {reason}.", cause=cause)
