"""Table queries with DuckDB, an engine in this process that is restricted to reading one file.

Each query gets its own database in memory. Before the file is opened, the database is restricted to that path, without
writes or extensions and with a memory limit, and its configuration is locked.

This module needs the extra `tables`.
"""

import re
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import anyio
import duckdb
from anyio.to_thread import run_sync

from spindle.artifacts.backends.temporary_file import temporary_copy
from spindle.artifacts.json_artifact import parse_json
from spindle.artifacts.table_artifact import Column, Statement
from spindle.errors import ArtifactQueryError, InvalidArtifactError
from spindle.json_types import JsonObject, JsonValue
from spindle.text import to_line

T = TypeVar("T")

MEMORY_LIMIT: Final = "256MB"
MAX_SECONDS: Final = 60.0
_MAX_CELL_BYTES = 16 << 20
# By default DuckDB reads 16 of the longest lines at once, which alone would be the memory limit.
_BUFFER_BYTES = 2 * _MAX_CELL_BYTES

_CONFIG: Final[JsonObject] = {
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_object_cache": "false",
    "memory_limit": MEMORY_LIMIT,
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "2",
}
_GLOB = frozenset("*?[]{}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSource:
    """The format and options with which a file is read."""

    format: str
    delimiter: str = ","
    sample_all: bool = False
    """Infer the types from every row, because those of the first rows were wrong."""

    def scan(self) -> str:
        """Return the SQL expression of the table; its path is the first parameter."""
        sample = "-1" if self.sample_all else "20480"
        if self.format == "parquet":
            return "read_parquet(?, hive_partitioning = false)"
        if self.format in ("json", "jsonl"):
            layout = "array" if self.format == "json" else "newline_delimited"
            return (
                f"read_json(?, format = '{layout}', compression = 'none', hive_partitioning = false, "
                f"sample_size = {sample}, maximum_object_size = {_MAX_CELL_BYTES})"
            )
        # Rows may be ragged and cells may contain newlines, so correct parsing is preferred to a fast one.
        return (
            f"read_csv(?, header = true, delim = '{self.delimiter}', quote = '\"', escape = '\"', null_padding = true, "
            "comment = '', parallel = false, strict_mode = false, compression = 'none', hive_partitioning = false, "
            f"sample_size = {sample}, max_line_size = {_MAX_CELL_BYTES}, buffer_size = {_BUFFER_BYTES})"
        )


def connect(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that can read `path` and nothing else."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    literal = str(path).replace("'", "''")
    connection.execute(f"SET allowed_paths = ['{literal}']")
    connection.execute("SET enable_progress_bar = false")  # printed to stdout, which may carry a protocol
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


async def read_columns(reader: object, source: TableSource) -> list[Column]:
    """Return the columns with their types."""

    def work(connection: duckdb.DuckDBPyConnection, path: Path) -> list[Column]:
        rows = connection.execute(f"DESCRIBE SELECT * FROM {source.scan()}", [str(path)]).fetchall()  # noqa: S608
        return [Column(row[0], row[1]) for row in rows]

    return await _run_in_database(reader, source, work)


async def query_rows(reader: object, source: TableSource, statement: Statement) -> list[JsonObject]:
    """Run a statement and return its rows, each a dict by column name."""

    def work(connection: duckdb.DuckDBPyConnection, path: Path) -> list[JsonObject]:
        # Every name is quoted and every value is a parameter; a model cannot inject SQL.
        sql = f"SELECT {statement.select} FROM {source.scan()} {statement.tail}"  # noqa: S608
        # The selection has no `?`, so the path is the first parameter.
        answer = connection.execute(sql, [str(path), *statement.values])
        heads = [(str(head[0]), _cell if str(head[1]) == "JSON" else None) for head in answer.description or []]
        return [
            {name: cell(value) if cell else value for (name, cell), value in zip(heads, row, strict=True)}
            for row in answer.fetchall()
        ]

    return await _run_in_database(reader, source, work)


def _cell(value: str | None) -> JsonValue:
    """Parse a cell of a column with mixed types, which DuckDB returns as JSON text."""
    return None if value is None else parse_json(value)


async def _run_in_database(
    reader: object, source: TableSource, work: Callable[[duckdb.DuckDBPyConnection, Path], T]
) -> T:
    async with open_local_file(reader) as path:
        run = _InterruptibleQuery(path, work)
        with anyio.move_on_after(MAX_SECONDS):
            try:
                return await run.run_in_thread()
            except duckdb.Error as error:
                raise _translate_error(error, source, path) from error
    raise ArtifactQueryError(f"the query took longer than {MAX_SECONDS:g} seconds; filter first, or ask for fewer rows")


@dataclass(slots=True)
class _InterruptibleQuery(Generic[T]):
    """One query in a thread, which is interrupted on cancellation."""

    path: Path
    work: Callable[[duckdb.DuckDBPyConnection, Path], T]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)
    _connection: duckdb.DuckDBPyConnection | None = None
    _is_cancelled: bool = False

    async def run_in_thread(self) -> T:
        try:
            return await run_sync(self._work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await run_sync(self._stop)
            raise

    def _work(self) -> T:
        with self._lock:
            if self._is_cancelled:
                raise duckdb.InterruptException("the query was cancelled")
            self._connection = connect(self.path)
        try:
            return self.work(self._connection, self.path)
        finally:
            self._connection.close()
            self._done.set()

    def _stop(self) -> None:
        with self._lock:
            self._is_cancelled = True
            connection = self._connection
        # An interrupt between two statements is lost, so it is repeated until the thread has finished.
        while connection is not None and not self._done.wait(0.01):
            with suppress(duckdb.ConnectionException):  # closed concurrently
                connection.interrupt()


@asynccontextmanager
async def open_local_file(reader: object) -> AsyncGenerator[Path]:
    """Provide a local file with the reader's bytes, under a path without glob characters."""
    lend: Callable[[], AbstractAsyncContextManager[Path]] | None = getattr(reader, "local_path", None)
    if callable(lend):
        async with lend() as path:
            if not _GLOB.intersection(str(path)):
                yield path
                return
            async with temporary_copy(_ranges_of(path), path.stat().st_size) as copy:
                yield copy
                return
    whole = await _read_all(reader)
    async with temporary_copy(lambda start, end: whole[start:end], len(whole)) as copy:
        yield copy


def _ranges_of(path: Path) -> Callable[[int, int], bytes]:
    def read(start: int, end: int) -> bytes:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    return read


async def _read_all(reader: Any) -> bytes:
    whole = reader.read_all()
    whole = await whole if hasattr(whole, "__await__") else whole
    return whole.encode() if isinstance(whole, str) else bytes(whole)


def describe_error(error: duckdb.Error, path: Path) -> str:
    """Return the first line of an error, without the path."""
    first = re.split(r"\n\s*(?:LINE \d|Possible|The search space)", str(error).replace(str(path), "the artifact"))[0]
    return to_line(first)[:300]


def _translate_error(error: duckdb.Error, source: TableSource, path: Path) -> ArtifactQueryError | InvalidArtifactError:
    reason = describe_error(error, path)
    if isinstance(error, duckdb.OutOfMemoryException):
        return ArtifactQueryError(f"the query needs more than {MEMORY_LIMIT} of memory; filter first, or set a limit")
    if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException):
        return ArtifactQueryError(f"the query failed: {reason}", field="value")
    if isinstance(error, duckdb.BinderException):
        return ArtifactQueryError(f"the query failed: {reason}")
    return InvalidArtifactError(f"the content cannot be read as {source.format}: {reason}")
