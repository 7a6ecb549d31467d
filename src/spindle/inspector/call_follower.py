"""Counts the calls of a journal: the newest first, then older ones in the background, and new ones as they come.

The first page of the newest calls divides the journal: older calls are read backwards from it, newer ones forwards.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio

from spindle.concurrency import BackgroundTask, spawn_background
from spindle.errors import SpindleError
from spindle.inspector.call_stats import MAX_SECONDS, CallStats, CountedCall
from spindle.journal.journal import Journal
from spindle.journal.summaries import CallQuery, CallSummary

STEP_CALLS: Final = 200
"""Calls of one step; the event loop and the journal do other things between two of them."""
POLL_SECONDS: Final = 1.0
"""New calls are looked for at most this often."""
MAX_RUNNING: Final = 5_000
"""Running calls whose end is looked for; beyond that the oldest are no longer corrected."""
_CHECKED_AT_ONCE: Final = 500
_MAX_SEEN: Final = 20_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_WAIT_SECONDS: Final = 0.3
_FIRST_WAIT_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingProgress:
    """How far the journal was read."""

    calls: int
    """Calls that were read."""
    counted_from: float | None
    """Every call since this time, in seconds since 1970, is counted; `None` if nothing was read yet."""
    is_complete: bool
    """Whether all calls of the longest window were read."""
    is_current: bool
    """Whether the newest calls were read."""
    problem: str | None = None
    """Why the journal cannot be read."""


@dataclass(slots=True)
class _RunningCall:
    cursor: str
    call: CountedCall
    names: tuple[str | None, ...]
    """Under which it is counted."""


class JournalCounter:
    """Reads the calls of a journal, also those of other processes, into counts."""

    def __init__(self, journal: Journal, stats: CallStats, *, clock: Callable[[], float] = time.time) -> None:
        self.stats = stats
        self._journal, self._clock = journal, clock
        self._task: BackgroundTask | None = None
        self._polled_at = float("-inf")
        self._older: str | None = None
        self._is_started, self._is_complete, self._is_current = False, False, False
        self._calls = 0
        self._counted_from: float | None = None
        self._problem: str | None = None
        # Of two processes that write at once, the later row may be seen first. So a part is read twice.
        self._newer: str | None = None
        self._again: str | None = None
        self._seen: set[str] = set()
        self._running: dict[str, _RunningCall] = {}

    def get_progress(self) -> ReadingProgress:
        """Return how far the journal was read."""
        return ReadingProgress(
            calls=self._calls,
            counted_from=self._counted_from,
            is_complete=self._is_complete,
            is_current=self._is_current,
            problem=self._problem,
        )

    async def update(self) -> None:
        """Read on in the background, and wait a moment for it; the first time a little longer, to have something."""
        if self._task is None or self._task.is_done:
            if self._is_complete and self._clock() - self._polled_at < POLL_SECONDS:
                return
            self._task = spawn_background(self.read_all, name="spindle page: count calls")
        with anyio.move_on_after(_WAIT_SECONDS if self._is_started else _FIRST_WAIT_SECONDS):
            await self._task.wait()

    async def read_all(self) -> None:
        """Read everything that is new, the ends of calls that ran, and older calls until the longest window is full."""
        try:
            await self._read_new()
            while not self._is_complete:
                await self._read_older()
                if self._clock() - self._polled_at >= POLL_SECONDS:
                    await self._read_new()
            self._problem = None
        except (SpindleError, OSError) as error:
            self._problem, self._is_current = str(error)[:500], False

    async def _read_new(self) -> None:
        self._polled_at = self._clock()
        if not self._is_started:
            await self._read_newest()
            return
        seen, position, is_complete = set[str](), self._again, False
        while not is_complete and len(seen) < _MAX_SEEN:  # if it is far behind, it goes on from here the next time
            page = await self._journal.search(limit=STEP_CALLS, cursor=position, order="oldest_first")
            self._count([call for call in page.calls if call.cursor not in self._seen])
            seen |= {call.cursor for call in page.calls}
            position, is_complete = page.next_cursor, page.is_complete
        self._is_current = is_complete
        # Rows behind `_again` that were counted are in `_seen`: the next time starts where the last one has ended.
        self._again, self._newer, self._seen = self._newer, position, seen
        await self._correct_running()

    async def _read_newest(self) -> None:
        page = await self._journal.search(self._get_query(), limit=STEP_CALLS)
        self._count(page.calls)
        self._mark_read(page.calls)
        if page.calls:
            self._newer, self._again = page.calls[0].cursor, page.calls[-1].cursor
            self._seen = {call.cursor for call in page.calls}
        self._older = page.next_cursor
        self._is_complete = page.next_cursor is None
        self._is_started = self._is_current = True

    async def _read_older(self) -> None:
        page = await self._journal.search(self._get_query(), limit=STEP_CALLS, cursor=self._older)
        self._count(page.calls)
        self._mark_read(page.calls)
        self._older = page.next_cursor
        self._is_complete = page.next_cursor is None

    def _get_query(self) -> CallQuery:
        return CallQuery(started_from=datetime.fromtimestamp(self._clock() - MAX_SECONDS, UTC))

    def _mark_read(self, calls: Sequence[CallSummary]) -> None:
        if calls:
            oldest = calls[-1].started_at.timestamp()
            self._counted_from = oldest if self._counted_from is None else min(self._counted_from, oldest)

    def _count(self, calls: Sequence[CallSummary]) -> None:
        now = self._clock()
        for call in calls:
            counted = to_counted(call)
            names = self.stats.add(counted, now)
            if counted.is_running and any(name is not None for name in names):
                self._drop_running(call.idempotency_key)
                self._running[call.idempotency_key] = _RunningCall(call.cursor, counted, names)
        while len(self._running) > MAX_RUNNING:
            self._running.pop(next(iter(self._running)))
        self._calls += len(calls)

    async def _correct_running(self) -> None:
        """Look for the ends of the calls that ran, the longest unchecked first."""
        keys = list(self._running)[:_CHECKED_AT_ONCE]
        found = {call.idempotency_key: call for call in await self._journal.summarize(keys)} if keys else {}
        for key in keys:
            known, call = self._running.pop(key), found.get(key)
            if call is None or call.cursor != known.cursor:
                self._end_unknown(known)
            elif call.state == "started":
                self._running[key] = known  # behind the others
            else:
                self.stats.add_end(to_counted(call), known.names)

    def _drop_running(self, key: str) -> None:
        if (known := self._running.pop(key, None)) is not None:
            self._end_unknown(known)

    def _end_unknown(self, known: _RunningCall) -> None:
        """Count a call as interrupted whose end is not recorded: it was begun again, which is another call."""
        self.stats.add_end(known.call._replace(is_running=False), known.names)


def to_counted(call: CallSummary) -> CountedCall:
    """Return what is counted of a call."""
    ended = call.ended_at
    return CountedCall(
        call.tool,
        (call.started_at - _EPOCH) // _MICROSECOND,
        None if ended is None else (ended - _EPOCH) // _MICROSECOND,
        call.state == "started",
        call.code,
        call.result_chars,
        call.cost_usd,
    )
