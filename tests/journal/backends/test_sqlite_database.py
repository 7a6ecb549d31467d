"""Creation and migration of a SQLite file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spindle.journal.backends.sqlite_schema import APPLICATION_ID, MIGRATIONS, connect, create, get_version, migrate

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


def test_calls_of_a_session_are_found_by_an_index_in_their_order(path: Path) -> None:
    with closing(connect(path)) as connection:
        query = "EXPLAIN QUERY PLAN SELECT * FROM calls WHERE session_id = ? ORDER BY seq DESC LIMIT ?"
        [(*_, plan)] = connection.execute(query, ("s", 10)).fetchall()

    assert "calls_by_session" in plan  # and no second step that sorts


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
