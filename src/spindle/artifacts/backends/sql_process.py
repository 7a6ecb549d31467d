"""SQL that a person wrote, run on one table in a process of its own, which is killed if it takes too long.

A statement of ours is bounded by what it selects; one of a user is not. A single function call can fill the memory, and
the engine cannot be interrupted inside of one. So the engine, restricted as in `duckdb.py`, runs in a child process
with limits on memory and processor time. The child reads one request from its input and writes one answer.

This module needs the extra `tables`.
"""

import json
import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

import anyio
import duckdb
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from spindle.artifacts.backends.duckdb import TableSource, connect, describe_error, open_local_file
from spindle.artifacts.table_artifact import Column
from spindle.errors import ArtifactQueryError
from spindle.json_types import JsonObject, JsonValue

MAX_SQL_CHARS: Final = 20_000
MAX_CELL_CHARS: Final = 2_000
MAX_ANSWER_CHARS: Final = 1 << 20
MAX_COLUMNS: Final = 500
_MAX_OUTPUT_BYTES: Final = 16 << 20
_MAX_MEMORY_BYTES: Final = 2 << 30
"""Of the address space: the engine and its threads reserve far more than they use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlQuery:
    """A SELECT of a user, in which `table` is the table."""

    text: str
    table: str
    max_rows: int
    max_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlAnswer:
    """The columns and the first rows that a query selected; a long cell is cut."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    is_cut: bool
    """Whether there are more rows."""


async def query_sql(reader: object, source: TableSource, query: SqlQuery) -> SqlAnswer:
    """Run a query and return its first rows.

    Raises:
        ArtifactQueryError: It is not one SELECT, it fails, or it needs too much memory or time.
    """
    if len(query.text) > MAX_SQL_CHARS:
        raise ArtifactQueryError(
            f"the query has {len(query.text)} characters; the limit is {MAX_SQL_CHARS}", field="sql"
        )
    async with open_local_file(reader) as path:
        request = {
            "path": str(path),
            "scan": source.scan(),
            "sql": query.text.strip().rstrip(";"),
            "table": query.table,
            "max_rows": query.max_rows,
            "max_seconds": query.max_seconds,
        }
        with anyio.move_on_after(query.max_seconds):
            return _parse_answer(await _run_child(json.dumps(request).encode()))
    raise ArtifactQueryError(
        f"the query took longer than {query.max_seconds:g} seconds; filter first, or select less", field="sql"
    )


async def _run_child(request: bytes) -> bytes:
    """Return what the child writes; it does not outlive this function."""
    # Isolated from the environment and the current folder, which may hold modules of any name.
    process = await anyio.open_process(
        [sys.executable, "-I", "-m", __name__], stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
    )
    async with process:
        try:
            return await _exchange(process, request)
        finally:
            if process.returncode is None:
                process.kill()


async def _exchange(process: Process, request: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise ArtifactQueryError("the process of the query has no pipes")
    try:
        await process.stdin.send(request)
        await process.stdin.aclose()
        return await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", _MAX_OUTPUT_BYTES)
    except (anyio.BrokenResourceError, anyio.IncompleteRead, anyio.EndOfStream, anyio.DelimiterNotFound) as error:
        raise ArtifactQueryError(
            "the query ended without an answer; it may need too much memory: filter first, or select less", field="sql"
        ) from error


def _parse_answer(output: bytes) -> SqlAnswer:
    answer: JsonObject = json.loads(output)
    if "error" in answer:
        raise ArtifactQueryError(answer["error"], field=answer["field"])
    return SqlAnswer(
        columns=tuple(Column(name, kind) for name, kind in answer["columns"]),
        rows=tuple(tuple(row) for row in answer["rows"]),
        is_cut=answer["is_cut"],
    )


def answer_request(request: JsonObject) -> JsonObject:
    """Run the query of a request, in the child; return its rows, or what is wrong with it."""
    path = Path(request["path"])
    try:
        connection = connect(path)
        return _select(connection, path, request)
    except (duckdb.OutOfMemoryException, MemoryError):
        return {"error": "the query needs too much memory; filter first, or select less", "field": "sql"}
    except duckdb.Error as error:
        # A cell that does not fit its column's type may fit once all rows were sampled.
        is_cell = isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException)
        reason = describe_error(error, path)
        return {"error": f"the query failed: {reason}", "field": "value" if is_cell else "sql"}


def _select(connection: duckdb.DuckDBPyConnection, path: Path, request: JsonObject) -> JsonObject:
    most: int = request["max_rows"]
    # The database can read this file and change nothing: a query that breaks out of the brackets gains nothing. The
    # path is a parameter, so that no statement shows it.
    inside = f"SELECT * FROM (\n{request['sql']}\n) LIMIT {most + 1}"  # noqa: S608 - as the comment says
    whole = f"WITH {request['table']} AS (SELECT * FROM {request['scan']}) {inside}"  # noqa: S608
    statements = connection.extract_statements(whole)
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        return {"error": "expected one SELECT statement", "field": "sql"}
    answer = connection.execute(statements[0], [str(path)])
    heads = [[str(head[0])[:MAX_CELL_CHARS], str(head[1])[:200]] for head in (answer.description or [])[:MAX_COLUMNS]]
    rows: list[list[JsonValue]] = []
    left = MAX_ANSWER_CHARS
    while left > 0 and len(rows) <= most and (row := answer.fetchone()) is not None:
        cells = [_to_cell(value, path) for value in row[:MAX_COLUMNS]]
        left -= sum(len(cell) if isinstance(cell, str) else 8 for cell in cells)
        rows.append(cells)
    return {"columns": heads, "rows": rows[:most], "is_cut": len(rows) > most or left <= 0}


def _to_cell(value: object, path: Path) -> JsonValue:
    """Return a value of JSON that every client reads alike, or text."""
    if value is None or isinstance(value, bool):
        return value
    # Larger integers, and numbers that JSON lacks, are text: a browser would round or reject them.
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    text = value.hex(" ") if isinstance(value, bytes) else str(value)
    text = text[: 4 * MAX_CELL_CHARS].replace(str(path), "artifact").encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]}…"


def main() -> None:
    """Answer the one request on standard input, within limits of memory and processor time."""
    request: JsonObject = json.loads(sys.stdin.buffer.read())
    seconds = int(request["max_seconds"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (2 * seconds, 2 * seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = json.dumps(answer_request(request)).encode() + b"\n"
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
    # The engine need not free what the process gives back anyway.
    os._exit(0)


if __name__ == "__main__":
    main()
