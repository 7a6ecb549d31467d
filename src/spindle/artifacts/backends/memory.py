"""A spool in memory, which needs no setup and is lost with the process."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from anyio.lowlevel import checkpoint

from spindle.artifacts.backends.temporary_file import temporary_copy
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.readers import build_line_index, encode_text
from spindle.artifacts.spool import NoteStamp, SpoolEntry
from spindle.concurrency import spool_threads

T = TypeVar("T")
Args = TypeVarTuple("Args")

_INLINE_BYTES = 1 << 18


class BytesReader(BlockReader):
    """A reader of bytes in memory, or of text as UTF-8."""

    def __init__(self, data: bytes | str) -> None:
        content = encode_text(data) if isinstance(data, str) else bytes(data)
        super().__init__(_Bytes(content), build_line_index(content))
        # A thread costs more than reading small content; reading large content must not block the event loop.
        self._is_quick = len(content) <= _INLINE_BYTES

    async def _run(self, func: Callable[[*Args], T], *args: *Args) -> T:
        if not self._is_quick:
            return await spool_threads.run(func, *args)
        await checkpoint()
        return func(*args)


@dataclass(frozen=True, slots=True)
class _Bytes:
    content: bytes
    search_bytes: int = 1 << 20

    def read(self, start: int, end: int) -> bytes:
        return self.content[start:end]

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        return temporary_copy(self.read, len(self.content))


class MemoryStore:
    """A spool store in a dict."""

    def __init__(self) -> None:
        self._stored: dict[str, tuple[BytesReader, SpoolEntry]] = {}
        self._versions = count()

    async def write(
        self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None, created_at: float
    ) -> BytesReader:
        """Store all of `content`."""
        data = b"".join([piece async for piece in content])
        reader = await spool_threads.run(BytesReader, data) if len(data) > _INLINE_BYTES else BytesReader(data)
        entry = SpoolEntry(
            id=id,
            turn_id=turn_id,
            byte_length=len(data),
            created_at=created_at,
            version=str(next(self._versions)),
        )
        self._stored[id] = (reader, entry)
        return reader

    async def read(self, id: str) -> BytesReader | None:
        """Return a reader for the latest version of an id, or `None`."""
        await checkpoint()
        kept = self._stored.get(id)
        return kept[0] if kept else None

    async def delete(self, id: str, *, version: str | None = None) -> bool:
        """Delete an id, or only if it still has `version`; existing readers keep working."""
        await checkpoint()
        kept = self._stored.get(id)
        if kept is None or version not in {None, kept[1].version}:
            return False
        del self._stored[id]
        return True

    async def entries(self) -> list[SpoolEntry]:
        """Return the stored entries."""
        await checkpoint()
        return [entry for _, entry in self._stored.values()]

    def list_stamps(self) -> list[NoteStamp]:
        """Return the id and the time of each entry."""
        return [NoteStamp(entry.created_at, entry.id) for _, entry in list(self._stored.values())]

    def name_note(self, id: str) -> str:
        """Return the id."""
        return id

    def load_entry(self, name: str) -> SpoolEntry | None:
        """Return one entry."""
        kept = self._stored.get(name)
        return kept[1] if kept else None
