"""The table of records in a SQLite file; everything here runs in the thread that owns the connection."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from spindle.errors import RecordsError
from spindle.journal.backends.sqlite_database import Database
from spindle.journal.backends.sqlite_schema import connect, migrate, sync, version_of

APPLICATION_ID = 0x53505243
"""Marks a file as records of ours, in the file's header."""

MIGRATIONS = (
    (
        """
        CREATE TABLE records (
            seq INTEGER PRIMARY KEY,
            turn_id TEXT,
            kind TEXT NOT NULL,
            id TEXT NOT NULL,
            body TEXT NOT NULL
        )
        """,
        "CREATE INDEX records_by_id ON records (kind, id)",
        "CREATE INDEX records_by_turn ON records (turn_id, seq)",
    ),
)

_HEADER_BYTES = 100
_SAME = "kind = ? AND id = ? AND (kind <> 'tool_call' OR turn_id IS ?)"
_INSERT = "INSERT INTO records (kind, id, turn_id, body) VALUES (?, ?, ?, ?)"
_FIRST = f"SELECT min(seq) FROM records WHERE {_SAME}"  # noqa: S608 - our own words only
_UPDATE = "UPDATE records SET body = ? WHERE seq = ?"
_REMOVE = "DELETE FROM records WHERE seq = ?"
_REMOVE_OTHERS = f"DELETE FROM records WHERE {_SAME} AND seq > ?"  # noqa: S608
_SELECT = "SELECT kind, body FROM records WHERE ? IS NULL OR turn_id = ? ORDER BY seq"


class Key(NamedTuple):
    """What a record is found by; texts are written as JSON, which keeps any character."""

    kind: str
    id: str
    turn_id: str | None


class Row(NamedTuple):
    """A record as it is kept."""

    key: Key
    body: str


class RecordsDatabase:
    """One open file of records; answers come one for each item, in their order."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._base = Database(connection, run_id="", on_close=lambda: None)

    def transaction(self, *, is_synced: bool = True) -> AbstractContextManager[None]:
        """Keep all that happens in the block, durably, or nothing of it."""
        return self._base.transaction(is_synced=is_synced)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def store(self, rows: Sequence[Row]) -> list[None]:
        """Add rows behind all others."""
        return [self._insert(row) for row in rows]

    def replace(self, rows: Sequence[Row]) -> list[None]:
        """Put each row in the place of the first with its key, and remove the others."""
        return [self._replace(row) for row in rows]

    def delete(self, keys: Sequence[Key]) -> list[None]:
        """Remove the first row with each key."""
        return [self._delete(key) for key in keys]

    def load(self, turn_ids: Sequence[str | None]) -> list[list[tuple[str, str]]]:
        """Give kind and body of each turn's rows, in order."""
        return [self._connection.execute(_SELECT, (turn_id, turn_id)).fetchall() for turn_id in turn_ids]

    def _insert(self, row: Row) -> None:
        self._connection.execute(_INSERT, (*row.key, row.body))

    def _replace(self, row: Row) -> None:
        first = self._first(row.key)
        if first is None:
            self._insert(row)
            return
        self._connection.execute(_UPDATE, (row.body, first))
        self._connection.execute(_REMOVE_OTHERS, (*row.key, first))

    def _delete(self, key: Key) -> None:
        self._connection.execute(_REMOVE, (self._first(key),))

    def _first(self, key: Key) -> int | None:
        return self._connection.execute(_FIRST, key).fetchone()[0]


def open_records(path: Path) -> RecordsDatabase:
    """Open a file of records; it is made, with its folder, when it is not there.

    Raises:
        RecordsError: The file is something else, or was written by a newer version.
        OSError, sqlite3.Error: The place cannot be used.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists() or not path.stat().st_size:
        _create(path)
    _check_header(path)
    connection = connect(path)
    try:
        _check_version(connection, path)
        migrate(connection, MIGRATIONS)
    except BaseException:
        connection.close()
        raise
    return RecordsDatabase(connection)


def _create(path: Path) -> None:
    """Make an empty file that only its owner may read; it appears under its name when it is whole."""
    draft = path.with_name(f"{path.name}.{uuid4().hex}.new")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with closing(connect(draft)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            migrate(connection, MIGRATIONS)
        sync(draft)
        if path.exists() and not path.stat().st_size:
            draft.replace(path)
        else:
            with suppress(FileExistsError):  # another process was quicker
                os.link(draft, path)
        sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(b"SQLite format 3\x00") or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise RecordsError(f"the file {path} holds something else than records; give another path")


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if version_of(connection) > len(MIGRATIONS):
        raise RecordsError(f"the records {path} were written by a newer Spindle; use that one, or another file")
