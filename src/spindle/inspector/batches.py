"""Finds the calls of one batch in the journal, from one of them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from spindle.execution.call_timing import CallTiming
from spindle.journal.entries import JournalEntry
from spindle.journal.journal import Journal
from spindle.journal.summaries import CallQuery

MAX_CALLS: Final = 200
"""The most calls of a batch that are shown."""
MAX_SCANNED: Final = 1_000
"""How many calls of the turn, or of the session, are looked at."""
_PAGE_CALLS: Final = 100
_READ_CALLS: Final = 20
"""How many whole results are in memory at once."""
_LATER: Final = timedelta(hours=1)
"""A call may have waited for a person, and begun long after the others."""
_EARLIER: Final = timedelta(seconds=1)
"""The clock of the machine may have been set while the batch ran."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchMember:
    """A call of a batch, without its result."""

    entry: JournalEntry
    timing: CallTiming | None
    """`None` while the call runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundBatch:
    """The calls of a batch that the journal has."""

    members: list[BatchMember]
    """In the order of the batch; running calls last."""
    is_complete: bool
    """Whether the batch is not larger than what is shown."""


async def find_batch(journal: Journal, entry: JournalEntry) -> FoundBatch:
    """Return the calls that ran in the same batch; only the call itself if nothing was recorded of its batch."""
    timing = CallTiming.read(entry)
    if timing is None:
        return FoundBatch(members=[BatchMember(entry=entry, timing=None)], is_complete=entry.state != "started")
    found = {entry.idempotency_key: BatchMember(entry=entry, timing=timing)}
    running: dict[str, BatchMember] = {}
    wanted = min(timing.batch_calls, MAX_CALLS)
    async with aclosing(_read_neighbours(journal, entry, timing)) as neighbours:
        while len(found) < wanted:
            other = await anext(neighbours, None)
            if other is None:
                break
            own = CallTiming.read(other)
            if other.state != "finished":
                running[other.idempotency_key] = BatchMember(entry=other, timing=None)
            elif own is not None and own.batch_id == timing.batch_id:
                found[other.idempotency_key] = BatchMember(entry=other, timing=own)
    # The intents of a batch are written together, and have the same time.
    moments = {each.entry.started_at for each in found.values()}
    open_calls = [each for each in running.values() if each.entry.started_at in moments]
    known = sorted(found.values(), key=_get_position)
    members = [*known, *open_calls][:MAX_CALLS]
    return FoundBatch(members=members, is_complete=timing.batch_calls <= MAX_CALLS)


async def _read_neighbours(journal: Journal, entry: JournalEntry, timing: CallTiming) -> AsyncGenerator[JournalEntry]:
    """Yield the calls of the same turn since the batch began, as many as are looked at."""
    query = CallQuery(
        session_id=entry.session_id,
        turn_id=entry.turn_id,
        started_from=timing.began_at - _EARLIER,
        started_to=timing.began_at + timedelta(milliseconds=max(timing.written_ms, timing.deadline_ms or 0.0)) + _LATER,
    )
    cursor: str | None = None
    for _ in range(MAX_SCANNED // _PAGE_CALLS):
        page = await journal.search(query, limit=_PAGE_CALLS, cursor=cursor, order="oldest_first")
        keys = [call.idempotency_key for call in page.calls if call.turn_id == entry.turn_id]
        for place in range(0, len(keys), _READ_CALLS):
            for found in (await journal.find_many(keys[place : place + _READ_CALLS])).values():
                yield found
        if page.is_complete or page.next_cursor is None:
            return
        cursor = page.next_cursor


def _get_position(member: BatchMember) -> int:
    return 0 if member.timing is None else member.timing.position
