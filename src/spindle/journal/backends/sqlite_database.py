"""The schema, statements and error translation of a SQLite journal; all runs in the thread that owns the connection."""

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from spindle.errors import JournalDamagedError, JournalError
from spindle.journal.entries import (
    STARTED_FIELDS,
    Claim,
    Outcome,
    Row,
    Selection,
    build_repeated_row,
    build_withdrawn_outcome,
    can_begin,
)

_COLUMNS = ", ".join(Row._fields)
_STARTED = ", ".join(["run_id", *STARTED_FIELDS])
_PLACES = ", ".join("?" * (len(STARTED_FIELDS) + 1))

_INSERT_NEW = f"INSERT INTO calls ({_STARTED}) VALUES ({_PLACES})"  # noqa: S608
_INSERT = f"{_INSERT_NEW} ON CONFLICT (idempotency_key) DO NOTHING"
_REPLACE = f"INSERT OR REPLACE INTO calls ({_STARTED}) VALUES ({_PLACES})"  # noqa: S608
_FIND = f"SELECT {_COLUMNS} FROM calls WHERE idempotency_key = ?"  # noqa: S608
_FINISH = """
    UPDATE calls
    SET state = 'finished', attempts = attempts - 1 + ?, ended_at = ?, code = ?, error = ?, result = ?,
        result_chars = ?, cost_usd = ?, trusted = ?, artifact_id = ?
    WHERE idempotency_key = ? AND ended_at IS NULL
"""
_DELETE_UNRUN = "DELETE FROM calls WHERE idempotency_key = ? AND ended_at IS NOT NULL AND attempts = 0"
_NOTE = f"""
    INSERT INTO calls (run_id, {_COLUMNS}) VALUES ({", ".join("?" * (len(Row._fields) + 1))})
    ON CONFLICT (idempotency_key) DO NOTHING
"""  # noqa: S608
_INTERRUPT = "UPDATE calls SET state = 'interrupted' WHERE ended_at IS NULL AND state = 'started' AND run_id <> ?"


def mark_interrupted(connection: sqlite3.Connection, run_id: str) -> None:
    """Mark each unfinished call of another run as interrupted; the process lock proves that those runs are gone."""
    connection.execute(_INTERRUPT, (run_id,))


class Database:
    """An open journal database; methods return one answer per item, in order."""

    def __init__(self, connection: sqlite3.Connection, *, run_id: str, on_close: Callable[[], None]) -> None:
        self._connection = connection
        self._run_id = run_id
        self._on_close = on_close
        self._is_synced = True

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Generator[None]:
        """Run the block in a transaction that survives a killed process and, if synced, power loss."""
        if is_synced != self._is_synced:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite rolls back by itself after some failures, such as a full disk.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated; return the known row of the others."""
        if len(claims) > 1 and self._try_start_all(claims):
            return [None] * len(claims)
        return [self._claim(claim) for claim in claims]

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already; return whether each was ever begun."""
        rows = [_to_bindable([*facts, key]) for key, *facts in outcomes]
        if self._connection.executemany(_FINISH, rows).rowcount == len(rows):
            return [True] * len(rows)
        return [self._row(outcome.idempotency_key) is not None for outcome in outcomes]

    def note(self, rows: Sequence[Row]) -> list[None]:
        """Store each row, replacing one that has never run; a row that has run, or may have, is not changed."""
        for row in rows:
            self._connection.execute(_DELETE_UNRUN, _to_bindable([row.idempotency_key]))
            self._connection.execute(_NOTE, _to_bindable([self._run_id, *row]))
        return [None] * len(rows)

    def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        return [self._row(key) for key in keys]

    def select(self, selections: Sequence[Selection]) -> list[list[Row]]:
        """Return the matching rows of each selection, newest first."""
        return [self._select(selection) for selection in selections]

    def abandon(self, keys: Sequence[str]) -> list[bool]:
        """End calls whose callers were cancelled before running them."""
        return self.finish([build_withdrawn_outcome(key) for key in keys])

    def close(self) -> None:
        """Close the file and release the process lock."""
        try:
            self._connection.close()
        finally:
            self._on_close()

    def _try_start_all(self, claims: Sequence[Claim]) -> bool:
        """Start all calls with one statement, the common case; start none and return False if a key is known."""
        self._connection.execute("SAVEPOINT claims")
        try:
            self._connection.executemany(_INSERT_NEW, [self._stored(claim.row) for claim in claims])
            are_new = True
        except sqlite3.IntegrityError:
            self._connection.execute("ROLLBACK TO claims")
            are_new = False
        self._connection.execute("RELEASE claims")
        return are_new

    def _claim(self, claim: Claim) -> Row | None:
        if self._connection.execute(_INSERT, self._stored(claim.row)).rowcount == 1:
            return None
        known = self._row(claim.row.idempotency_key)
        if known is None or not can_begin(claim, known):
            return known
        self._connection.execute(_REPLACE, self._stored(build_repeated_row(claim, known)))
        return None

    def _row(self, key: str) -> Row | None:
        found = self._connection.execute(_FIND, _to_bindable([key])).fetchone()
        return None if found is None else _to_row(found)

    def _select(self, selection: Selection) -> list[Row]:
        terms: list[str] = []
        values: list[Any] = []
        if selection.state is not None:
            terms.append("state = ?" if selection.state == "finished" else "ended_at IS NULL AND state = ?")
            values.append(selection.state)
        if selection.tool_call_id is not None:
            terms.append("tool_call_id = ?")
            values.append(selection.tool_call_id)
        where = f"WHERE {' AND '.join(terms)}" if terms else ""
        query = f"SELECT {_COLUMNS} FROM calls {where} ORDER BY seq DESC LIMIT ?"  # noqa: S608 - constant text only
        limit = -1 if selection.limit is None else selection.limit
        return [_to_row(found) for found in self._connection.execute(query, _to_bindable([*values, limit]))]

    def _stored(self, row: Row) -> list[Any]:
        return _to_bindable([self._run_id, *row[: len(STARTED_FIELDS)]])


