"""Media: bytes a provider can render, labelled with trust and hazard; the content is streamed, never kept."""

import base64
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from os import PathLike
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, NotRequired, Self, TypedDict, TypeGuard, Unpack

from typing_extensions import override

from spindle.errors import InvalidMediaError
from spindle.media.labels import (
    DerivedText,
    Entry,
    Kind,
    ModalityHazard,
    TrustTier,
    accept,
    floored,
    new_id,
    safe_filename,
    safe_mime_type,
)
from spindle.media.mime import HEAD_BYTES, MimeCheck, check, sniff
from spindle.media.readers import MediaReader, MediaStream, bytes_of, length_of, reader_of


class _Required:
    @override
    def __repr__(self) -> str:
        return "<required>"


# So that the constructor can name every missing value at once, as it names every bad one.
_REQUIRED: Final[Any] = _Required()


class Description(TypedDict):
    """What the four factories must be told."""

    kind: Kind
    mime_type: str
    filename: str
    id: NotRequired[str | None]
    source: NotRequired[str | None]
    stash: NotRequired[Mapping[str, Entry] | None]


class Labels(Description):
    """What has no default: who vouches for the bytes, and what decoding them may do."""

    trust_tier: TrustTier
    modality_hazard: ModalityHazard


class FileLabels(TypedDict):
    """As `Labels`; without `filename` the path's last part is taken."""

    kind: Kind
    mime_type: str
    trust_tier: TrustTier
    modality_hazard: ModalityHazard
    filename: NotRequired[str]
    id: NotRequired[str | None]
    source: NotRequired[str | None]
    stash: NotRequired[Mapping[str, Entry] | None]


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Media:
    """Bytes that a provider can render, with where they came from and what decoding them may do.

    Nothing is read before it is asked for. Two media are equal only when they are one: anybody can claim an id.

    Raises:
        InvalidMediaError: A value is bad or missing; `fields` names every one.
    """

    kind: Kind
    mime_type: str
    """As declared. `safe_mime_type` is what to send, and `check()` says whether the content agrees."""
    filename: str
    """As given. `safe_filename` is what to show and to store."""
    trust_tier: TrustTier
    modality_hazard: ModalityHazard
    reader: MediaReader
    id: str
    """A UUID in order of time, unless one was given."""
    source: str | None
    """Where it was found, such as an address; nothing is concluded from it."""
    stash: Mapping[str, DerivedText]
    """Text made of this media, such as `text:transcript`; never trusted more than the media itself."""

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
        stash: Mapping[str, Entry] | None = None,
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
        accept({name: value for name, value in given.items() if value is not _REQUIRED})
        given["id"] = new_id() if id is None else id
        given["stash"] = MappingProxyType(floored(given["stash"], trust_tier))
        for name, value in given.items():
            object.__setattr__(self, name, value)

    # --- ways to make one

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, **labels: Unpack[Labels]) -> Self:
        """Make media of bytes in memory."""
        if bytes_of(data) is None:
            raise InvalidMediaError(f"media is made of bytes here, not of {type(data).__name__}", fields=("data",))
        return cls(reader=reader_of(data), **labels)

    @classmethod
    def from_file(cls, path: str | PathLike[str], **labels: Unpack[FileLabels]) -> Self:
        """Make media of a regular file; it is opened when it is read, anew each time."""
        from spindle.media.backends.files import FileReader  # noqa: PLC0415 -- a factory names its backend

        labels.setdefault("filename", PurePath(path).name)
        return cls(reader=FileReader(path), **labels)

    @classmethod
    def from_reader(cls, reader: object, **labels: Unpack[Labels]) -> Self:
        """Make media of a media reader, or of a spool's reader, which is read in pieces."""
        return cls(reader=reader_of(reader), **labels)

    @classmethod
    def user_attachment(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Make media of what a user attached: `third-party-private`."""
        return cls._labelled(data, "third-party-private", about)

    @classmethod
    def tool_generated(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Make media of what a tool of yours made: `first-party`."""
        return cls._labelled(data, "first-party", about)

    @classmethod
    def retrieved_public(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Make media of what was found in the open: `third-party-public`."""
        return cls._labelled(data, "third-party-public", about)

    @classmethod
    def retrieved_private(cls, data: bytes | MediaReader, **about: Unpack[Description]) -> Self:
        """Make media of what was found behind a door: `third-party-private`."""
        return cls._labelled(data, "third-party-private", about)

    @classmethod
    def _labelled(cls, data: bytes | MediaReader, tier: TrustTier, about: Description) -> Self:
        hazard = "extractable-instructions" if about.get("kind") == "document" else "opaque-perceptual"
        return cls(reader=reader_of(data), trust_tier=tier, modality_hazard=hazard, **about)

    def with_stash(self, entries: Mapping[str, Entry]) -> Self:
        """Give the same media, id and all, with more text made of it; an entry of the same name is replaced."""
        described = self._described()
        described["stash"] = {**self.stash, **entries}
        return type(self)(**described)

    @staticmethod
    def is_media(value: object) -> "TypeGuard[Media]":
        """Say whether `value` is media."""
        return isinstance(value, Media)

    # --- the content

    def stream(self) -> MediaStream:
        """Read from the start, in pieces: `async for chunk in media.stream()`; fresh each time.

        Raises:
            MediaUnreadableError: While iterating: the source cannot be read, or gives something else than bytes.
        """
        return MediaStream(self.reader, self.safe_filename)

    async def as_bytes(self) -> bytes:
        """Read everything into memory."""
        async with aclosing(self.stream()) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def as_base64(self) -> str:
        """Read everything as base64 text; only the text is held in memory."""
        pieces: list[str] = []
        left = b""
        async with aclosing(self.stream()) as chunks:
            async for chunk in chunks:
                # Three bytes make four letters: what does not divide waits for the next piece.
                joined = left + chunk
                whole = len(joined) - len(joined) % 3
                pieces.append(base64.b64encode(joined[:whole]).decode("ascii"))
                left = joined[whole:]
        return "".join([*pieces, base64.b64encode(left).decode("ascii")])

    async def byte_length(self) -> int | None:
        """Count the bytes without reading them, or give `None` when nobody knows; that is not zero."""
        return await length_of(self.reader, self.safe_filename)

    async def sniff(self) -> str | None:
        """Name the MIME type that the content shows, whatever was declared, or `None` when it shows none.

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
        """Hold the declared MIME type against the content: `(await media.check()).matches`."""
        return check(self.mime_type, await self.sniff())

    # --- the description

    @property
    def safe_filename(self) -> str:
        """The file name without anything that could be taken for more than a name."""
        return safe_filename(self.filename)

    @property
    def safe_mime_type(self) -> str:
        """The bare `type/subtype`, or `application/octet-stream` where the declared one is none."""
        return safe_mime_type(self.mime_type)

    def to_dict(self) -> dict[str, str | None]:
        """Give the description as plain data; the content is not touched."""
        return {
            "id": self.id,
            "kind": self.kind,
            "mime_type": self.mime_type,
            "filename": self.filename,
            "trust_tier": self.trust_tier,
            "modality_hazard": self.modality_hazard,
            "source": self.source,
        }

    def _described(self) -> dict[str, Any]:
        return {**self.to_dict(), "reader": self.reader, "stash": dict(self.stash)}

    @override
    def __repr__(self) -> str:
        return f"<Media {self.id}: {self.kind} {self.safe_filename!r}, {self.safe_mime_type}, {self.trust_tier}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @override
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _remade, (type(self), self._described())


def _remade(kind: type[Media], described: dict[str, Any]) -> Media:
    return kind(**described)
