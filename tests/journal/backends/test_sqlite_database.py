"""Creation and migration of a SQLite file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spindle.journal import CallQuery, Journal, Scan
from spindle.journal.backends.search_sql import SearchSql
from spindle.journal.backends.sqlite_schema import APPLICATION_ID, MIGRATIONS, connect, create, get_version, migrate
from spindle.journal.backends.sqlite_search import DIALECT
from tests.journal.sample_calls import intent

STEPS = [
    *MIGRATIONS,
    ["ALTER TABLE calls ADD COLUMN colour TEXT"],
    ["CREATE TABLE notes (text)", "CREATE INDEX n ON notes (text)"],
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "journal.db"
    create(place)
    return place


def test_new_file_has_the_application_id_and_the_newest_version(path: Path) -> None:
    with closing(connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert get_version(connection) == len(MIGRATIONS)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_facts_of_a_call_are_stored_before_its_large_texts(path: Path) -> None:
    with closing(connect(path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(calls)")]

    large = {"args", "error", "result", "caller"}
    assert set(columns[-len(large) :]) == large
    assert columns.index("args") < columns.index("result")  # its beginning is part of a summary


@pytest.mark.anyio
async def test_file_with_the_earlier_order_of_columns_is_used(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    table = MIGRATIONS[0][0].replace("args TEXT NOT NULL,", "")
    earlier = table.replace("started_at INTEGER", "args TEXT NOT NULL, started_at INTEGER")
    assert earlier.count("args TEXT NOT NULL") == 1
    create(place, migrations=[[earlier, *MIGRATIONS[0][1:]], *MIGRATIONS[1:]])

    async with Journal.sqlite(place) as journal:
        await journal.begin([intent("c1", args={"q": 1})])
        [found] = (await journal.search(limit=5)).calls
    assert (found.tool_call_id, found.args_preview, found.state) == ("c1", '{"q":1}', "started")


def test_calls_of_a_session_are_found_by_an_index_in_their_order(path: Path) -> None:
    with closing(connect(path)) as connection:
        query = "EXPLAIN QUERY PLAN SELECT * FROM calls WHERE session_id = ? ORDER BY seq DESC LIMIT ?"
        [(*_, plan)] = connection.execute(query, ("s", 10)).fetchall()

    assert "calls_by_session" in plan  # and no second step that sorts


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (CallQuery(session_id="s", tool="t"), "calls_by_session"),
        (CallQuery(turn_id="t", text="x"), "calls_by_turn"),
        (CallQuery(state="started"), "calls_unfinished"),
        (CallQuery(code="timeout", tool="t"), "calls_failed"),
        (CallQuery(outcome="error"), "calls_failed"),
        (CallQuery(tool="t", text="x"), "PRIMARY KEY"),
    ],
)
@pytest.mark.parametrize("is_forward", [False, True])
def test_searches_read_rows_in_index_order(path: Path, query: CallQuery, index: str, is_forward: bool) -> None:
    sql = SearchSql(DIALECT, Scan(query=query, position=9, is_forward=is_forward, limit=5))
    with closing(connect(path)) as connection:
        for statement in (sql.find_window(9, 200), sql.read_window(9, 4, 5)):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.values).fetchall()
            steps = [step for *_, step in plan]
            assert any(index in step for step in steps)
            assert not any("TEMP B-TREE" in step for step in steps)


@pytest.mark.parametrize("is_forward", [False, True])
def test_window_is_read_without_the_rows_beyond_it(path: Path, is_forward: bool) -> None:
    sql = SearchSql(DIALECT, Scan(query=CallQuery(text="x"), position=None, is_forward=is_forward, limit=5))
    row = "run_id, idempotency_key, tool_call_id, tool, checksum, state, args, started_at, attempts"
    steps = 0

    def count_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(connect(path)) as connection:
        connection.execute("BEGIN")
        keys = [(str(number),) for number in range(2_000)]
        connection.executemany(f"INSERT INTO calls ({row}) VALUES ('r', ?, 'i', 't', 'c', 's', '{{}}', 1, 1)", keys)
        connection.execute("COMMIT")
        connection.set_progress_handler(count_step, 10)
        counts: list[int] = []
        for window in ((101, 90), (1_101, 1_090), (1_991, 1_980)):
            position, edge = window[::-1] if is_forward else window
            statement = sql.read_window(position, edge, 5)
            connection.execute(statement.sql, statement.values).fetchall()
            counts.append(steps)
            steps = 0

    assert max(counts) < 2 * min(counts)


def test_migrations_that_were_applied_are_skipped(path: Path) -> None:
    with closing(connect(path)) as connection:
        migrate(connection, STEPS)
        migrate(connection, STEPS)

        assert get_version(connection) == len(STEPS)
        assert connection.execute("SELECT count(colour) FROM calls").fetchone() == (0,)


def test_failed_migration_leaves_the_version_before_it(path: Path) -> None:
    broken = [*STEPS[:-1], ["CREATE TABLE notes (text)", "CREATE TABLE notes (text)"]]
    with closing(connect(path)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, broken)

        assert get_version(connection) == len(STEPS) - 1
        assert not connection.in_transaction
        migrate(connection, STEPS)
        assert get_version(connection) == len(STEPS)


def test_draft_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"journal.db.new{suffix}").write_bytes(b"left behind")
    create(path)

    with closing(connect(path)) as connection:
        assert get_version(connection) == len(MIGRATIONS)
    assert [near.name for near in tmp_path.iterdir()] == ["journal.db"]
