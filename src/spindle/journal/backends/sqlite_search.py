"""The search over calls in a SQLite file; the functions run in the thread that owns the connection."""

import sqlite3
from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any

from spindle.journal.backends.search_sql import Bisection, ScanWindow, SearchDialect, SearchSql, StepProgress, find_jump
from spindle.journal.backends.sqlite_database import Database, store_text, to_bindable
from spindle.journal.search import Scan, ScanStep
from spindle.journal.search_text import STORED_PREVIEW_CHARS
from spindle.journal.summaries import SummaryRow

STEP_SECONDS = 0.006
"""After this time a step ends with what it has: the same thread writes the intents of running calls."""
WINDOW_ROWS = 200

# As bytes, because SQLite ends a text at a NUL when it counts characters; a part of no bytes would be NULL.
_PREVIEWS = {
    "args": f"substr(args, 1, {STORED_PREVIEW_CHARS})",
    "error": f"iif(error = '', '', substr(CAST(error AS BLOB), 1, {4 * STORED_PREVIEW_CHARS}))",
}
_COLUMNS = ", ".join(_PREVIEWS.get(name, name) for name in SummaryRow._fields)
DIALECT = SearchDialect(
    table="calls",
    columns=_COLUMNS,
    place=lambda _: "?",
    store=store_text,
    needle=lambda text: text.encode("utf-8", "surrogatepass"),
    equals={},
    # Compared as bytes: a text with lone surrogates is stored as bytes.
    starts_with="instr(CAST({} AS BLOB), {}) = 1",
    contains="instr(CAST(lower({}) AS BLOB), CAST({} AS BLOB)) > 0",
    index_hint="INDEXED BY {}",
)
_FIND = f"SELECT run_id, {_COLUMNS} FROM calls WHERE idempotency_key = ?"  # noqa: S608
_NEWEST = "SELECT max(seq) FROM calls"
_NEXT = "SELECT seq, started_at FROM calls WHERE seq >= ? ORDER BY seq LIMIT 1"


def scan_sqlite(database: Database, scans: Sequence[Scan]) -> list[ScanStep]:
    """Run each step."""
    if any(each.is_first for each in scans):
        database.recover()
    return [_scan(database.connection, each) for each in scans]


def summarize_sqlite(database: Database, keys: Sequence[str]) -> list[SummaryRow | None]:
    """Look up the summary of each key."""
    database.recover()
    found = (database.connection.execute(_FIND, to_bindable([key])).fetchone() for key in keys)
    return [None if row is None else _to_row(row[1:]) for row in found]


def _scan(connection: sqlite3.Connection, scan: Scan) -> ScanStep:
    deadline = monotonic() + STEP_SECONDS
    sql, progress = SearchSql(DIALECT, scan), StepProgress(scan)
    progress.position = _jump(connection, scan)
    while not progress.is_over:
        window = ScanWindow._make(connection.execute(*sql.find_window(progress.position, WINDOW_ROWS)).fetchone())
        rows: list[SummaryRow] = []
        if window.edge is not None:
            found = connection.execute(*sql.read_window(progress.position, window.edge, progress.missing))
            rows = [_to_row(row) for row in found]
        progress.add(window, WINDOW_ROWS, rows)
        if monotonic() > deadline:
            break
    return progress.finish()


def _jump(connection: sqlite3.Connection, scan: Scan) -> int | None:
    """Return where to begin: a search by time skips the rows that are too new, or too old."""
    moment = find_jump(scan)
    [newest] = connection.execute(_NEWEST).fetchone() if moment is not None else [None]
    if moment is None or newest is None:
        return scan.position
    bisection = Bisection(moment, newest)
    while not bisection.is_over:
        bisection.add(*(connection.execute(_NEXT, (bisection.middle,)).fetchone() or (None, None)))
    return bisection.limit(scan)


def _to_row(values: Iterable[Any]) -> SummaryRow:
    return SummaryRow._make(_decode(value) if isinstance(value, bytes) else value for value in values)


def _decode(value: bytes) -> str:
    # A preview may end within a character.
    return getincrementaldecoder("utf-8")("surrogatepass").decode(value)
