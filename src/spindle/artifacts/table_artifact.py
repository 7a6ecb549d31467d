"""Table artifacts (CSV, TSV, JSON Lines, Parquet), and the SQL that their queries are translated to."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, NamedTuple, Self, TypeAlias, TypeVar, get_args

from annotated_types import Ge, MinLen

from spindle.artifacts import backends
from spindle.artifacts.artifact import Artifact, LineNumber, clamp_range
from spindle.artifacts.grep import compile_pattern
from spindle.artifacts.json_artifact import is_json
from spindle.artifacts.queries import Bounds, query, render_rows
from spindle.artifacts.readers import SpoolReader
from spindle.concurrency import spool_threads
from spindle.errors import ArtifactQueryError, InvalidArtifactError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject
from spindle.text import did_you_mean

Operator: TypeAlias = Literal[
    "eq", "ne", "lt", "le", "gt", "ge", "contains", "starts_with", "ends_with", "matches", "is_null", "not_null"
]
Comparable: TypeAlias = str | int | float | bool
CellValue: TypeAlias = Comparable | None

OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)

_COMPARISONS = {"eq": "=", "ne": "IS DISTINCT FROM", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTIONS = {
    "contains": "contains",
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    # DuckDB's patterns are RE2 too, so they take linear time.
    "matches": "regexp_matches",
}
_INTEGERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
})  # fmt: skip
_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIMESTAMP_MS"})


class Column(NamedTuple):
    """A column's name and its type in DuckDB."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts of a SELECT before and after the table; `?` placeholders are bound in order."""

    select: str = "*"
    tail: str = ""
    values: tuple[object, ...] = ()


def select_rows(columns: Sequence[str] | None, known: Sequence[Column], start: int, end: int | None) -> Statement:
    """Build the statement for a range of rows, with all or some columns."""
    chosen = "*" if columns is None else ", ".join(quote_identifier(find_column(name, known).name) for name in columns)
    if not chosen:
        raise ArtifactQueryError("select needs at least one column", field="columns")
    return Statement(chosen, *_range(start, end))


def filter_rows(column: str, op: str, value: CellValue, known: Sequence[Column], limit: int | None) -> Statement:
    """Build the statement for the rows whose cell satisfies a comparison with a value."""
    condition, values = _condition(find_column(column, known), op, value)
    tail, more = _range(0, limit)
    return Statement("*", f"WHERE {condition} {tail}", (*values, *more))


def sort_rows(column: str, known: Sequence[Column], limit: int | None, *, descending: bool) -> Statement:
    """Build the statement for rows sorted by a column; empty cells come last."""
    tail, values = _range(0, limit)
    direction = "DESC" if descending else "ASC"
    return Statement(
        "*", f"ORDER BY {quote_identifier(find_column(column, known).name)} {direction} NULLS LAST {tail}", values
    )


def count_groups(column: str, known: Sequence[Column], limit: int | None) -> Statement:
    """Build the statement that counts each value of a column, most frequent first."""
    name = quote_identifier(find_column(column, known).name)
    tail, values = _range(0, limit)
    return Statement(
        f'{name} AS "value", count(*) AS "count"',
        f"GROUP BY {name} ORDER BY count(*) DESC, CAST({name} AS VARCHAR) ASC NULLS LAST {tail}",
        values,
    )


def find_column(name: str, known: Sequence[Column]) -> Column:
    """Return the column with an exact name.

    Raises:
        ArtifactQueryError: There is no such column.
    """
    found = next((column for column in known if column.name == name), None)
    if found is None:
        names = [column.name for column in known]
        hint = did_you_mean(name, names, f"there are: {', '.join(names[:50])}")
        raise ArtifactQueryError(f"no column is called {name!r}; {hint}", field="column")
    return found


