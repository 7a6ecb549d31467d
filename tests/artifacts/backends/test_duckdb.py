import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import duckdb
import pytest

from spindle.artifacts.backends.duckdb import TableSource, connect, query_rows, read_columns
from spindle.artifacts.backends.memory import BytesReader
from spindle.artifacts.table_artifact import Statement
from spindle.errors import ArtifactQueryError


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text("s\n1\n")
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    return path


@pytest.fixture
def locked(allowed: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connect(allowed)
    yield connection
    connection.close()


def test_the_one_file_can_be_read(locked: duckdb.DuckDBPyConnection, allowed: Path) -> None:
    assert locked.execute("SELECT * FROM read_csv(?)", [str(allowed)]).fetchall() == [(1, 2)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM read_csv(['{file}', '{folder}/secret.csv'])",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('{file}/../secret.csv')",
        "SELECT * FROM read_csv('{folder}/*.csv')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
        "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{file}'",
        "COPY (SELECT 1) TO '/dev/stdout'",
        "EXPORT DATABASE '{folder}/dump'",
        "IMPORT DATABASE '{folder}/dump'",
        "ATTACH '{folder}/other.db'",
        "ATTACH '{file}' AS t (READ_ONLY)",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{folder}/x.duckdb_extension'",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/passwd']",
        "SET allowed_directories = ['/']",
        "SET lock_configuration = false",
        "SET memory_limit = '64GB'",
        "SET threads = 64",
        "SET temp_directory = '{folder}/tmp'",
        "SET log_query_path = '{folder}/log'",
        "RESET memory_limit",
        "PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = '{folder}/profile.json'",
        "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'x', SECRET 'y')",
        "SELECT getenv('PATH')",
    ],
)
def test_nothing_else_can_be_reached_or_changed(locked: duckdb.DuckDBPyConnection, allowed: Path, sql: str) -> None:
    before = sorted(allowed.parent.iterdir())

    with pytest.raises(duckdb.Error):
        locked.execute(sql.format(folder=allowed.parent, file=allowed)).fetchall()

    assert sorted(allowed.parent.iterdir()) == before
    assert allowed.read_text() == "a,b\n1,2\n"


def test_python_variables_are_not_tables(locked: duckdb.DuckDBPyConnection) -> None:
    secret_rows = duckdb.sql("SELECT 42 AS answer")

    assert secret_rows is not None
    with pytest.raises(duckdb.Error):
        locked.execute("SELECT * FROM secret_rows").fetchall()


def test_memory_is_limited_and_nothing_spills_to_disk(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.OutOfMemoryException):
        locked.execute("CREATE TABLE big AS SELECT range AS a FROM range(200000000)")


def test_a_long_query_prints_nothing(locked: duckdb.DuckDBPyConnection) -> None:
    assert locked.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]


ENDLESS = Statement(
    'count(*) AS "n"', "AS x, range(9999) a, range(9999) b, range(9999) c WHERE a.range <> b.range + c.range"
)


class NoPathReader:
    """A reader that can only give everything, and at once."""

    def read_all(self) -> bytes:
        return b"a,b\n1,x\n"


class OddPathReader:
    """A reader whose file has a name that a pattern could be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def local_path(self) -> "OddPathReader":
        return self

    async def __aenter__(self) -> Path:
        path = self.folder / "t[ab]*?.csv"
        path.write_text("a,b\n1,x\n")
        (self.folder / "ta_.csv").write_text("a,b\n9,other\n")
        return path

    async def __aexit__(self, *_: object) -> None: ...


@pytest.mark.anyio
async def test_any_reader_lends_a_file(tmp_path: Path) -> None:
    for reader in (BytesReader(b"a,b\n1,x\n"), NoPathReader(), OddPathReader(tmp_path)):
        assert await query_rows(reader, TableSource(format="csv"), Statement()) == [{"a": 1, "b": "x"}]
        assert [column.name for column in await read_columns(reader, TableSource(format="csv"))] == ["a", "b"]


@pytest.mark.anyio
async def test_cancelling_ends_the_engine_and_not_only_the_wait() -> None:
    reader = BytesReader(b"a\n" + b"1\n" * 3000)

    with anyio.fail_after(30):
        with anyio.move_on_after(0.3) as scope:
            await query_rows(reader, TableSource(format="csv"), ENDLESS)
        assert scope.cancelled_caught


@pytest.mark.anyio
async def test_a_question_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.artifacts.backends.duckdb.MAX_SECONDS", 0.2)

    with anyio.fail_after(30), pytest.raises(ArtifactQueryError):
        await query_rows(BytesReader(b"a\n1\n2\n3\n"), TableSource(format="csv"), ENDLESS)


class FileReader:
    """A reader of a file that exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def local_path(self) -> "FileReader":
        return self

    async def __aenter__(self) -> Path:
        return self.path

    async def __aexit__(self, *_: object) -> None: ...


@pytest.mark.anyio
async def test_a_file_larger_than_the_memory_limit_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 1_000_000)
    os.truncate(path, 400 << 20)  # the rest is a hole, which the first rows do not reach
    reader, source = FileReader(path), TableSource(format="csv")

    assert [column.name for column in await read_columns(reader, source)] == ["a", "b"]
    assert await query_rows(reader, source, Statement("*", "LIMIT 1")) == [{"a": 1, "b": "x"}]


QUERY_1_GB = """
import re, sys
from pathlib import Path

import anyio

from spindle import Spool, TableArtifact

ROWS = "".join(f"{number},{number % 7},note {number}\\n" for number in range(100_000)).encode()

def peak_mb():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

def blocks():
    yield b"id,week_day,note\\n"
    for _ in range((1 << 30) // len(ROWS) + 1):
        yield ROWS

async def main():
    table = TableArtifact(await Spool.files(sys.argv[1]).write("table", blocks()))
    before = peak_mb()
    count = (1 << 30) // len(ROWS) * 100_000 + 100_000
    assert [column.name for column in await table.columns()] == ["id", "week_day", "note"]
    assert await table.row_count() == count
    groups = await table.group_counts("week_day")
    assert len(groups) == 7 and sum(group["count"] for group in groups) == count
    assert await table.select(["note"], count - 1) == [{"note": "note 99999"}]
    assert (await table.sort("id", descending=True, limit=1))[0]["id"] == 99_999
    print(peak_mb() - before)

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
def test_a_table_of_1_gb_is_queried_in_bounded_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUERY_1_GB, str(tmp_path / "spool")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 400
