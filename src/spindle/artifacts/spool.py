"""The spool, which stores large outputs in full: store protocol, content encoding, retention and manifest format."""

import json
import sys
import time
from array import array
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
)
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from spindle import artifacts
from spindle.artifacts.readers import BLOCK_BYTES, IndexedReader, LineIndex, encode_text
from spindle.errors import UsageError
from spindle.json_types import JsonObject, is_buffer, is_iterable, is_mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolEntry:
    """The metadata of one stored artifact."""

    id: str
    turn_id: str | None
    byte_length: int
    created_at: float
    """Unix time in seconds."""
    version: str
    """Changes when the id is rewritten."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolStats:
    """The number, total size and age of stored artifacts."""

    count: int
    bytes: int
    oldest: float | None
    """Unix time of the oldest artifact in seconds; `None` if the spool is empty."""


def compute_stats(entries: Iterable[SpoolEntry]) -> SpoolStats:
    """Compute the statistics of entries."""
    kept = list(entries)
    return SpoolStats(
        count=len(kept),
        bytes=sum(entry.byte_length for entry in kept),
        oldest=min((entry.created_at for entry in kept), default=None),
    )


def select_overdue(
    entries: Iterable[SpoolEntry],
    *,
    max_bytes: int | None,
    max_age_seconds: float | None,
    now: float,
    is_needed: Callable[[SpoolEntry], bool] = lambda _entry: False,
) -> list[SpoolEntry]:
    """Select the entries to prune: all that are too old, then the oldest until the rest fits; none that is needed."""
    by_age = sorted(entries, key=lambda entry: entry.created_at)
    left = sum(entry.byte_length for entry in by_age)
    chosen: list[SpoolEntry] = []
    for entry in by_age:
        is_too_old = max_age_seconds is not None and now - entry.created_at > max_age_seconds
        is_too_much = max_bytes is not None and left > max_bytes
        if (is_too_old or is_too_much) and not is_needed(entry):
            chosen.append(entry)
            left -= entry.byte_length
    return chosen


Part: TypeAlias = str | bytes | bytearray | memoryview
Content: TypeAlias = Part | Iterable[Part] | AsyncIterable[Part]

PIECE_BYTES = 1 << 20


async def iter_pieces(content: Content) -> AsyncGenerator[bytes]:
    """Yield content as bytes in pieces of at most 1 MiB; small parts are joined, text is encoded as UTF-8.

    Raises:
        UsageError: The content, or a part of it, is neither text nor bytes.
    """
    joiner = _Joiner()
    if isinstance(content, AsyncIterable):
        stream = aiter(cast("AsyncIterable[object]", content))
        try:
            async for part in stream:
                for piece in joiner.add(part):
                    yield piece
        finally:
            await _close(stream)
    else:
        for part in _parts(content):
            for piece in joiner.add(part):
                yield piece
    if rest := joiner.flush():
        yield rest


async def _close(stream: AsyncIterator[object]) -> None:
    close: Callable[[], Awaitable[object]] | None = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def _parts(content: object) -> Iterable[object]:
    kind = type(content).__name__
    if isinstance(content, str) or is_buffer(content):
        return (content,)
    # Iterating over a mapping would silently drop its values.
    if is_iterable(content) and not is_mapping(content):
        return content
    raise UsageError(f"Expected text, bytes, or an iterable of them, got {kind}; convert the content first")


class _Joiner:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: object) -> Iterable[bytes]:
        """Add a part and return the pieces ready to be written; most parts are single lines, so this must be fast."""
        if isinstance(part, str) and len(part) <= PIECE_BYTES:
            data = encode_text(part)
        elif isinstance(part, bytes) and len(part) <= PIECE_BYTES:
            data = part
        else:
            return self._add_large(part)
        self._parts.append(data)
        self._size += len(data)
        return () if self._size < PIECE_BYTES else self._ready()

    def _add_large(self, part: object) -> Generator[bytes]:
        for data in _iter_encoded(part):
            self._parts.append(data)
            self._size += len(data)
            if self._size >= PIECE_BYTES:
                yield from self._ready()

    def _ready(self) -> list[bytes]:
        joined = self.flush()
        whole = len(joined) - len(joined) % PIECE_BYTES
        if whole < len(joined):
            self._parts, self._size = [joined[whole:]], len(joined) - whole
        return [joined[start : start + PIECE_BYTES] for start in range(0, whole, PIECE_BYTES)]

    def flush(self) -> bytes:
        joined = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        return joined


def _iter_encoded(part: object) -> Generator[bytes]:
    """Yield a part as bytes in bounded slices, so that a huge part is never copied whole."""
    if isinstance(part, str):
        for start in range(0, len(part), PIECE_BYTES):
            yield encode_text(part[start : start + PIECE_BYTES])
    elif is_buffer(part):
        view = memoryview(part).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield bytes(view[start : start + PIECE_BYTES])
    else:
        raise UsageError(f"Expected the content's iterator to yield text or bytes, got {type(part).__name__}")


class SpoolStore(Protocol):
    """The protocol of a spool backend."""

    async def write(
        self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None, created_at: float
    ) -> IndexedReader:
        """Store all of `content` or nothing; readers of an older version keep working."""
        ...

    async def read(self, id: str) -> IndexedReader | None:
        """Return a reader for the latest version of an id, or `None` if it is missing or incomplete."""
        ...

    async def delete(self, id: str, *, version: str | None = None) -> bool:
        """Delete an id, or only if it still has `version`; return whether it was deleted."""
        ...

    async def entries(self) -> list[SpoolEntry]:
        """Return the stored entries, and remove unreferenced leftovers."""
        ...


class NoteStamp(NamedTuple):
    """The name of a note in a store, and when it was written; sorts by time."""

    written_at: float
    name: str


@runtime_checkable
class NoteStore(Protocol):
    """What a store also has if it can tell when its notes were written without reading them; its methods block."""

    def list_stamps(self) -> list[NoteStamp]:
        """Return a stamp for each note, in any order."""
        ...

    def load_entry(self, name: str) -> SpoolEntry | None:
        """Read one note; `None` if it is gone or damaged."""
        ...

    def name_note(self, id: str) -> str:
        """Return the name of the note of an id; does not block."""
        ...


class Spool:
    """A store of large outputs by id; reading returns a reader, not the content."""

    def __init__(self, store: SpoolStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    def memory(cls, *, clock: Callable[[], float] = time.time) -> "Spool":
        """Create a spool in memory, which lasts as long as the process."""
        return cls(artifacts.MemoryStore(), clock=clock)

    @classmethod
    def files(cls, path: str | PathLike[str], *, clock: Callable[[], float] = time.time) -> "Spool":
        """Create a spool in a private folder, which is created if missing.

        Raises:
            UsageError: The path is a URL.
        """
        return cls(artifacts.FileStore(path), clock=clock)

    @classmethod
    def objects(cls, url: str, *, clock: Callable[[], float] = time.time, **options: Any) -> "Spool":
        """Create a spool in an object store, such as `s3://bucket/prefix`; `options` are passed to its client.

        Raises:
            MissingExtraError: The extra `objects` is not installed.
            UsageError: The url or an option is invalid.
        """
        return cls(artifacts.ObjectStore.from_url(url, **options), clock=clock)

    @property
    def store(self) -> SpoolStore:
        """The backend."""
        return self._store

    async def write(self, id: str, content: Content, *, turn_id: str | None = None) -> IndexedReader:
        """Store content under an id and return its reader; an older version is replaced once this one is complete.

        Raises:
            UsageError: The id is not a string, or the content is not text, bytes or an iterable of them.
            SpoolError: The storage is full or unavailable; nothing was stored.
        """
        _check_id(id)
        async with aclosing(iter_pieces(content)) as stream:
            return await self._store.write(id, stream, turn_id=turn_id, created_at=self._clock())

    async def read(self, id: str) -> IndexedReader | None:
        """Return a reader for an id, or `None` if it is not stored."""
        _check_id(id)
        return await self._store.read(id)

    async def delete(self, id: str) -> bool:
        """Delete an id; return whether it was stored."""
        _check_id(id)
        return await self._store.delete(id)

    async def delete_turn(self, turn_id: str) -> int:
        """Delete all artifacts of a turn; return how many were deleted."""
        return await self._remove([entry for entry in await self._store.entries() if entry.turn_id == turn_id])

    async def prune(
        self,
        *,
        max_bytes: int | None = None,
        max_age_seconds: float | None = None,
        is_needed: Callable[[SpoolEntry], bool] = lambda _entry: False,
    ) -> int:
        """Delete artifacts that are too old, then the oldest until the rest fits; return how many were deleted.

        An artifact for which `is_needed` returns true is kept, whatever its age and size.
        """
        overdue = select_overdue(
            await self._store.entries(),
            max_bytes=max_bytes,
            max_age_seconds=max_age_seconds,
            now=self._clock(),
            is_needed=is_needed,
        )
        return await self._remove(overdue)

    async def entries(self) -> list[SpoolEntry]:
        """Return the stored entries."""
        return await self._store.entries()

    async def stats(self) -> SpoolStats:
        """Return the number, total size and age of stored artifacts."""
        return compute_stats(await self._store.entries())

    async def _remove(self, entries: list[SpoolEntry]) -> int:
        # By version: an id that was rewritten in the meantime must be kept.
        return sum([await self._store.delete(entry.id, version=entry.version) for entry in entries])


def _check_id(id: object) -> None:
    if not isinstance(id, str):
        raise UsageError(f"Expected a spool id of type str, got {type(id).__name__}", field="id")


_MAGIC = b"spindle spool 1\n"
_DIGEST_BYTES = 32


def to_file_name(id: str) -> str:
    """Return a file name for an id: its hash, so that ids cannot traverse folders or clash by case or length."""
    return sha256(encode_text(id)).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The metadata and line index of one stored version, written as its note."""

    id: str
    turn_id: str | None
    created_at: float
    version: str
    index: LineIndex

    def to_bytes(self) -> bytes:
        """Serialize the manifest, with a checksum at the end."""
        facts = {
            "id": self.id,
            "turn_id": self.turn_id,
            "created_at": self.created_at,
            "version": self.version,
            "byte_length": self.index.byte_length,
        }
        body = _MAGIC + json.dumps(facts).encode() + b"\n" + _little_endian(self.index.newlines).tobytes()
        return body + sha256(body).digest()

    def to_entry(self) -> SpoolEntry:
        """Return the metadata without the index."""
        return SpoolEntry(
            id=self.id,
            turn_id=self.turn_id,
            byte_length=self.index.byte_length,
            created_at=self.created_at,
            version=self.version,
        )

    @staticmethod
    def from_bytes(data: bytes) -> "Manifest | None":
        """Parse a manifest; return `None` if it is truncated, altered, or of another format."""
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if not body.startswith(_MAGIC) or sha256(body).digest() != digest:
            return None
        header, _, counts = body[len(_MAGIC) :].partition(b"\n")
        facts: JsonObject = json.loads(header)
        newlines = array("Q")
        newlines.frombytes(counts)
        blocks = -(-facts["byte_length"] // BLOCK_BYTES)
        if len(newlines) != blocks + 1:
            return None
        return Manifest(
            id=facts["id"],
            turn_id=facts["turn_id"],
            created_at=facts["created_at"],
            version=facts["version"],
            index=LineIndex(facts["byte_length"], _little_endian(newlines)),
        )


def _little_endian(counts: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        return counts
    swapped = counts[:]
    swapped.byteswap()
    return swapped
