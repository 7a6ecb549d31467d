"""Where the bytes of large outputs live: the port, and its three backends by name."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from os import PathLike
from typing import Any, Protocol

from spindle.artifacts.content import Content, pieces
from spindle.artifacts.reader import IndexedReader
from spindle.artifacts.retention import SpoolEntry, SpoolStats, count_up, overdue
from spindle.errors import UsageError


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
