"""The schema, statements and error translation of a SQLite journal; all runs in the thread that owns the connection.

An unfinished call of another run is checked when it is read: a run whose lease is free has ended, and its calls are
marked as interrupted.
"""

import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any

from spindle.errors import JournalDamagedError, JournalError, JournalLockedError
from spindle.journal.backends.sqlite_locks import FileLock, RunLease
from spindle.journal.entries import (
    STARTED_FIELDS,
    Claim,
    FinishResult,
    Outcome,
    Row,
    Selection,
    SqlValue,
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
_FIND = f"SELECT run_id, {_COLUMNS} FROM calls WHERE idempotency_key = ?"  # noqa: S608
_FINISH = """
    UPDATE calls
    SET state = 'finished', attempts = attempts - 1 + ?, ended_at = ?, code = ?, error = ?, result = ?,
        result_chars = ?, cost_usd = ?, trusted = ?, artifact_id = ?
    WHERE idempotency_key = ? AND ended_at IS NULL AND (run_id = ? OR state = 'interrupted')
"""
_DELETE_UNRUN = "DELETE FROM calls WHERE idempotency_key = ? AND ended_at IS NOT NULL AND attempts = 0"
_NOTE = f"""
    INSERT INTO calls (run_id, {_COLUMNS}) VALUES ({", ".join("?" * (len(Row._fields) + 1))})
    ON CONFLICT (idempotency_key) DO NOTHING
"""  # noqa: S608
_STARTED_RUNS = "SELECT DISTINCT run_id FROM calls WHERE ended_at IS NULL AND state = 'started'"
_HAS_STARTED = "SELECT EXISTS (SELECT 1 FROM calls WHERE ended_at IS NULL AND state = 'started' AND run_id = ?)"
_INTERRUPT_CALL = """
    UPDATE calls SET state = 'interrupted'
    WHERE idempotency_key = ? AND ended_at IS NULL AND state = 'started' AND run_id = ?
"""
_INTERRUPT = "UPDATE calls SET state = 'interrupted' WHERE ended_at IS NULL AND state = 'started' AND run_id = ?"


class LockedDatabase:
    """An open database whose transactions and close hold the file's lock."""

    def __init__(self, connection: sqlite3.Connection, lock: FileLock) -> None:
        self._connection = connection
        self._lock = lock
        self._is_synced = True

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Generator[None]:
        """Run the block in a transaction that survives a killed process and, if synced, power loss."""
        with self._lock.hold():
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

    def close(self) -> None:
        """Close the file; the last of all processes also writes the log back to the database."""
        try:
            # A process that does not release the lock has the file open too, so this is not the last close.
            with suppress(JournalLockedError):
                self._lock.acquire()
            self._release()
        finally:
            self._connection.close()
            self._lock.close()

    def _release(self) -> None:
        """Release what else belongs to the file, before it is closed."""


class Database(LockedDatabase):
    """An open journal database; methods return one answer per item, in order."""

    def __init__(self, connection: sqlite3.Connection, lock: FileLock, lease: RunLease) -> None:
        super().__init__(connection, lock)
        self._lease = lease

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for operations on other tables of the file."""
        return self._connection

    def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated; return the known row of the others."""
        if len(claims) > 1 and self._try_start_all(claims):
            return [None] * len(claims)
        return [self._claim(claim) for claim in claims]

    def finish(self, outcomes: Sequence[Outcome]) -> list[FinishResult]:
        """End each call unless it has ended already or another process is running it."""
        rows: list[list[SqlValue]] = [[*facts, key, self._lease.run_id] for key, *facts in outcomes]
        try:
            if self._connection.executemany(_FINISH, rows).rowcount == len(rows):
                return ["ended"] * len(rows)
        except UnicodeEncodeError:
            rows = list(map(to_bindable, rows))  # what was ended before the failure is found as ended
        return [self._end(outcome.idempotency_key, row) for outcome, row in zip(outcomes, rows, strict=True)]

    def note(self, rows: Sequence[Row]) -> list[None]:
        """Store each row, replacing one that has never run; a row that has run, or may have, is not changed."""
        for row in rows:
            self._connection.execute(_DELETE_UNRUN, to_bindable([row.idempotency_key]))
            self._connection.execute(_NOTE, to_bindable([self._lease.run_id, *row]))
        return [None] * len(rows)

    def interrupt(self, keys: Sequence[str]) -> list[None]:
        """Mark those calls of this run as interrupted that have no outcome."""
        self._connection.executemany(_INTERRUPT_CALL, [to_bindable([key, self._lease.run_id]) for key in keys])
        return [None] * len(keys)

    def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        return [self._row(key) for key in keys]

    def select(self, selections: Sequence[Selection]) -> list[list[Row]]:
        """Return the matching rows of each selection, newest first."""
        self.recover()
        return [self._select(selection) for selection in selections]

    def abandon(self, keys: Sequence[str]) -> list[FinishResult]:
        """End calls whose callers were cancelled before running them."""
        return self.finish([build_withdrawn_outcome(key) for key in keys])

    def recover(self) -> None:
        """Mark the unfinished calls of all runs that have ended as interrupted."""
        self._mark_ended_runs([run_id for (run_id,) in self._connection.execute(_STARTED_RUNS).fetchall()])

    def _release(self) -> None:
        # Unfinished calls are still running while this process lives, although it has closed its journal.
        [has_calls] = self._connection.execute(_HAS_STARTED, (self._lease.run_id,)).fetchone()
        if not has_calls:
            self._lease.release()

    def _try_start_all(self, claims: Sequence[Claim]) -> bool:
        """Start all calls with one statement, the common case; if one needs more than that, start none."""
        self._connection.execute("SAVEPOINT claims")
        try:
            run_id, count = self._lease.run_id, len(STARTED_FIELDS)
            self._connection.executemany(_INSERT_NEW, [(run_id, *claim.row[:count]) for claim in claims])
            are_new = True
        except (sqlite3.IntegrityError, UnicodeEncodeError):  # a known key, or text that is stored as bytes
            self._connection.execute("ROLLBACK TO claims")
            are_new = False
        self._connection.execute("RELEASE claims")
        return are_new

    def _claim(self, claim: Claim) -> Row | None:
        if self._connection.execute(_INSERT, self._to_row_values(claim.row)).rowcount == 1:
            return None
        known = self._row(claim.row.idempotency_key)
        if known is None or not can_begin(claim, known):
            return known
        self._connection.execute(_REPLACE, self._to_row_values(build_repeated_row(claim, known)))
        return None

    def _row(self, key: str) -> Row | None:
        found = self._connection.execute(_FIND, to_bindable([key])).fetchone()
        if found is None:
            return None
        run_id, *values = found
        row = _to_row(values)
        return row._replace(state="interrupted") if row.state == "started" and self._mark_ended_runs([run_id]) else row

    def _end(self, key: str, values: Sequence[SqlValue]) -> FinishResult:
        known = self._row(key)
        if known is None:
            return "unknown"
        is_over = known.ended_at is not None or self._connection.execute(_FINISH, values).rowcount == 1
        return "ended" if is_over else "elsewhere"

    def _mark_ended_runs(self, run_ids: Iterable[str]) -> bool:
        """Mark the unfinished calls of those runs that have ended as interrupted; return whether there were any."""
        ended = [run_id for run_id in run_ids if self._lease.has_ended(run_id)]
        self._connection.executemany(_INTERRUPT, [(run_id,) for run_id in ended])
        return bool(ended)

    def _select(self, selection: Selection) -> list[Row]:
        terms: list[str] = []
        values: list[SqlValue] = []
        if selection.state is not None:
            terms.append("state = ?" if selection.state == "finished" else "ended_at IS NULL AND state = ?")
            values.append(selection.state)
        if selection.tool_call_id is not None:
            terms.append("tool_call_id = ?")
            values.append(selection.tool_call_id)
        if selection.session_id is not None:
            terms.append("session_id = ?")
            values.append(selection.session_id)
        where = f"WHERE {' AND '.join(terms)}" if terms else ""
        query = f"SELECT {_COLUMNS} FROM calls {where} ORDER BY seq DESC LIMIT ?"  # noqa: S608 - constant text only
        limit = -1 if selection.limit is None else selection.limit
        return [_to_row(found) for found in self._connection.execute(query, to_bindable([*values, limit]))]

    def _to_row_values(self, row: Row) -> list[SqlValue]:
        return to_bindable([self._lease.run_id, *row[: len(STARTED_FIELDS)]])


def to_bindable(values: Iterable[SqlValue]) -> list[SqlValue]:
    """Convert values to types that SQLite accepts; text with lone surrogates is stored as bytes."""
    return [store_text(value) if isinstance(value, str) and not value.isascii() else value for value in values]


def store_text(value: str) -> str | bytes:
    """Return a text as SQLite accepts it: with lone surrogates as bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def _to_row(values: Iterable[Any]) -> Row:
    return Row._make(value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value for value in values)


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