def quote_identifier(name: str) -> str:
    """Quote a column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _range(start: int, end: int | None) -> tuple[str, tuple[int, ...]]:
    start = max(start, 0)
    if end is None:
        return ("OFFSET ?", (start,)) if start else ("", ())
    return "LIMIT ? OFFSET ?", (max(end - start, 0), start)


def _condition(column: Column, op: str, value: CellValue) -> tuple[str, tuple[object, ...]]:
    name = quote_identifier(column.name)
    if op == "is_null" or (op == "eq" and value is None):
        return f"{name} IS NULL", ()
    if op == "not_null" or (op == "ne" and value is None):
        return f"{name} IS NOT NULL", ()
    if value is None:
        raise ArtifactQueryError(f"{op} needs a value to compare with", field="value")
    if op in _FUNCTIONS:
        if op == "matches":
            compile_pattern(str(value))  # rejects patterns that would fail in DuckDB
        return f"{_FUNCTIONS[op]}({_as_text(column)}, ?)", (str(value),)
    if op not in _COMPARISONS:
        raise ArtifactQueryError(f"op must be one of {', '.join(OPERATORS)}, got {op!r}", field="op")
    cell, placeholder, fitting = _build_operands(column, value)
    return f"{cell} {_COMPARISONS[op]} {placeholder}", (fitting,)


def _build_operands(column: Column, value: Comparable) -> tuple[str, str, object]:
    """Convert a cell and a value to one type; a text cell is compared with a number as a number."""
    name, kind = quote_identifier(column.name), column.type
    if kind in _INTEGERS or kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        return name, "?", _number(value, column)
    if kind == "BOOLEAN":
        return name, "?", _boolean(value, column)
    if kind in _TIMES:
        return name, f"CAST(? AS {kind})", str(value)
    if isinstance(value, bool):
        return f"lower({_as_text(column)})", "?", str(value).lower()
    if isinstance(value, str):
        return _as_text(column), "?", value
    return f"TRY_CAST({_as_text(column)} AS DOUBLE)", "?", value


def _as_text(column: Column) -> str:
    name = quote_identifier(column.name)
    return f"({name} ->> '$')" if column.type == "JSON" else f"CAST({name} AS VARCHAR)"


def _number(value: Comparable, column: Column) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        return int(str(value))
    except ValueError:
        pass
    try:
        return float(str(value))
    except ValueError as error:
        raise _type_mismatch(column, value, "a number") from error


def _boolean(value: Comparable, column: Column) -> bool:
    if isinstance(value, bool):
        return value
    said = {"true": True, "false": False}.get(str(value).lower())
    if said is None:
        raise _type_mismatch(column, value, "true or false")
    return said


def _type_mismatch(column: Column, value: object, expected: str) -> ArtifactQueryError:
    return ArtifactQueryError(
        f"column {column.name!r} is a {column.type}; compare it with {expected}, not {value!r:.80}", field="value"
    )


T = TypeVar("T")
TableFormat: TypeAlias = Literal["csv", "tsv", "json", "jsonl", "parquet"]
Limit: TypeAlias = Annotated[int | None, Ge(1)]
TableRow: TypeAlias = JsonObject

TABLE_NAME: Final = "artifact"
"""What `TableArtifact.sql` calls the table."""
TABLE_FORMATS: Final[tuple[TableFormat, ...]] = get_args(TableFormat)

_ARRAY = re.compile(r"\s*\[\s*\{")
"""How a JSON array of objects begins, which may be one line, or many."""
_MORE = "ask for a narrower filter, fewer columns, or a range of rows with artifact_table_rows"


def _clamp_limit(args: JsonObject, bounds: Bounds) -> JsonObject:
    return args | {"limit": min(args["limit"] or bounds.max_items + 1, bounds.max_items + 1)}


def _render_columns(columns: Sequence[Column]) -> str:
    return "\n".join(f"{name}: {kind}" for name, kind in columns) or "(empty list)"


class TableArtifact(Artifact):
    """A table: CSV or TSV with a header line, JSON Lines, or Parquet; without a format it is detected from the content.

    Types are inferred from the first rows, or from all rows if the first ones mislead. Short rows are padded with empty
    cells, long ones get extra columns, and duplicate column names are numbered.

    Raises:
        InvalidArtifactError: The format is not one of the four.
    """

    def __init__(self, reader: SpoolReader, format: TableFormat | None = None) -> None:
        super().__init__(reader)
        if format is not None and format not in TABLE_FORMATS:
            raise InvalidArtifactError(
                f"format must be one of {', '.join(TABLE_FORMATS)}, got {format!r}", field="format"
            )
        self._format: TableFormat | None = format
        self._known_source: backends.TableSource | None = None
        self._known_columns: list[Column] | None = None

    def over(self, reader: SpoolReader) -> Self:
        """Return an artifact of the same type and options for another reader."""
        return type(self)(reader, self._format)

    @query("artifact_table_columns", "List the columns with their types.", render=_render_columns)
    async def columns(self) -> list[Column]:
        """Return the columns as pairs of name and type.

        Raises:
            InvalidArtifactError: The content is not a valid table of its format.
        """
        if self._known_columns is None:
            self._known_columns = await self._describe() if await self._has_content() else []
        return list(self._known_columns)

    @query("artifact_table_row_count", "Count the rows.")
    async def row_count(self) -> int:
        """Count the rows, without the header."""
        counted = await self._query_rows(lambda _: Statement('count(*) AS "count"'))
        return int(counted[0]["count"]) if counted else 0

    @query(
        "artifact_table_rows",
        "Read the rows start to end (not included), counted from 0.",
        rest="ask again with start={next}",
        clamp=clamp_range,
        render=render_rows,
    )
    async def rows(self, start: LineNumber = None, end: LineNumber = None) -> list[TableRow]:
        """Return a half-open range of rows, each a dict by column."""
        return await self._query_rows(lambda known: select_rows(None, known, start or 0, end))

    @query(
        "artifact_table_filter",
        "Find the rows by comparing a column with a value. matches takes an RE2 pattern; is_null and not_null need no "
        "value.",
        rest=_MORE,
        clamp=_clamp_limit,
        render=render_rows,
    )
    async def filter(self, column: str, op: Operator, value: CellValue = None, limit: Limit = None) -> list[TableRow]:
        """Return the rows for which the comparison `op` of the cell with `value` holds.

        Raises:
            ArtifactQueryError: There is no such column or operator, or the value does not fit the column.
        """
        return await self._query_rows(lambda known: filter_rows(column, op, value, known, limit))

    @query(
        "artifact_table_select",
        "Read some columns of the rows start to end (not included).",
        rest="ask again with start={next}",
        clamp=clamp_range,
        render=render_rows,
    )
    async def select(
        self, columns: Annotated[list[str], MinLen(1)], start: LineNumber = None, end: LineNumber = None
    ) -> list[TableRow]:
        """Return some columns of a half-open range of rows.

        Raises:
            ArtifactQueryError: There is no such column.
        """
        return await self._query_rows(lambda known: select_rows(columns, known, start or 0, end))

    @query(
        "artifact_table_sort",
        "Read the first rows in the order of a column.",
        rest=_MORE,
        clamp=_clamp_limit,
        render=render_rows,
    )
    async def sort(self, column: str, *, descending: bool = False, limit: Limit = None) -> list[TableRow]:
        """Return rows sorted by a column, empty cells last.

        Raises:
            ArtifactQueryError: There is no such column.
        """
        return await self._query_rows(lambda known: sort_rows(column, known, limit, descending=descending))

    @query(
        "artifact_table_group_counts",
        "Count how often each value of a column occurs, most frequent first.",
        rest=_MORE,
        clamp=_clamp_limit,
        render=render_rows,
    )
    async def group_counts(self, column: str, limit: Limit = None) -> list[TableRow]:
        """Return each value of a column with its count, most frequent first.

        Raises:
            ArtifactQueryError: There is no such column.
        """
        return await self._query_rows(lambda known: count_groups(column, known, limit))

    async def sql(self, sql: str, *, max_rows: int = 200, max_seconds: float = 15.0) -> "backends.SqlAnswer":
        """Run a SELECT in which the table is called `artifact`, for people: a model has the queries above.

        It runs in a process of its own that can read this artifact and nothing else, with limited memory and time.

        Raises:
            ArtifactQueryError: It is not one SELECT, it fails, or it needs too much memory or time.
        """
        with needs_extra("tables"):
            # In a thread: loading the engine takes a moment that the event loop should not wait.
            query_sql = await spool_threads.run(lambda: backends.query_sql)
            ask = backends.SqlQuery(text=sql, table=TABLE_NAME, max_rows=max_rows, max_seconds=max_seconds)
        return await self._run_with_retry(lambda source: query_sql(self.reader, source, ask))

    async def _describe(self) -> list[Column]:
        with needs_extra("tables"):
            read_columns = backends.read_columns
        return await self._run_with_retry(lambda source: read_columns(self.reader, source))

    async def _query_rows(self, ask: Callable[[list[Column]], Statement]) -> list[TableRow]:
        with needs_extra("tables"):
            query_rows = backends.query_rows

        async def run(source: "backends.TableSource") -> list[TableRow]:
            return await query_rows(self.reader, source, ask(await self.columns()))

        if await self._has_content():
            return await self._run_with_retry(run)
        ask([])  # so that an unknown column is an error here too
        return []

    async def _run_with_retry(self, run: "Callable[[backends.TableSource], Awaitable[T]]") -> T:
        """Run a query; retry with the types of all rows if those of the first rows were wrong."""
        source = await self._source()
        try:
            return await run(source)
        except ArtifactQueryError as error:
            # The value may fit the column's type once later rows are sampled.
            if error.field != "value" or source.sample_all or source.format == "parquet":
                raise
            self._known_source, self._known_columns = replace(source, sample_all=True), None
            return await run(self._known_source)

    async def _has_content(self) -> bool:
        return await self.byte_length() > 0

    async def _source(self) -> "backends.TableSource":
        if self._known_source is None:
            lines = [line for line in await self._lines(0, 20) if line.strip()]
            first = next(iter(lines), "")
            kind = self._format or ("json" if _ARRAY.match("".join(lines[:2])) else _detect_format(first))
            delimiter = "\t" if kind == "tsv" else _delimiter(first)
            self._known_source = backends.TableSource(format=kind, delimiter=delimiter)
        return self._known_source


def _detect_format(first: str) -> TableFormat:
    if first.startswith("PAR1"):
        return "parquet"
    if first.lstrip().startswith("{") and is_json(first):
        return "jsonl"
    return "tsv" if first.count("\t") > first.count(",") else "csv"


def _delimiter(first: str) -> str:
    """Return the delimiter of a header line: the first of `,`, `;` and `|` that occurs in it, by default a comma."""
    return next((mark for mark in (",", ";", "|") if mark in first), ",")
