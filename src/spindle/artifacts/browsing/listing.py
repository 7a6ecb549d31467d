"""The artifacts of a spool, newest first, in pages: only the notes of a page are read.

When a note was written is known from a listing of the store, which is kept for a few seconds: a page costs the notes
that it shows, not those of the whole spool. A filter reads more of them, so a page may end early and say where to go
on.
"""

import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from anyio import create_task_group

from spindle.artifacts.spool import NoteStamp, NoteStore, Spool, SpoolEntry
from spindle.concurrency import spool_threads

MAX_PAGE_ENTRIES: Final = 500
MAX_READ_NOTES: Final = 2_000
"""How many notes are read for one page."""

_BATCH = 64
_PER_THREAD = 16
_MAX_KEPT = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolPage:
    """Some entries of a spool, newest first."""

    entries: tuple[SpoolEntry, ...]
    next: NoteStamp | None
    """The last note that was looked at, to go on after it; `None` at the end."""
    count: int
    """How many artifacts the spool has, whatever the filter."""


class SpoolListing:
    """The entries of one spool in the order in which they were written, last first."""

    def __init__(
        self, spool: Spool, *, max_age_seconds: float = 3.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._spool, self._max_age_seconds, self._clock = spool, max_age_seconds, clock
        self._stamps: list[NoteStamp] = []
        self._listed_at: float | None = None
        self._kept: OrderedDict[NoteStamp, SpoolEntry] = OrderedDict()

    async def read_page(
        self,
        *,
        after: NoteStamp | None = None,
        count: int = 100,
        is_wanted: Callable[[SpoolEntry], Awaitable[bool]] | None = None,
    ) -> SpoolPage:
        """Return up to `count` entries after a place, or from the newest on; fewer if a filter refuses most.

        With a filter, `next` is an entry that it wants if there is another one, so that it tells nothing of the rest.

        Raises:
            SpoolError: The store is unavailable.
        """
        stamps = await self._list()
        count = max(min(count, MAX_PAGE_ENTRIES), 1)
        # Ascending, so the entries after a place are those before its position.
        place = len(stamps) if after is None else bisect_left(stamps, after)
        found: list[SpoolEntry] = []
        last, looked_at = after, 0
        while place > 0 and looked_at < MAX_READ_NOTES and (len(found) < count or is_wanted is not None):
            batch = stamps[max(place - min(_BATCH, count), 0) : place][::-1]
            loaded = await self._load(batch)
            for stamp in batch:
                entry = loaded.get(stamp)
                place, looked_at = place - 1, looked_at + 1
                is_found = entry is not None and (is_wanted is None or await is_wanted(entry))
                if len(found) == count and is_found:
                    return SpoolPage(entries=tuple(found), next=last, count=len(stamps))
                if len(found) < count:
                    last = stamp
                if entry is not None and is_found:
                    found.append(entry)
        return SpoolPage(entries=tuple(found), next=last if place > 0 else None, count=len(stamps))

    async def find(self, id: str) -> SpoolEntry | None:
        """Return the entry of an id, or `None` if it is not stored."""
        store = self._spool.store
        if isinstance(store, NoteStore):
            return await spool_threads.run(store.load_entry, store.name_note(id))
        return next((entry for entry in await self._spool.entries() if entry.id == id), None)

    async def _list(self) -> list[NoteStamp]:
        if self._listed_at is None or self._clock() - self._listed_at > self._max_age_seconds:
            store = self._spool.store
            if isinstance(store, NoteStore):
                self._stamps = await spool_threads.run(lambda: sorted(store.list_stamps()))
            else:
                self._stamps = await self._list_entries()
            self._listed_at = self._clock()
        return self._stamps

    async def _list_entries(self) -> list[NoteStamp]:
        """List a store that can only return all of its entries."""
        entries = await self._spool.entries()
        self._kept = OrderedDict((NoteStamp(entry.created_at, entry.id), entry) for entry in entries)
        return await spool_threads.run(lambda: sorted(self._kept))

    async def _load(self, batch: list[NoteStamp]) -> dict[NoteStamp, SpoolEntry]:
        lacking = [stamp for stamp in batch if stamp not in self._kept]
        store = self._spool.store
        if lacking and isinstance(store, NoteStore):
            # In several threads, because a note of an object store takes one request.
            async with create_task_group() as tasks:
                for start in range(0, len(lacking), _PER_THREAD):
                    tasks.start_soon(self._read, store, lacking[start : start + _PER_THREAD])
        return {stamp: self._kept[stamp] for stamp in batch if stamp in self._kept}

    async def _read(self, store: NoteStore, stamps: list[NoteStamp]) -> None:
        def read() -> list[tuple[NoteStamp, SpoolEntry]]:
            loaded = ((stamp, store.load_entry(stamp.name)) for stamp in stamps)
            return [(stamp, entry) for stamp, entry in loaded if entry is not None]

        self._kept.update(await spool_threads.run(read))
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
