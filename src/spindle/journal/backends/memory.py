"""A journal in memory, which needs no setup and is lost with the process."""

from collections.abc import Iterable, Sequence
from itertools import islice
from threading import Lock

from anyio.lowlevel import checkpoint

from spindle.errors import JournalError
from spindle.journal.backends.memory_notices import MemoryNoticeBoard
from spindle.journal.backends.memory_search import CallOrder
from spindle.journal.backends.memory_states import MemoryStateStore
from spindle.journal.entries import (
    Claim,
    LostCalls,
    Outcome,
    Row,
    Selection,
    build_finished_row,
    build_repeated_row,
    can_begin,
    has_never_run,
)
from spindle.journal.search import Scan, ScanStep
from spindle.journal.summaries import SummaryRow, to_summary_row


class MemoryJournalStore:
    """A journal store in a dict, oldest row first."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._by_session: dict[str, dict[str, None]] = {}
        """The keys of each session, oldest first."""
        self._order = CallOrder()
        self._lock = Lock()
        self._is_closed = False
        self.lost_calls = LostCalls()
        self.states = MemoryStateStore()
        self.notices = MemoryNoticeBoard()

    async def open(self) -> None:
        """Reopen a closed store; its rows are kept."""
        await checkpoint()
        self._is_closed = False

    async def aclose(self) -> None:
        """Close the store; further operations are rejected."""
        self._is_closed = True
        await checkpoint()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated."""
        self._check_open()
        await checkpoint()  # before the write, so that a cancelled caller has begun nothing
        with self._lock:
            return [self._claim(claim) for claim in claims]

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already."""
        self._check_open()
        with self._lock:
            known = [self._end(outcome) for outcome in outcomes]
        await checkpoint()
        return known

    async def note(self, rows: Sequence[Row]) -> None:
        """Store each row, unless its call has run."""
        self._check_open()
        with self._lock:
            for row in rows:
                self._note(row)
        await checkpoint()

    async def interrupt(self, keys: Sequence[str]) -> None:
        """Mark those calls as interrupted that have no outcome."""
        self._check_open()
        with self._lock:
            for key in keys:
                row = self._rows.get(key)
                if row is not None and row.state == "started":
                    self._rows[key] = row._replace(state="interrupted")
        await checkpoint()

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        self._check_open()
        await checkpoint()
        return [self._rows.get(key) for key in keys]

    async def select(self, selection: Selection) -> list[Row]:
        """Return the matching rows, newest first."""
        self._check_open()
        await checkpoint()
        with self._lock:
            return list(islice(_find_matching(self._iterate(selection.session_id), selection), selection.limit))

    async def scan(self, scan: Scan) -> ScanStep:
        """Read some rows in order; return those that match."""
        self._check_open()
        await checkpoint()
        with self._lock:
            return self._order.scan(self._rows, scan)

    async def summarize(self, keys: Sequence[str]) -> list[SummaryRow | None]:
        """Look up the summary of each key."""
        self._check_open()
        await checkpoint()
        with self._lock:
            return [
                to_summary_row(self._order.get_seq(key), self._rows[key]) if key in self._rows else None for key in keys
            ]

    def mark_process_lost(self) -> None:
        """Mark every started call as interrupted, to simulate the loss of a process in tests."""
        with self._lock:
            for key, row in self._rows.items():
                if row.state == "started":
                    self._rows[key] = row._replace(state="interrupted")

    def _claim(self, claim: Claim) -> Row | None:
        key = claim.row.idempotency_key
        known = self._rows.get(key)
        if known is not None and not can_begin(claim, known):
            return known
        self._insert(claim.row if known is None else build_repeated_row(claim, known))
        return None

    def _end(self, outcome: Outcome) -> bool:
        row = self._rows.get(outcome.idempotency_key)
        if row is not None and row.ended_at is None:
            self._rows[outcome.idempotency_key] = build_finished_row(row, outcome)
        return row is not None

    def _note(self, row: Row) -> None:
        known = self._rows.get(row.idempotency_key)
        if known is None or has_never_run(known):
            self._insert(row)

    def _insert(self, row: Row) -> None:
        """Store a row as the newest; one with the same key is removed first."""
        key = row.idempotency_key
        known = self._rows.pop(key, None)
        if known is not None and known.session_id is not None:
            self._by_session[known.session_id].pop(key, None)
        self._rows[key] = row
        self._order.append(key)
        if row.session_id is not None:
            self._by_session.setdefault(row.session_id, {})[key] = None

    def _iterate(self, session_id: str | None) -> Iterable[Row]:
        """Return the rows of a session, or all, newest first."""
        if session_id is None:
            return reversed(self._rows.values())
        return (self._rows[key] for key in reversed(self._by_session.get(session_id, {})))

    def _check_open(self) -> None:
        if self._is_closed:
            raise JournalError("The journal is closed; enter it with `async with` to reopen it")


def _find_matching(rows: Iterable[Row], selection: Selection) -> Iterable[Row]:
    return (
        row
        for row in rows
        if selection.state in {None, row.state} and selection.tool_call_id in {None, row.tool_call_id}
    )
