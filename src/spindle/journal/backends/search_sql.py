"""The statements of one step of a search, for both databases.

A step reads windows: a first statement finds where the next window of rows ends, a second one returns those of its rows
that match. So a step is bounded, however few rows match.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spindle.journal.entries import SqlValue
from spindle.journal.search import CLOCK_SLACK, Scan, ScanStep
from spindle.journal.search_text import build_json_needles, build_needles
from spindle.journal.summaries import SummaryRow

_SLACK = int(CLOCK_SLACK.total_seconds() * 1e6)
_TEXT_COLUMNS = ("tool", "error", "code", "session_id", "tool_call_id")


class SearchStatement(NamedTuple):
    """A statement and the values of its placeholders."""

    sql: str
    values: list[SqlValue]


class ScanWindow(NamedTuple):
    """Some rows in order, from the position of a step on."""

    edge: int | None
    """The sequence number of the last row; `None` if there is none."""
    size: int
    newest: int | None
    """The latest start of all rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchDialect:
    """What differs between the databases."""

    table: str
    columns: str
    """The expressions of the fields of a `SummaryRow`."""
    place: Callable[[int], str]
    """Return the placeholder of the value with a number, counted from 1."""
    store: Callable[[str], SqlValue]
    """Return a text as it is stored in a column that is not JSON."""
    needle: Callable[[str], SqlValue]
    """Return a text that is looked for within a stored one."""
    equals: Mapping[str, str]
    """The comparison of some columns with `{}`; others are compared with `=`."""
    starts_with: str
    contains: str
    index_hint: str
    """How a statement names the index to use, if it can; `{}` is the name."""


@dataclass(slots=True)
class SearchSql:
    """The statements of one step."""

    dialect: SearchDialect
    scan: Scan
    _values: list[SqlValue] = field(default_factory=list[SqlValue])

    def find_window(self, position: int | None, rows: int) -> SearchStatement:
        """Return the statement that finds the window of the next `rows` rows."""
        self._values = []
        source, terms = self._build_source(position)
        order, edge = ("ASC", "max") if self.scan.is_forward else ("DESC", "min")
        newest = "max(started_at)" if self.scan.started_from is not None else "NULL"
        columns = "seq, started_at" if self.scan.started_from is not None else "seq"
        limit = self._bind(rows)
        sql = f"""
            SELECT {edge}(seq), count(*), {newest}
            FROM (
                SELECT {columns} FROM {source} {_join(terms)} ORDER BY seq {order} LIMIT {limit}
            ) AS near
        """  # noqa: S608 - constant text, names and placeholders only
        return SearchStatement(sql, self._values)

    def read_window(self, position: int | None, edge: int, limit: int) -> SearchStatement:
        """Return the statement that reads the matching rows up to the edge of a window."""
        self._values = []
        source, terms = self._build_source(position)
        is_forward = self.scan.is_forward
        terms.append(f"seq {'<=' if is_forward else '>='} {self._bind(edge)}")
        terms.extend(self._build_terms())
        most = self._bind(limit)
        sql = f"""
            SELECT {self.dialect.columns} FROM {source} {_join(terms)}
            ORDER BY seq {"ASC" if is_forward else "DESC"} LIMIT {most}
        """  # noqa: S608
        return SearchStatement(sql, self._values)

    def _build_source(self, position: int | None) -> tuple[str, list[str]]:
        """Return the table, and the terms that select the rows to read, by an index where there is one."""
        query, table = self.scan.query, self.dialect.table
        # Without `seq > 0`: of two lower bounds, SQLite would begin at the first one.
        index, terms = "", list[str]()
        if query.session_id is not None:
            index, terms = "by_session", [self._equals("session_id", query.session_id)]
        elif query.turn_id is not None:
            index, terms = "by_turn", [self._equals("turn_id", query.turn_id)]
        elif query.state in {"started", "interrupted"}:
            index, terms = "unfinished", ["ended_at IS NULL"]
        elif query.code is not None or query.outcome == "error":
            index, terms = "failed", ["code IS NOT NULL"]
        if position is not None:
            terms.append(f"seq {'>' if self.scan.is_forward else '<'} {self._bind(position)}")
        hint = self.dialect.index_hint.format(f"{table}_{index}") if index else ""
        return f"{table} {hint}", terms

    def _build_terms(self) -> list[str]:
        query = self.scan.query
        columns = ("tool", "state", "code", "session_id", "turn_id", "artifact_id")
        wanted = ((column, getattr(query, column)) for column in columns)
        terms = [self._equals(column, value) for column, value in wanted if value is not None]
        if query.tools is not None:
            names = ", ".join(self._bind_text(name) for name in sorted(query.tools))
            terms.append(f"tool IN ({names})" if names else "1 = 0")
        if query.outcome is not None:
            terms.append(f"ended_at IS NOT NULL AND code IS {'' if query.outcome == 'ok' else 'NOT '}NULL")
        if query.tool_call_id is not None:
            terms.append(self.dialect.starts_with.format("tool_call_id", self._bind_needle(query.tool_call_id)))
        if self.scan.started_from is not None:
            terms.append(f"started_at >= {self._bind(self.scan.started_from)}")
        if self.scan.started_to is not None:
            terms.append(f"started_at < {self._bind(self.scan.started_to)}")
        if query.text:
            terms.append(self._build_text_term(query.text))
        return terms

    def _build_text_term(self, text: str) -> str:
        contains = self.dialect.contains
        plain = [
            contains.format(column, self._bind_needle(needle))
            for column in _TEXT_COLUMNS
            for needle in build_needles(text)
        ]
        # Stored as it is, without the escapes of other columns.
        in_json = [contains.format("args", self._bind(needle)) for needle in build_json_needles(text)]
        return f"({' OR '.join([*plain, *in_json])})"

    def _equals(self, column: str, value: str) -> str:
        return self.dialect.equals.get(column, f"{column} = {{}}").format(self._bind_text(value))

    def _bind_needle(self, text: str) -> str:
        return self._bind(self.dialect.needle(text))

    def _bind_text(self, text: str) -> str:
        return self._bind(self.dialect.store(text))

    def _bind(self, value: SqlValue) -> str:
        self._values.append(value)
        return self.dialect.place(len(self._values))