def _to_bindable(values: Iterable[Any]) -> list[Any]:
    """Convert values to types that SQLite accepts; text with lone surrogates is stored as bytes."""
    return [_text(value) if isinstance(value, str) and not value.isascii() else value for value in values]


def _text(value: str) -> str | bytes:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def _to_row(values: Iterable[Any]) -> Row:
    return Row._make(value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value for value in values)


APPLICATION_ID = 0x53504A4C
"""Identifies a Spindle journal in the header of a SQLite file."""

BUSY_SECONDS = 5.0
"""How long to wait for other programs that have locked the file."""

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE calls (
            seq INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL,
            idempotency_key TEXT NOT NULL UNIQUE,
            tool_call_id TEXT NOT NULL,
            tool TEXT NOT NULL,
            checksum TEXT NOT NULL,
            state TEXT NOT NULL,
            session_id TEXT,
            turn_id TEXT,
            fingerprint TEXT,
            args TEXT NOT NULL,
            started_at INTEGER NOT NULL,
            attempts INTEGER NOT NULL,
            ended_at INTEGER,
            code TEXT,
            error TEXT,
            result TEXT,
            result_chars INTEGER,
            cost_usd REAL,
            trusted INTEGER,
            artifact_id TEXT
        )
        """,
        "CREATE INDEX calls_unfinished ON calls (seq) WHERE ended_at IS NULL",
        "CREATE INDEX calls_by_tool_call_id ON calls (tool_call_id)",
    ),
)
"""The statements of each migration; a file's version is the number of migrations applied."""

_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a commit survives power loss, unless a transaction lowers this
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA cache_size = -16000",
    "PRAGMA journal_size_limit = 16777216",
)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection in autocommit mode, for use in the calling thread only."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def get_version(connection: sqlite3.Connection) -> int:
    """Return the number of migrations applied to the file."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Migrate the file to the newest version, each step atomically."""
    for number in range(get_version(connection), len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in migrations[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def create(path: Path) -> None:
    """Create an empty journal that only its owner may read; it gets its name when it is complete."""
    draft = path.with_name(f"{path.name}.new")
    for leftover in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{draft.name}{leftover}").unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with closing(connect(draft)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(connection)
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, so that they survive power loss."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and try again",
    sqlite3.SQLITE_IOERR: "disk I/O failed: check the disk and its free space",
    sqlite3.SQLITE_READONLY: "the file is read-only: check the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "access is denied: check the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: check that its folder exists and belongs to this user",
    sqlite3.SQLITE_BUSY: "the file is locked: close other programs that have it open and try again",
}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def primary_code(error: BaseException) -> int | None:
    """Return SQLite's primary error code, without the extended part."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def is_damage(error: BaseException) -> bool:
    """Return whether an error means that the file is damaged."""
    return primary_code(error) in _DAMAGE


def translate_error(error: BaseException, path: Path) -> JournalError:
    """Convert an error to a new `JournalError`; every caller gets its own, because raising adds a traceback."""
    if isinstance(error, JournalError):
        again = copy(error)
        again.__cause__ = error.__cause__
        return again
    if is_damage(error):
        new = JournalDamagedError(
            f"The journal {path} is damaged ({error}); close and reopen it to check the file",
            path=str(path),
        )
    else:
        advice = _ADVICE.get(primary_code(error) or -1, "nothing was written; the journal can still be used")
        new = JournalError(f"The journal {path} failed: {error}; {advice}")
    new.__cause__ = error
    return new
