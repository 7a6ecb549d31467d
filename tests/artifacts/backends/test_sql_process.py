from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle.artifacts import BytesReader, TableArtifact
from spindle.artifacts.backends.duckdb import TableSource
from spindle.artifacts.backends.sql_process import MAX_CELL_CHARS, answer_request
from spindle.errors import ArtifactQueryError

CSV = "town,total\n" + "".join(f"t{n % 3},{n}\n" for n in range(50))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text("s\n1\n")
    path = tmp_path / "table.csv"
    path.write_text(CSV)
    return path


def run(path: Path, sql: str, max_rows: int = 3) -> dict[str, Any]:
    request = {"path": str(path), "scan": TableSource(format="csv").scan(), "sql": sql, "table": "artifact"}
    return answer_request(request | {"max_rows": max_rows, "max_seconds": 5})


def test_the_first_rows_are_returned_in_the_order_of_the_query(table: Path) -> None:
    assert run(table, "SELECT * FROM artifact ORDER BY total DESC -- newest first") == {
        "columns": [["town", "VARCHAR"], ["total", "BIGINT"]],
        "rows": [["t1", 49], ["t0", 48], ["t2", 47]],
        "is_cut": True,
    }
    assert run(table, "WITH a AS (FROM artifact) SELECT count(*) FROM a")["rows"] == [[50]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1) ; DROP TABLE x; (SELECT 2",
        "SELECT 1); (SELECT 2",
        "DROP TABLE artifact",
        "INSERT INTO artifact VALUES (1)",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY artifact TO '{folder}/out.csv'",
        "ATTACH '{folder}/other.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT getenv('HOME')",
        "SELECT ?",
        "SELECT list(repeat('x', 1000)) FROM range(1000000)",
        "",
    ],
)
def test_only_a_select_of_the_artifact_is_run(table: Path, sql: str) -> None:
    answer = run(table, sql.format(folder=table.parent))
    assert set(answer) == {"error", "field"}
    assert str(table) not in answer["error"]
    assert sorted(path.name for path in table.parent.iterdir()) == ["secret.csv", "table.csv"]


def test_cells_are_cut_and_the_path_is_hidden(table: Path) -> None:
    values = "repeat('x', 100000), NULL, true, 9007199254740993, 'nan'::DOUBLE, 1.5::DOUBLE, '\\xff'::BLOB"
    cells = run(table, f"SELECT {values}, current_setting('allowed_paths')")["rows"][0]
    assert cells[0] == "x" * MAX_CELL_CHARS + "…"
    assert cells[1:] == [None, True, "9007199254740993", "nan", 1.5, "ff", "['artifact']"]
    assert str(table) not in str(cells)


def list_children() -> list[str]:
    """Return the ids of the processes of queries that this process has started and not reaped, from Linux's /proc."""
    own = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in own if b"sql_process" in _read_command(pid)]


def _read_command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has exited since
        return b""


# Takes hours and little memory, so that it can only end by being killed.
ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_query_that_takes_too_long_is_killed() -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        await TableArtifact(BytesReader(CSV)).sql(ENDLESS, max_seconds=2)
    assert caught.value.field == "sql"
    assert list_children() == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_query_is_killed_when_its_caller_is_cancelled() -> None:
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(TableArtifact(BytesReader(CSV)).sql, ENDLESS, max_seconds=600))
            with anyio.fail_after(60):
                while not list_children():  # noqa: ASYNC110 - no event says that a process has started
                    await anyio.sleep(0.05)
            scope.cancel()
    assert scope.cancelled_caught
    assert list_children() == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_query_that_fills_the_memory_is_an_error() -> None:
    # The engine cannot be interrupted inside of one function call, and may crash when the memory is used up.
    with pytest.raises(ArtifactQueryError) as caught:
        await TableArtifact(BytesReader(CSV)).sql("SELECT repeat('x', 1000000000)", max_seconds=3)
    assert caught.value.field == "sql"
    assert list_children() == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_types_of_later_rows_are_found() -> None:
    lines = "".join(f"{n}\n" for n in range(30_000)) + "later\n"
    answer = await TableArtifact(BytesReader("a\n" + lines)).sql("SELECT max(a) FROM artifact")
    assert answer.rows == (("later",),)
    assert (await TableArtifact(BytesReader('{"a": 1}\n{"a": 2}\n')).sql("SELECT a FROM artifact")).rows == ((1,), (2,))
