"""The search over calls in a PostgreSQL database."""

from collections.abc import Iterable, Sequence
from typing import Any

from spindle.journal.backends.postgres_queries import CallTable, digest, escape_text, unescape_text
from spindle.journal.backends.postgres_schema import Connection
from spindle.journal.backends.search_sql import Bisection, ScanWindow, SearchDialect, SearchSql, StepProgress, find_jump
from spindle.journal.search import Scan, ScanStep
from spindle.journal.search_text import STORED_PREVIEW_CHARS
from spindle.journal.summaries import SummaryRow

WINDOW_ROWS = 500

_PREVIEWS = {name: f"left({name}, {STORED_PREVIEW_CHARS})" for name in ("args", "error")}
_COLUMNS = ", ".join(_PREVIEWS.get(name, name) for name in SummaryRow._fields)
_DIALECT = SearchDialect(
    table="spindle_calls",
    columns=_COLUMNS,
    place=lambda number: f"${number}",
    store=escape_text,
    needle=escape_text,
    # An index does not accept long text, so it has the beginnings.
    equals={
        name: f"(left({name}, 200) = left({{0}}::text, 200) AND {name} = {{0}})" for name in ("session_id", "turn_id")
    },
    starts_with="starts_with({}, {}::text)",
    contains="strpos(lower({}), {}::text) > 0",
    index_hint="",
)
_FIND = f"SELECT key_digest, {_COLUMNS} FROM spindle_calls WHERE key_digest = ANY($1)"  # noqa: S608
_NEWEST = "SELECT max(seq) FROM spindle_calls"
_NEXT = "SELECT seq, started_at FROM spindle_calls WHERE seq >= $1 ORDER BY seq LIMIT 1"
_UNESCAPED = frozenset(map(SummaryRow._fields.index, ("state", "args")))


async def scan(table: CallTable, scans: Sequence[Scan]) -> list[ScanStep]:
    """Run each step."""
    if any(each.is_first for each in scans):
        await table.recover()
    return [await _scan(table.connection, each) for each in scans]


async def summarize(table: CallTable, keys: Sequence[str]) -> list[SummaryRow | None]:
    """Look up the summary of each key."""
    await table.recover()
    digests = list(map(digest, keys))
    found = {each: _to_row(row) for each, *row in await table.connection.fetch(_FIND, digests)}
    return [found.get(each) for each in digests]


async def _scan(connection: Connection, scan: Scan) -> ScanStep:
    sql, progress = SearchSql(_DIALECT, scan), StepProgress(scan)
    progress.position = await _jump(connection, scan)
    while not progress.is_over:
        query, values = sql.find_window(progress.position, WINDOW_ROWS)
        window = ScanWindow._make(await connection.fetchrow(query, *values))
        rows: list[SummaryRow] = []
        if window.edge is not None:
            query, values = sql.read_window(progress.position, window.edge, progress.missing)
            rows = [_to_row(row) for row in await connection.fetch(query, *values)]
        progress.add(window, WINDOW_ROWS, rows)
    return progress.finish()


async def _jump(connection: Connection, scan: Scan) -> int | None:
    """Return where to begin: a search by time skips the rows that are too new, or too old."""
    moment = find_jump(scan)
    newest = None if moment is None else await connection.fetchval(_NEWEST)
    if moment is None or newest is None:
        return scan.position
    bisection = Bisection(moment, newest)
    while not bisection.is_over:
        bisection.add(*(await connection.fetchrow(_NEXT, bisection.middle) or (None, None)))
    return bisection.limit(scan)


def _to_row(values: Iterable[Any]) -> SummaryRow:
    return SummaryRow._make(
        unescape_text(value) if isinstance(value, str) and place not in _UNESCAPED else value
        for place, value in enumerate(values)
    )
