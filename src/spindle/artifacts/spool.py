"""Where the bytes of large outputs live: the port, and its three backends by name."""

import json
import sys
import time
from array import array
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from typing import Any, Protocol, TypeAlias, cast

from spindle.artifacts.readers import BLOCK_BYTES, IndexedReader, LineIndex, encode_text
from spindle.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolEntry:
    """One artifact that is kept."""

    id: str
    turn_id: str | None
    byte_length: int
    created_at: float
    """Seconds since 1970."""
    version: str
    """Changes when the id is written again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolStats:
    """How much is kept."""

    count: int
    bytes: int
    oldest: float | None
    """When the oldest was written, in seconds since 1970; `None` when nothing is kept."""


def count_up(entries: Iterable[SpoolEntry]) -> SpoolStats:
    """Add up what is kept."""
    kept = list(entries)
    return SpoolStats(
        count=len(kept),
        bytes=sum(entry.byte_length for entry in kept),
        oldest=min((entry.created_at for entry in kept), default=None),
    )


def overdue(
    entries: Iterable[SpoolEntry], *, max_bytes: int | None, max_age_seconds: float | None, now: float
) -> list[SpoolEntry]:
    """Choose what must go: everything too old, then the oldest until the rest fits."""
    by_age = sorted(entries, key=lambda entry: entry.created_at)
    left = sum(entry.byte_length for entry in by_age)
    chosen: list[SpoolEntry] = []
    for entry in by_age:
        is_too_old = max_age_seconds is not None and now - entry.created_at > max_age_seconds
        is_too_much = max_bytes is not None and left > max_bytes
        if is_too_old or is_too_much:
            chosen.append(entry)
            left -= entry.byte_length
    return chosen


Part: TypeAlias = str | bytes | bytearray | memoryview
Content: TypeAlias = Part | Iterable[Part] | AsyncIterable[Part]

PIECE_BYTES = 1 << 20

_WHOLE = (str, bytes, bytearray, memoryview)


async def pieces(content: Content) -> AsyncGenerator[bytes]:
    """Give content as bytes in pieces of at most 1 MiB; small parts are joined, text becomes UTF-8.

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
    if rest := joiner.rest():
        yield rest


async def _close(stream: AsyncIterator[object]) -> None:
    close: Any = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def _parts(content: object) -> Iterable[object]:
    if isinstance(content, _WHOLE):
        return (cast("object", content),)
    # A mapping would quietly lose its values.
    if isinstance(content, Iterable) and not isinstance(content, Mapping):
        return cast("Iterable[object]", content)
    kind = type(cast("object", content)).__name__
    raise UsageError(f"a spool keeps text, bytes, or an iterator of them, not {kind}; turn it into one of these")


class _Joiner:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: object) -> Iterable[bytes]:
        """Take a part; gives what is ready to be written. Most parts are single lines, so this is kept quick."""
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
        for data in _encoded(part):
            self._parts.append(data)
            self._size += len(data)
            if self._size >= PIECE_BYTES:
                yield from self._ready()

    def _ready(self) -> list[bytes]:
        joined = self.rest()
        whole = len(joined) - len(joined) % PIECE_BYTES
        if whole < len(joined):
            self._parts, self._size = [joined[whole:]], len(joined) - whole
        return [joined[start : start + PIECE_BYTES] for start in range(0, whole, PIECE_BYTES)]

    def rest(self) -> bytes:
        joined = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        return joined


def _encoded(part: object) -> Generator[bytes]:
    """Give a part as bytes, a bounded slice at a time, so that a huge one is never copied whole."""
    if isinstance(part, str):
        for start in range(0, len(part), PIECE_BYTES):
            yield encode_text(part[start : start + PIECE_BYTES])
    elif isinstance(part, bytes | bytearray | memoryview):
        view = memoryview(cast("bytes", part)).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield bytes(view[start : start + PIECE_BYTES])
    else:
        raise UsageError(f"a spool keeps text and bytes; the iterator gave {type(part).__name__}")


class SpoolStore(Protocol):
    """What a backend of the spool does."""

    async def write(
        self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None, created_at: float
    ) -> IndexedReader:
        """Keep everything `content` gives, or nothing at all; readers of an older version keep working."""
        ...

    async def read(self, id: str) -> IndexedReader | None:
        """Open what was last written under an id, if it is there whole."""
        ...

    async def delete(self, id: str, *, version: str | None = None) -> bool:
        """Remove an id, or only if it still has that version; tells whether it was there."""
        ...

    async def entries(self) -> list[SpoolEntry]:
        """List what is kept, and clear away leftovers that nothing names."""
        ...


