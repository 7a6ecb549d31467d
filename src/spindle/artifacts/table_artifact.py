"""Rows and columns, queried without writing SQL."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar, cast, get_args

from annotated_types import Ge, MinLen

from spindle.artifacts import table_query
from spindle.artifacts.artifact import Artifact, LineNumber, clamp_range
from spindle.artifacts.json_formats import is_json
from spindle.artifacts.queries import query
from spindle.artifacts.reader import SpoolReader
from spindle.artifacts.render import Bounds, serialise_rows
from spindle.artifacts.table_query import CellValue, Column, Operator, Statement
from spindle.errors import ArtifactQueryError, InvalidArtifactError
from spindle.extras import needs_extra

if TYPE_CHECKING:
    from spindle.artifacts.backends.duckdb import TableSource

T = TypeVar("T")
TableFormat: TypeAlias = Literal["csv", "tsv", "jsonl", "parquet"]
Limit: TypeAlias = Annotated[int | None, Ge(1)]
Row: TypeAlias = dict[str, Any]

TABLE_FORMATS: Final[tuple[TableFormat, ...]] = get_args(TableFormat)

_MORE = "ask for a narrower filter, fewer columns, or a range of rows with artifact_table_rows"


def _clamp_limit(args: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    return args | {"limit": min(args["limit"] or bounds.max_items + 1, bounds.max_items + 1)}


def _render_columns(columns: Any) -> str:
    return "\n".join(f"{name}: {kind}" for name, kind in columns) or "(empty list)"


class TableArtifact(Artifact):
    """CSV and TSV with a header line, JSON Lines, or Parquet; without a format it is told from the content.

    Types are those of the first rows, or of all rows where the first ones mislead. Short rows are filled up with empty
    cells, long ones get extra columns, equal names of columns are numbered.

    Raises:
        InvalidArtifactError: The format is none of the four.
    """

    machine_text = True

    def __init__(self, reader: SpoolReader, format: TableFormat | None = None) -> None:
        super().__init__(reader)
        if format is not None and format not in TABLE_FORMATS:
            raise InvalidArtifactError(f"format is one of {', '.join(TABLE_FORMATS)}, not {format!r}", field="format")
        self._format: TableFormat | None = format
        self._known_source: TableSource | None = None
        self._known_columns: list[Column] | None = None

    def over(self, reader: SpoolReader) -> Self:
        """Make the same view of another content."""
        return type(self)(reader, self._format)

    @query("artifact_table_columns", "List the columns of a table artifact with their types.", render=_render_columns)
    async def columns(self) -> list[Column]:
        """List the columns as pairs of name and type.

        Raises:
            InvalidArtifactError: The content is no table of its format.
        """
        if self._known_columns is None:
            self._known_columns = await self._describe() if await self._has_content() else []
        return list(self._known_columns)

    @query("artifact_table_row_count", "Count the rows of a table artifact.")
    async def row_count(self) -> int:
        """Count the rows; a header is none."""
        counted = await self._ask(lambda _: Statement('count(*) AS "count"'))
        return cast("int", counted[0]["count"]) if counted else 0

    @query(
        "artifact_table_rows",
        "Read the rows start to end (not included) of a table artifact, counted from 0.",
        rest="ask again with start={next}",
        clamp=clamp_range,
        render=serialise_rows,
    )
    async def rows(self, start: LineNumber = None, end: LineNumber = None) -> list[Row]:
        """Give a half-open range of rows, each a dict by column."""
        return await self._ask(lambda known: table_query.rows(None, known, start or 0, end))

    @query(
        "artifact_table_filter",
        "Find the rows of a table artifact whose cell in a column stands in a relation to a value. matches takes an "
        "RE2 pattern; is_null and not_null need no value.",
        rest=_MORE,
        clamp=_clamp_limit,
        render=serialise_rows,
    )
    async def filter(self, column: str, op: Operator, value: CellValue = None, limit: Limit = None) -> list[Row]:
        """Give the rows whose cell stands in the relation `op` to `value`.

        Raises:
            ArtifactQueryError: There is no such column or relation, or the value does not fit the column.
        """
        return await self._ask(lambda known: table_query.filtered(column, op, value, known, limit))

    @query(
        "artifact_table_select",
        "Read some columns of the rows start to end (not included) of a table artifact.",
        rest="ask again with start={next}",
        clamp=clamp_range,
        render=serialise_rows,
    )
    async def select(
        self, columns: Annotated[list[str], MinLen(1)], start: LineNumber = None, end: LineNumber = None
    ) -> list[Row]:
        """Give some columns of a half-open range of rows.

        Raises:
            ArtifactQueryError: There is no such column.
        """
        return await self._ask(lambda known: table_query.rows(columns, known, start or 0, end))

    @query(
        "artifact_table_sort",
        "Read the first rows of a table artifact in the order of a column.",
        rest=_MORE,
        clamp=_clamp_limit,
        render=serialise_rows,
    )
    async def sort(self, column: str, *, descending: bool = False, limit: Limit = None) -> list[Row]:
        """Give rows in the order of a column, empty cells last.

        Raises:
            ArtifactQueryError: There is no such column.
        """
        return await self._ask(lambda known: table_query.sorted_by(column, known, limit, descending=descending))

    @query(
        "artifact_table_group_counts",
        "Count how often each value of a column occurs in a table artifact, most frequent first.",
        rest=_MORE,
        clamp=_clamp_limit,
        render=serialise_rows,
    )
    async def group_counts(self, column: str, limit: Limit = None) -> list[Row]:
        """Give each value of a column with its count, most frequent first.

        Raises:
            ArtifactQueryError: There is no such column.
        """
        return await self._ask(lambda known: table_query.group_counts(column, known, limit))

    async def _describe(self) -> list[Column]:
        with needs_extra("tables"):
            from spindle.artifacts.backends import duckdb  # noqa: PLC0415 - an extra
        return await self._patiently(lambda source: duckdb.columns(self.reader, source))

    async def _ask(self, ask: Callable[[list[Column]], Statement]) -> list[Row]:
        with needs_extra("tables"):
            from spindle.artifacts.backends import duckdb  # noqa: PLC0415 - an extra

        async def run(source: "TableSource") -> list[Row]:
            return await duckdb.query(self.reader, source, ask(await self.columns()))

        if await self._has_content():
            return await self._patiently(run)
        ask([])  # so that a column that is not there is an error here too
        return []

    async def _patiently(self, run: "Callable[[TableSource], Awaitable[T]]") -> T:
        """Ask, and ask again with the types of all rows where the first rows misled."""
        source = await self._source()
        try:
            return await run(source)
        except ArtifactQueryError as error:
            # A value that does not fit a column may fit what its later rows make of it.
            if error.field != "value" or source.sample_all or source.format == "parquet":
                raise
            self._known_source, self._known_columns = replace(source, sample_all=True), None
            return await run(self._known_source)

    async def _has_content(self) -> bool:
        return await self.byte_length() > 0

    async def _source(self) -> "TableSource":
        from spindle.artifacts.backends.duckdb import TableSource  # noqa: PLC0415 - an extra

        if self._known_source is None:
            first = next((line for line in await self._lines(0, 20) if line.strip()), "")
            kind = self._format or _infer(first)
            delimiter = "\t" if kind == "tsv" else _delimiter(first)
            self._known_source = TableSource(format=kind, delimiter=delimiter)
        return self._known_source


def _infer(first: str) -> TableFormat:
    if first.startswith("PAR1"):
        return "parquet"
    if first.lstrip().startswith("{") and is_json(first):
        return "jsonl"
    return "tsv" if first.count("\t") > first.count(",") else "csv"


def _delimiter(first: str) -> str:
    """Tell what parts the cells of a header: a comma unless there is none and something else is."""
    return next((mark for mark in (",", ";", "|") if mark in first), ",")
