"""Serializes the records of a turn to JSON and back; artifacts and media are restored without their content."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, cast

from spindle.artifacts.artifact import Artifact, settled
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.table_artifact import TableArtifact
from spindle.errors import (
    ArtifactGoneError,
    InvalidRecordError,
    MediaUnreadableError,
)
from spindle.media.media import Media
from spindle.turns.records import KINDS

_TIMES = ("created_at", "updated_at", "completed_at")
_HOLDERS = ("results", "content", "attachments")
"""Fields that may hold artifacts or media."""
_CLASS = "artifact_constructor"
_ARTIFACTS = {kind.__name__: kind for kind in (Artifact, JsonArtifact, MarkdownArtifact, TableArtifact)}
_encode = json.JSONEncoder(separators=(",", ":")).encode


async def to_json(record: Any) -> str:
    """Serialize a record to JSON; an artifact as its class and sizes, media as its labels and size.

    Raises:
        InvalidRecordError: A field is not JSON serializable.
    """
    parts: list[str] = []
    for each in fields(record):
        try:
            plain = _encode(await _plain(each.name, getattr(record, each.name)))
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(record).__name__
            raise InvalidRecordError(
                f"{kind}.{each.name} cannot be serialized to JSON: {error}; use JSON values.", fields=(each.name,)
            ) from error
        parts.append(f'"{each.name}":{plain}')
    return f"{{{','.join(parts)}}}"


def from_json(kind: str, text: str) -> Any:
    """Restore a record from JSON; artifacts and media have their description, but no content.

    Raises:
        SpindleError, TypeError, ValueError: The text was not written by `to_json`.
    """
    wanted = KINDS[kind]
    plain: dict[str, Any] = json.loads(text)
    # Unknown fields, written by a newer version, are ignored.
    return wanted(**{each.name: _value(each.name, plain[each.name]) for each in fields(wanted) if each.name in plain})


async def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if name == _CLASS and isinstance(value, type):
        return _known_class(value)
    if name not in _HOLDERS or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return [await _plain(name, each) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, Media):
        return {"media": value.to_dict(), "byte_length": await _length(value)}
    return await _described(value)


async def _length(media: Media) -> int | None:
    try:
        return await media.byte_length()
    except MediaUnreadableError:
        return None


async def _described(artifact: Any) -> dict[str, Any]:
    """Describe an artifact, also of a custom class, which is recognised by its methods."""
    if not callable(getattr(artifact, "line_count", None)):
        raise TypeError(f"expected text, an artifact or Media, got {type(artifact).__name__}")
    known = _known_class(cast("object", artifact).__class__)
    try:
        length, lines = await settled(artifact.byte_length()), await settled(artifact.line_count())
    except ArtifactGoneError:
        length, lines = None, None
    return {"artifact": known, "class": type(artifact).__name__, "byte_length": length, "line_count": lines}


def _known_class(kind: type) -> str:
    """Return the name of an artifact class, or of its nearest built-in base."""
    return next((base.__name__ for base in kind.__mro__ if base.__name__ in _ARTIFACTS), "Artifact")


def _value(name: str, plain: Any) -> Any:
    if name in _TIMES:
        return datetime.fromisoformat(plain)
    if name == _CLASS:
        return None if plain is None else _ARTIFACTS[plain]
    if name not in _HOLDERS:
        return plain
    if isinstance(plain, list):
        return tuple(_value(name, each) for each in cast("list[Any]", plain))
    return _reopened(cast("Mapping[str, Any]", plain)) if isinstance(plain, dict) else plain


def _reopened(described: Mapping[str, Any]) -> Artifact | Media:
    if "media" in described:
        return Media(**described["media"], reader=_Unkept(described["byte_length"]))
    reader = _UnkeptLines(described["byte_length"], described["line_count"])
    return _ARTIFACTS[described["artifact"]](reader)


class _Unkept:
    """A reader of media whose content is not stored."""

    def __init__(self, length: int | None) -> None:
        self._length = length

    def stream(self) -> AsyncIterator[bytes]:
        raise MediaUnreadableError("Records store the description of media, not its content; read it from its source.")

    async def byte_length(self) -> int | None:
        return self._length


class _UnkeptLines:
    """A reader of an artifact whose content is not stored; its sizes are, unless it was already gone."""

    def __init__(self, length: int | None, lines: int | None) -> None:
        self._length, self._lines = length, lines

    async def line(self, i: int) -> str | None:
        raise _gone(f"line {i}")

    async def byte_length(self) -> int:
        return _known(self._length)

    async def line_count(self) -> int:
        return _known(self._lines)

    async def read_all(self) -> bytes:
        raise _gone("the content")


def _known(size: int | None) -> int:
    if size is None:
        raise _gone("the size")
    return size


def _gone(what: str) -> ArtifactGoneError:
    return ArtifactGoneError(f"Records store only the description of an artifact; read {what} from the spool.")