class Spool:
    """Keeps large outputs whole, under any id, and lends readers of them."""

    def __init__(self, store: SpoolStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    def memory(cls, *, clock: Callable[[], float] = time.time) -> "Spool":
        """Keep them in this process, as long as it lives."""
        from spindle.artifacts.backends.memory import MemoryStore  # noqa: PLC0415 - a port's factory method

        return cls(MemoryStore(), clock=clock)

    @classmethod
    def files(cls, path: str | PathLike[str], *, clock: Callable[[], float] = time.time) -> "Spool":
        """Keep them in a private folder, which is made when it is not there."""
        from spindle.artifacts.backends.files import FileStore  # noqa: PLC0415 - a port's factory method

        return cls(FileStore(path), clock=clock)

    @classmethod
    def objects(cls, url: str, *, clock: Callable[[], float] = time.time, **options: Any) -> "Spool":
        """Keep them in an object store, such as `s3://bucket/prefix`; `options` go to its client.

        Raises:
            MissingExtraError: The extra `objects` is not installed.
            UsageError: The url or an option is not understood.
        """
        from spindle.artifacts.backends.objects import ObjectStore  # noqa: PLC0415 - a port's factory method

        return cls(ObjectStore.from_url(url, **options), clock=clock)

    async def write(self, id: str, content: Content, *, turn_id: str | None = None) -> IndexedReader:
        """Keep content under an id and give a reader of it; an older version is replaced once this one is whole.

        Raises:
            UsageError: The id is no text, or the content is neither text nor bytes nor an iterator of them.
            SpoolError: The place is full or away; nothing was kept.
        """
        _check_id(id)
        async with aclosing(pieces(content)) as stream:
            return await self._store.write(id, stream, turn_id=turn_id, created_at=self._clock())

    async def read(self, id: str) -> IndexedReader | None:
        """Open what is kept under an id, or give `None`."""
        _check_id(id)
        return await self._store.read(id)

    async def delete(self, id: str) -> bool:
        """Remove what is kept under an id; tells whether there was any."""
        _check_id(id)
        return await self._store.delete(id)

    async def delete_turn(self, turn_id: str) -> int:
        """Remove everything written for a turn; tells how many artifacts that were."""
        return await self._remove([entry for entry in await self._store.entries() if entry.turn_id == turn_id])

    async def prune(self, *, max_bytes: int | None = None, max_age_seconds: float | None = None) -> int:
        """Remove what is too old, then the oldest until the rest fits; tells how many artifacts that were."""
        entries = await self._store.entries()
        return await self._remove(
            overdue(entries, max_bytes=max_bytes, max_age_seconds=max_age_seconds, now=self._clock())
        )

    async def entries(self) -> list[SpoolEntry]:
        """List what is kept."""
        return await self._store.entries()

    async def stats(self) -> SpoolStats:
        """Count what is kept."""
        return count_up(await self._store.entries())

    async def _remove(self, entries: list[SpoolEntry]) -> int:
        # By version: an id that was written again meanwhile is not what was chosen.
        return sum([await self._store.delete(entry.id, version=entry.version) for entry in entries])


def _check_id(id: object) -> None:
    if not isinstance(id, str):
        raise UsageError(f"a spool's id is text, not {type(id).__name__}", field="id")


_MAGIC = b"spindle spool 1\n"
_DIGEST_BYTES = 32


def safe_name(id: str) -> str:
    """Give a file name for an id: its hash, so that no id can point elsewhere and none clash by case or length."""
    return sha256(encode_text(id)).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The note of one stored version."""

    id: str
    turn_id: str | None
    created_at: float
    version: str
    index: LineIndex

    def to_bytes(self) -> bytes:
        """Write the note down."""
        facts = {
            "id": self.id,
            "turn_id": self.turn_id,
            "created_at": self.created_at,
            "version": self.version,
            "byte_length": self.index.byte_length,
        }
        body = _MAGIC + json.dumps(facts).encode() + b"\n" + _little_endian(self.index.newlines).tobytes()
        return body + sha256(body).digest()

    @staticmethod
    def from_bytes(data: bytes) -> "Manifest | None":
        """Read a note; `None` when it is torn, altered, or of another kind."""
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if not body.startswith(_MAGIC) or sha256(body).digest() != digest:
            return None
        header, _, counts = body[len(_MAGIC) :].partition(b"\n")
        facts = cast("dict[str, Any]", json.loads(header))
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