def _join(terms: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(terms)}" if terms else ""


class StepProgress:
    """What a step has read so far."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._rows: list[SummaryRow] = []
        self._read_to: int | None = None
        self.position = scan.position
        self._scanned = 0
        self._is_complete = False

    @property
    def is_over(self) -> bool:
        """Whether the step has read all that it may."""
        return self._is_complete or self.missing <= 0 or self._scanned >= self._scan.max_rows

    @property
    def missing(self) -> int:
        """How many matches are still wanted."""
        return self._scan.limit - len(self._rows)

    def add(self, window: ScanWindow, wanted: int, rows: Sequence[SummaryRow]) -> None:
        """Add a window of `wanted` rows or fewer, and its matches."""
        self._scanned += window.size
        is_cut = len(rows) >= self.missing
        self._rows.extend(rows)
        if window.edge is not None:
            self.position = self._read_to = rows[-1].seq if is_cut else window.edge
        start = self._scan.started_from
        is_older = start is not None and window.newest is not None and window.newest < start - _SLACK
        is_past = is_older and not self._scan.is_forward
        self._is_complete = not is_cut and (window.size < wanted or is_past)

    def finish(self) -> ScanStep:
        """Return what was read."""
        return ScanStep(self._rows, self._read_to, self._scanned, self._is_complete)


def find_jump(scan: Scan) -> int | None:
    """Return the time, in microseconds, before or behind which a search by time need not read any row."""
    if not scan.is_first:
        return None
    if scan.is_forward:
        return None if scan.started_from is None else scan.started_from - _SLACK
    return None if scan.started_to is None else scan.started_to + _SLACK


class Bisection:
    """Finds the first row that started at a time or later, as rows are numbered in about the order of their starts."""

    def __init__(self, moment: int, newest: int) -> None:
        self._moment = moment
        self.low, self.high = 0, newest + 1
        """The wanted number is above the first one, and at most the second one."""

    @property
    def is_over(self) -> bool:
        """Whether the number is known."""
        return self.high - self.low <= 1

    @property
    def middle(self) -> int:
        """The number at which, or behind which, the next row is to be looked up."""
        return (self.low + self.high) // 2

    def add(self, seq: int | None, started_at: int | None) -> None:
        """Add the first row from `middle` on."""
        if seq is None or started_at is None or seq >= self.high or started_at >= self._moment:
            self.high = self.middle
        else:
            self.low = seq

    def limit(self, scan: Scan) -> int:
        """Return the position of a step that skips what the search need not read."""
        if scan.is_forward:
            return max(self.low, scan.position or 0)
        return self.high if scan.position is None else min(self.high, scan.position)
