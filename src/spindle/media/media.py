"""Media: bytes a provider can render, labelled with trust and hazard; the content is streamed, not held in memory."""

import base64
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from os import PathLike
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, NotRequired, Self, TypedDict, TypeGuard, Unpack

from typing_extensions import override

from spindle import media
from spindle.errors import InvalidMediaError
from spindle.media.labels import (
    DerivedText,
    Kind,
    ModalityHazard,
    StashEntry,
    TrustTier,
    cap_trust,
    safe_filename,
    safe_mime_type,
    validate,
)
from spindle.media.mime import HEAD_BYTES, MimeCheck, check, is_text_type, sniff
from spindle.media.readers import MediaBytesReader, MediaReader, MediaStream, get_length, to_bytes, to_reader
from spindle.text import new_id


class _Required:
    @override
    def __repr__(self) -> str:
        return "<required>"


# A default, so that the constructor reports all missing values at once, together with invalid ones.
_REQUIRED: Final[Any] = _Required()


class Description(TypedDict):
    """The arguments of the four factories that choose the labels."""

    kind: Kind
    mime_type: str
    filename: str
    id: NotRequired[str | None]
    source: NotRequired[str | None]
    stash: NotRequired[Mapping[str, StashEntry] | None]


class Labels(Description):
    """A description with both labels: trust tier and modality hazard."""

    trust_tier: TrustTier
    modality_hazard: ModalityHazard


