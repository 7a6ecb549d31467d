"""Records, messages and media in the state of a turn: plain JSON, with large content as ids of spool entries."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import fields, replace
from hashlib import sha256
from typing import Any, Final, cast

from spindle.artifacts.artifact import Artifact, await_if_needed
from spindle.artifacts.spool import Spool
from spindle.calls import ToolCallRecord
from spindle.errors import ArtifactGoneError, InvalidRecordError, MediaUnreadableError, SpoolError, UnsavableTurnError
from spindle.events import Events
from spindle.json_types import JsonObject, JsonValue, is_array, is_list_or_tuple, is_object
from spindle.media.media import Media
from spindle.text import escape_surrogates
from spindle.tools.registry import ToolRegistry
from spindle.turns.record_json import from_json, to_json
from spindle.turns.record_list import AnyRecord
from spindle.turns.record_types import Message, MessageLike

MAX_MEDIA_BYTES: Final = 64 << 20
"""Larger media is described, but its content is not kept."""
_CONTENT_FIELDS: Final = ("results", "content", "attachments")
_PLACE: Final = "spool"


class ContentWriter:
    """Writes the artifacts and media of one turn to its spool, each once, and turns records into JSON."""

    def __init__(self, spool: Spool | None, *, session_id: str, turn_id: str, events: Events) -> None:
        self._spool = spool
        self._prefix = f"{session_id}/{turn_id}"
        self._turn_id = turn_id
        self._events = events
        self._places: dict[int, tuple[object, str | None]] = {}
        """By `id()` of the content, which is kept alive by the entry."""

    async def write_record(self, record: AnyRecord) -> JsonObject:
        """Return a record as JSON.

        Raises:
            UnsavableTurnError: A field is not JSON.
        """
        try:
            plain: JsonObject = json.loads(await to_json(record))
        except InvalidRecordError as error:
            raise UnsavableTurnError(f"The turn cannot be saved: {error}", field=type(record).__name__) from error
        for name in _CONTENT_FIELDS:
            value = getattr(record, name, None)
            if value is not None and not isinstance(value, str):
                plain[name] = await self._add_places(value, plain[name], record.id)
        return plain

    async def write_message(self, message: MessageLike) -> JsonObject:
        """Return a message as JSON, in the form in which it was given.

        Raises:
            UnsavableTurnError: A mapping has a value that is not JSON.
        """
        if isinstance(message, Message):
            return {"message": await self.write_record(message)}
        if isinstance(message, str):
            return {"text": message}
        plain = dict(message)
        attached: object = plain.pop("attachments", None)
        parts: JsonObject = {"mapping": to_plain_json(plain, "messages")}
        if is_list_or_tuple(attached):
            parts["attachments"] = [await self.write_media(cast("Media", each)) for each in attached]
        return parts

    async def write_media(self, media: Media) -> JsonObject:
        """Return media as JSON."""
        try:
            length = await media.byte_length()
        except MediaUnreadableError:
            length = None
        return {"media": media.to_dict(), "byte_length": length, _PLACE: await self._keep(media, "media")}

    async def _add_places(self, value: object, plain: JsonValue, owner: str) -> JsonValue:
        if isinstance(value, tuple) and is_array(plain):
            parts = cast("tuple[object, ...]", value)
            return [await self._add_places(*pair, owner) for pair in zip(parts, plain, strict=True)]
        if isinstance(value, str) or not is_object(plain):
            return plain
        return {**plain, _PLACE: await self._keep(value, owner)}

    async def _keep(self, content: Any, owner: str) -> str | None:
        """Return the id under which the spool has the content; `None` if it cannot be kept."""
        known = self._places.get(id(content))
        if known is None:
            try:
                place = None if self._spool is None else await self._write(content, owner, self._spool)
            except (SpoolError, ArtifactGoneError, MediaUnreadableError) as error:
                self._events.warn("content of a turn's state could not be spooled", source="spool", error=error)
                place = None
            known = self._places[id(content)] = (content, place)
        return known[1]

    async def _write(self, content: Any, owner: str, spool: Spool) -> str:
        # The executor spools the results of calls here; it need not be written again.
        place = f"{self._prefix}/{escape_surrogates(owner)}"
        if not isinstance(content, Media) and await _is_stored(content, place, spool):
            return place
        place = f"{place}/state/{content.id if isinstance(content, Media) else len(self._places)}"
        await spool.write(place, _stream(content), turn_id=self._turn_id)
        return place


async def _is_stored(artifact: Any, place: str, spool: Spool) -> bool:
    stored = await spool.read(place)
    if stored is None:
        return False
    if getattr(artifact, "reader", None) is stored:
        return True
    same_size = await await_if_needed(stored.byte_length()) == await await_if_needed(artifact.byte_length())
    return same_size and await _digest(Artifact(stored)) == await _digest(artifact)


async def _digest(artifact: Any) -> bytes:
    found = sha256()
    async with aclosing(_stream(artifact)) as pieces:
        async for piece in pieces:
            found.update(piece)
    return found.digest()


async def _stream(content: Any) -> AsyncGenerator[bytes]:
    reader = getattr(content, "reader", None)
    if isinstance(content, Media):
        left = MAX_MEDIA_BYTES
        async with aclosing(content.stream()) as chunks:
            async for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    raise SpoolError(f"Media {content.safe_filename} exceeds {MAX_MEDIA_BYTES} bytes.")
                yield chunk
    elif callable(getattr(reader, "chunks", None)):
        async for piece in cast("Any", reader).chunks():
            yield piece
    elif callable(getattr(reader, "read_all", None)):
        yield await await_if_needed(cast("Any", reader).read_all())
    else:
        yield (await content.as_text()).encode("utf-8", "surrogatepass")


class ContentReader:
    """Restores records from JSON, with the content that the spool still has."""

    def __init__(self, spool: Spool | None, registry: ToolRegistry, events: Events) -> None:
        self._spool = spool
        self._registry = registry
        self._events = events

    async def read_record(self, kind: str, plain: JsonObject) -> AnyRecord:
        """Return a record; content that is gone is described, and raises when it is read.

        Raises:
            SpindleError, LookupError, TypeError, ValueError: It is not a record.
        """
        record = from_json(kind, json.dumps(plain))
        found: dict[str, Any] = {}
        for name in _CONTENT_FIELDS:
            if any(each.name == name for each in fields(record)):
                value, given = getattr(record, name), plain.get(name)
                restored = await self._restore(value, given, record)
                if restored is not value:
                    found[name] = restored
        return replace(record, **found) if found else record

    async def read_call(self, plain: JsonObject) -> ToolCallRecord:
        """Return the record of a call; see `read_record`."""
        return cast("ToolCallRecord", await self.read_record("tool_call", plain))

    async def read_message(self, plain: JsonObject) -> MessageLike:
        """Return a message in the form in which it was given; see `read_record`."""
        if "message" in plain:
            return cast("Message", await self.read_record("message", plain["message"]))
        if "text" in plain:
            return plain["text"]
        mapping: dict[str, object] = dict(plain["mapping"])
        if "attachments" in plain:
            mapping["attachments"] = [await self.read_media(each) for each in plain["attachments"]]
        return mapping

    async def read_media(self, plain: JsonObject) -> Media:
        """Return media; content that is gone raises when it is read."""
        reader = await self._open(plain)
        if reader is not None:
            return Media.from_reader(reader, **plain["media"])
        described = from_json("message", json.dumps({"role": "user", "content": "", "attachments": [plain]}))
        return cast("Message", described).attachments[0]

    async def _restore(self, value: Any, plain: JsonValue, record: AnyRecord) -> Any:
        if is_array(plain) and isinstance(value, tuple):
            parts = cast("tuple[Any, ...]", value)
            restored = [await self._restore(*pair, record) for pair in zip(parts, plain, strict=True)]
            return tuple(restored) if any(a is not b for a, b in zip(restored, parts, strict=True)) else parts
        if not is_object(plain):
            return value
        if "media" in plain:
            return await self.read_media(plain)
        reader = await self._open(plain)
        return value if reader is None else self._find_class(value, plain, record)(reader)

    def _find_class(self, value: Any, plain: Mapping[str, JsonValue], record: AnyRecord) -> Any:
        """Return the class of an artifact: the tool's own if it is still the same one, else the nearest known."""
        tool = self._registry.get(record.tool) if isinstance(record, ToolCallRecord) else None
        own: Any = None if tool is None else tool.artifact_constructor
        return own if isinstance(own, type) and own.__name__ == plain.get("class") else type(value)

    async def _open(self, plain: Mapping[str, JsonValue]) -> Any:
        place = plain.get(_PLACE)
        reader = None if self._spool is None or not isinstance(place, str) else await self._spool.read(place)
        if reader is not None and plain.get("byte_length") in {None, await await_if_needed(reader.byte_length())}:
            return reader
        self._events.warn("content of a resumed turn is not in the spool any more", source="spool")
        return None


def to_plain_json(value: object, field: str) -> JsonValue:
    """Return a copy of a value that consists of JSON only.

    Raises:
        UnsavableTurnError: It has another value, or would not be the same after it was read again.
    """
    try:
        plain: JsonValue = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UnsavableTurnError(
            f"The turn cannot be saved: its {field} has a value that is not JSON ({error}).", field=field
        ) from error
    if not _is_same(plain, value):
        raise UnsavableTurnError(
            f"The turn cannot be saved: its {field} has a tuple, or a key that is not text, which JSON cannot keep.",
            field=field,
        )
    return plain


def _is_same(plain: JsonValue, value: object) -> bool:
    if isinstance(value, Mapping):
        given = cast("Mapping[object, object]", value)
        return (
            is_object(plain) and plain.keys() == given.keys() and all(_is_same(plain[key], given[key]) for key in plain)
        )
    if isinstance(value, (list, tuple)):
        items = cast("list[object]", value)
        return isinstance(value, list) and is_array(plain) and all(map(_is_same, plain, items))
    return plain == value
