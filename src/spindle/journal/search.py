"""The search over calls, and the bounded steps that backends run for it.

A search reads the journal in the order in which calls were begun. Most filters have no index, so it runs in steps: each
reads a bounded number of rows, and other operations of the journal run between them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple, Protocol, cast

from anyio import Lock

from spindle.concurrency import PerLoop
from spindle.errors import JournalError
from spindle.journal.entries import Row, Selection
from spindle.journal.search_text import build_json_needles, build_needles, fold
from spindle.journal.summaries import (
    CallPage,
    CallQuery,
    CallSummary,
    Order,
    SummaryRow,
    check_query,
    read_cursor,
    to_microseconds,
    to_summary,
    to_summary_row,
    write_cursor,
)

STEP_ROWS: Final = 2_000
"""How many rows one step reads at most."""
MAX_STEPS: Final = 40
"""How many steps one search runs at most."""
_KEYS_AT_ONCE = 200
CLOCK_SLACK: Final = timedelta(hours=1)
"""How much the clocks of processes may differ for a search by time to find their calls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """One bounded step of a search, as backends get it."""

    query: CallQuery
    position: int | None
    """Read the rows beyond this sequence number; `None` for all."""
    is_forward: bool
    limit: int
    """Stop after this many matches."""
    max_rows: int = STEP_ROWS
    is_first: bool = True
    """Whether this is the first step of a search."""

    @property
    def started_from(self) -> int | None:
        """The earliest start, in microseconds."""
        return None if self.query.started_from is None else to_microseconds(self.query.started_from)

    @property
    def started_to(self) -> int | None:
        """The earliest start that is too late, in microseconds."""
        return None if self.query.started_to is None else to_microseconds(self.query.started_to)


class ScanStep(NamedTuple):
    """What one step found."""

    rows: list[SummaryRow]
    position: int | None
    """The sequence number of the last row that was read; `None` if there was none."""
    scanned: int
    is_complete: bool
    """Whether no row is left."""


class CallScanner(Protocol):
    """The part of a journal store that a search needs; a store of one's own may lack it."""

    async def scan(self, scan: Scan) -> ScanStep:
        """Read some rows in order; return those that match, and where the step ended."""
        ...

    async def summarize(self, keys: Sequence[str]) -> list[SummaryRow | None]:
        """Look up the summary of each key."""
        ...


class SelectScanner:
    """The search over a store without `scan`: it reads the newest rows with `select` and cannot continue."""

    def __init__(self, store: "SelectingStore") -> None:
        self._store = store

    async def scan(self, scan: Scan) -> ScanStep:
        """Filter the newest rows.

        Raises:
            JournalError: The search continues another one, or reads oldest first.
        """
        if scan.position is not None or scan.is_forward:
            raise JournalError(
                f"The store {type(self._store).__name__} of this journal cannot continue a search or read oldest "
                "first: it has no scan(); add one, or read the newest calls without a cursor"
            )
        selection = Selection(state=scan.query.state, session_id=scan.query.session_id, limit=scan.max_rows)
        rows = await self._store.select(selection)
        # Rows have no number here; that they count down keeps their order.
        matching = [to_summary_row(-place, row) for place, row in enumerate(rows) if is_match(row, scan)]
        return ScanStep(matching[: scan.limit], None, len(rows), is_complete=True)

    async def summarize(self, keys: Sequence[str]) -> list[SummaryRow | None]:
        """Look up each key."""
        rows = await self._store.find(keys)
        return [None if row is None else to_summary_row(0, row) for row in rows]


class SelectingStore(Protocol):
    """The part of every journal store that `SelectScanner` needs."""

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        ...

    async def select(self, selection: Selection) -> list[Row]:
        """Return the matching rows, newest first."""
        ...


def is_match(row: Row, scan: Scan) -> bool:
    """Return whether a row matches the query of a step: the definition that databases follow."""
    query = scan.query
    wanted = (
        (query.tool, row.tool),
        (query.state, row.state),
        (query.code, row.code),
        (query.session_id, row.session_id),
        (query.turn_id, row.turn_id),
        (query.artifact_id, row.artifact_id),
    )
    if any(value is not None and value != found for value, found in wanted):
        return False
    if query.tools is not None and row.tool not in query.tools:
        return False
    if query.outcome is not None and (row.ended_at is None or (row.code is None) != (query.outcome == "ok")):
        return False
    if query.tool_call_id is not None and not row.tool_call_id.startswith(query.tool_call_id):
        return False
    start, end = scan.started_from, scan.started_to
    if (start is not None and row.started_at < start) or (end is not None and row.started_at >= end):
        return False
    return not query.text or _has_text(row, query.text)


def _has_text(row: Row, text: str) -> bool:
    plain, in_json = build_needles(text), build_json_needles(text)
    fields = (row.tool, row.error, row.code, row.session_id, row.tool_call_id)
    return any(needle in fold(field) for field in fields if field for needle in plain) or any(
        needle in fold(row.args) for needle in in_json
    )


class CallSearch:
    """The search over the calls of one store; one step runs at a time, so that many searches do not delay writes."""

    def __init__(self, store: SelectingStore, mark: Callable[[SummaryRow], SummaryRow]) -> None:
        has_scan = hasattr(store, "scan") and hasattr(store, "summarize")
        self._scanner: CallScanner = cast("CallScanner", store) if has_scan else SelectScanner(store)
        self._mark = mark
        """Corrects the state of a call whose outcome was lost."""
        self._turns = PerLoop(Lock)

    async def read(
        self, query: CallQuery | None, *, limit: int, cursor: str | None, order: Order, max_scanned: int
    ) -> CallPage:
        """Run steps until enough calls were found or enough rows were read.

        Raises:
            UsageError: An argument is invalid.
        """
        wanted = CallQuery() if query is None else query
        check_query(wanted, limit=limit, max_scanned=max_scanned, order=order)
        is_forward = order == "oldest_first"
        position = None if cursor is None else read_cursor(cursor)
        found: list[SummaryRow] = []
        scanned, is_complete = 0, False
        for number in range(MAX_STEPS):
            left = min(STEP_ROWS, max_scanned - scanned)
            if is_complete or len(found) >= limit or left <= 0:
                break
            scan = Scan(
                query=wanted,
                position=position,
                is_forward=is_forward,
                limit=limit - len(found),
                max_rows=left,
                is_first=not number,
            )
            async with self._turns.get():
                step = await self._scanner.scan(scan)
            found += step.rows
            scanned, is_complete = scanned + step.scanned, step.is_complete
            position = position if step.position is None else step.position
        has_next = is_forward or not is_complete
        return CallPage(
            calls=[to_summary(self._mark(row)) for row in found],
            next_cursor=write_cursor(position or 0) if has_next else None,
            scanned=scanned,
            is_complete=is_complete,
        )

    async def find(self, keys: Sequence[str]) -> list[CallSummary]:
        """Return the summaries of keys, in their order; unknown keys are omitted."""
        rows: list[SummaryRow | None] = []
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            async with self._turns.get():
                rows += await self._scanner.summarize(keys[start : start + _KEYS_AT_ONCE])
        return [to_summary(self._mark(row)) for row in rows if row is not None]