class FileLabels(TypedDict):
    """`Labels` with an optional `filename`, which defaults to the last part of the path."""

    kind: Kind
    mime_type: str
    trust_tier: TrustTier
    modality_hazard: ModalityHazard
    filename: NotRequired[str]
    id: NotRequired[str | None]
    source: NotRequired[str | None]
    stash: NotRequired[Mapping[str, StashEntry] | None]


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Media:
    """Bytes that a provider can render, with their origin and the risk of decoding them.

    The content is read lazily. Equality is identity, since ids are chosen by the caller and can be forged.

    Raises:
        InvalidMediaError: A value is invalid or missing; `fields` names all of them.
    """

    kind: Kind
    mime_type: str
    """As declared. Send `safe_mime_type`; `check()` compares it with the content."""
    filename: str
    """As given. Show and store `safe_filename` instead."""
    trust_tier: TrustTier
    modality_hazard: ModalityHazard
    reader: MediaReader
    id: str
    """A time-ordered UUID unless given."""
    source: str | None
    """Where it was found, such as a URL; informational only."""
    stash: Mapping[str, DerivedText]
    """Text derived from this media, such as `text:transcript`; never trusted more than the media itself."""

    def __init__(  # noqa: PLR0917 -- the public surface allows them by position
        self,
        kind: Kind = _REQUIRED,
        mime_type: str = _REQUIRED,
        filename: str = _REQUIRED,
        trust_tier: TrustTier = _REQUIRED,
        modality_hazard: ModalityHazard = _REQUIRED,
        reader: MediaReader = _REQUIRED,
        id: str | None = None,
        source: str | None = None,
        *,
        stash: Mapping[str, StashEntry] | None = None,
    ) -> None:
        given: dict[str, Any] = {
            "kind": kind,
            "mime_type": mime_type,
            "filename": filename,
            "trust_tier": trust_tier,
            "modality_hazard": modality_hazard,
            "reader": reader,
            "id": id,
            "source": source,
            "stash": {} if stash is None else stash,
        }
        validate({name: value for name, value in given.items() if value is not _REQUIRED})
        given["id"] = new_id() if id is None else id
        given["stash"] = MappingProxyType(cap_trust(given["stash"], trust_tier))
        for name, value in given.items():
            object.__setattr__(self, name, value)

    # --- constructors

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, **labels: Unpack[Labels]) -> Self:
        """Create media from bytes in memory."""
        if to_bytes(data) is None:
            raise InvalidMediaError(
                f"expected bytes, got {type(data).__name__}; use from_file or from_reader for other sources",
                fields=("data",),
            )
        return cls(reader=to_reader(data), **labels)

    @classmethod
    def from_file(cls, path: str | PathLike[str], **labels: Unpack[FileLabels]) -> Self:
        """Create media from a regular file, which is opened on each read."""
        labels.setdefault("filename", PurePath(path).name)
        return cls(reader=media.FileReader(path), **labels)

    @classmethod
    def from_reader(cls, reader: object, **labels: Unpack[Labels]) -> Self:
        """Create media from a media reader or a spool's reader."""
        return cls(reader=to_reader(reader), **labels)

    @classmethod
    def user_attachment(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Create media from a user's attachment: `third-party-private`."""
        return cls._from_source(data, "third-party-private", about)

    @classmethod
    def tool_generated(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Create media from the output of your own tool: `first-party`."""
        return cls._from_source(data, "first-party", about)

    @classmethod
    def retrieved_public(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Create media from a public source: `third-party-public`."""
        return cls._from_source(data, "third-party-public", about)

    @classmethod
    def retrieved_private(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Create media from an access-controlled source: `third-party-private`."""
        return cls._from_source(data, "third-party-private", about)

    @classmethod
    def _from_source(cls, data: bytes | MediaReader, tier: TrustTier, about: Description) -> Self:
        hazard = "extractable-instructions" if about.get("kind") == "document" else "opaque-perceptual"
        return cls(reader=to_reader(data), trust_tier=tier, modality_hazard=hazard, **about)

    def with_stash(self, entries: Mapping[str, StashEntry]) -> Self:
        """Return a copy with the same id and more derived text; entries with the same name are replaced."""
        described = self._to_arguments()
        described["stash"] = {**self.stash, **entries}
        return type(self)(**described)

    def get_text_bytes(self) -> bytes | None:
        """Return the bytes if they are in memory and of a type that is text, else `None`."""
        reader = self.reader
        if isinstance(reader, MediaBytesReader) and is_text_type(self.mime_type.lower()):
            return reader.data
        return None

    def with_bytes(self, data: bytes) -> Self:
        """Return a copy with other bytes."""
        described: dict[str, Any] = {**self._to_arguments(), "reader": MediaBytesReader(data)}
        return type(self)(**described)

    @staticmethod
    def is_media(value: object) -> "TypeGuard[Media]":
        """Return whether `value` is media."""
        return isinstance(value, Media)

    # --- the content

    def stream(self) -> MediaStream:
        """Return a new stream over the bytes from the start: `async for chunk in media.stream()`.

        Raises:
            MediaUnreadableError: While iterating: the source cannot be read, or does not return bytes.
        """
        return MediaStream(self.reader, self.safe_filename)

    async def as_bytes(self) -> bytes:
        """Read the full content into memory."""
        async with aclosing(self.stream()) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def as_base64(self) -> str:
        """Read the full content as base64 text; only the text is held in memory."""
        pieces: list[str] = []
        left = b""
        async with aclosing(self.stream()) as chunks:
            async for chunk in chunks:
                # Base64 encodes groups of three bytes: carry the remainder over to the next chunk.
                joined = left + chunk
                whole = len(joined) - len(joined) % 3
                pieces.append(base64.b64encode(joined[:whole]).decode("ascii"))
                left = joined[whole:]
        return "".join([*pieces, base64.b64encode(left).decode("ascii")])

    async def byte_length(self) -> int | None:
        """Return the number of bytes without reading them, or `None` if unknown."""
        return await get_length(self.reader, self.safe_filename)

    async def sniff(self) -> str | None:
        """Detect the MIME type from the content, ignoring the declared one; `None` if it cannot be detected.

        Raises:
            MissingExtraError: The `media` extra is not installed.
        """
        head = bytearray()
        async with aclosing(self.stream()) as chunks:
            async for chunk in chunks:
                head += chunk
                if len(head) > HEAD_BYTES:
                    return sniff(bytes(head[:HEAD_BYTES]), is_whole=False)
        return sniff(bytes(head), is_whole=True)

    async def check(self) -> MimeCheck:
        """Compare the declared MIME type with the content: `(await media.check()).matches`."""
        return check(self.mime_type, await self.sniff())

    # --- the description

    @property
    def safe_filename(self) -> str:
        """The file name without characters that a shell, file system, page or prompt could interpret."""
        return safe_filename(self.filename)

    @property
    def safe_mime_type(self) -> str:
        """The bare `type/subtype`, or `application/octet-stream` if the declared type is invalid."""
        return safe_mime_type(self.mime_type)

    def to_dict(self) -> dict[str, str | None]:
        """Return the description as plain data, without reading the content."""
        return {
            "id": self.id,
            "kind": self.kind,
            "mime_type": self.mime_type,
            "filename": self.filename,
            "trust_tier": self.trust_tier,
            "modality_hazard": self.modality_hazard,
            "source": self.source,
        }

    def _to_arguments(self) -> dict[str, Any]:
        return {**self.to_dict(), "reader": self.reader, "stash": dict(self.stash)}

    @override
    def __repr__(self) -> str:
        return f"<Media {self.id}: {self.kind} {self.safe_filename!r}, {self.safe_mime_type}, {self.trust_tier}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @override
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _rebuild, (type(self), self._to_arguments())


def _rebuild(kind: type[Media], described: dict[str, Any]) -> Media:
    return kind(**described)
