"""Serializes the records of a turn to JSON and back; artifacts and media are restored without their content."""

import json
from collections.abc import AsyncIterator
from dataclasses import fields
from datetime import datetime
from typing import Any, cast

from spindle.artifacts.artifact import Artifact, await_if_needed
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.table_artifact import TableArtifact
from spindle.errors import (
    ArtifactGoneError,
    InvalidRecordError,
    MediaUnreadableError,
)
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.media.media import Media
from spindle.turns.record_list import KINDS, AnyRecord

_TIMES = ("created_at", "updated_at", "completed_at")
_CONTENT_FIELDS = ("results", "content", "attachments", "media")
"""Fields that may hold artifacts or media."""
_CLASS = "artifact_constructor"
_ARTIFACTS = {kind.__name__: kind for kind in (Artifact, JsonArtifact, MarkdownArtifact, TableArtifact)}
_encode = json.JSONEncoder(separators=(",", ":")).encode


async def to_json(record: AnyRecord) -> str:
    """Serialize a record to JSON; an artifact as its class and sizes, media as its labels and size.

    Raises:
        InvalidRecordError: A field is not JSON serializable.
    """
    parts: list[str] = []
    for each in fields(record):
        try:
            plain = _encode(await _to_plain(each.name, getattr(record, each.name)))
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(record).__name__
            raise InvalidRecordError(
                f"{kind}.{each.name} cannot be serialized to JSON: {error}; use JSON values.", fields=(each.name,)
            ) from error
        parts.append(f'"{each.name}":{plain}')
    return f"{{{','.join(parts)}}}"


def from_json(kind: str, text: str) -> AnyRecord:
    """Restore a record from JSON; artifacts and media have their description, but no content.

    Raises:
        SpindleError, TypeError, ValueError: The text was not written by `to_json`.
    """
    wanted = KINDS[kind]
    plain: JsonObject = json.loads(text)
    # Unknown fields, written by a newer version, are ignored.
    return wanted(
        **{each.name: _from_plain(each.name, plain[each.name]) for each in fields(wanted) if each.name in plain}
    )


async def _to_plain(name: str, value: object) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat()
    if name == _CLASS and isinstance(value, type):
        return _get_class_name(value)
    if name not in _CONTENT_FIELDS or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return [await _to_plain(name, each) for each in cast("tuple[object, ...]", value)]
    if isinstance(value, Media):
        return {"media": value.to_dict(), "byte_length": await _get_length(value)}
    return await _describe_artifact(value)


async def _get_length(media: Media) -> int | None:
    try:
        return await media.byte_length()
    except MediaUnreadableError:
        return None


async def _describe_artifact(artifact: Any) -> JsonObject:
    """Describe an artifact, also of a custom class, which is recognised by its methods."""
    if not callable(getattr(artifact, "line_count", None)):
        raise TypeError(f"expected text, an artifact or Media, got {type(artifact).__name__}")
    known = _get_class_name(artifact.__class__)
    try:
        length, lines = await await_if_needed(artifact.byte_length()), await await_if_needed(artifact.line_count())
    except ArtifactGoneError:
        length, lines = None, None
    return {"artifact": known, "class": type(artifact).__name__, "byte_length": length, "line_count": lines}


def _get_class_name(kind: type) -> str:
    """Return the name of an artifact class, or of its nearest built-in base."""
    return next((base.__name__ for base in kind.__mro__ if base.__name__ in _ARTIFACTS), "Artifact")


def _from_plain(name: str, plain: JsonValue) -> Any:
    if name in _TIMES:
        return datetime.fromisoformat(plain)
    if name == _CLASS:
        return None if plain is None else _ARTIFACTS[plain]
    if name not in _CONTENT_FIELDS:
        return plain
    if is_array(plain):
        return tuple(_from_plain(name, each) for each in plain)
    return _restore(plain) if is_object(plain) else plain


def _restore(described: JsonObject) -> Artifact | Media:
    if "media" in described:
        return Media(**described["media"], reader=_MissingMedia(described["byte_length"]))
    reader = _MissingArtifact(described["byte_length"], described["line_count"])
    return _ARTIFACTS[described["artifact"]](reader)


class _MissingMedia:
    """A reader of media whose content is not stored."""

    def __init__(self, length: int | None) -> None:
        self._length = length

    def stream(self) -> AsyncIterator[bytes]:
        raise MediaUnreadableError("Records store the description of media, not its content; read it from its source.")

    async def byte_length(self) -> int | None:
        return self._length


class _MissingArtifact:
    """A reader of an artifact whose content is not stored; its sizes are, unless it was already gone."""

    def __init__(self, length: int | None, lines: int | None) -> None:
        self._length, self._lines = length, lines

    async def line(self, i: int) -> str | None:
        raise _build_gone_error(f"line {i}")

    async def byte_length(self) -> int:
        return _check_size(self._length)

    async def line_count(self) -> int:
        return _check_size(self._lines)

    async def read_all(self) -> bytes:
        raise _build_gone_error("the content")


def _check_size(size: int | None) -> int:
    if size is None:
        raise _build_gone_error("the size")
    return size


def _build_gone_error(what: str) -> ArtifactGoneError:
    return ArtifactGoneError(f"Records store only the description of an artifact; read {what} from the spool.")
