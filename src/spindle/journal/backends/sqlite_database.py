"""The statements of a SQLite journal; everything here runs in the thread that owns the connection."""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from spindle.journal.rows import STARTED_FIELDS, Claim, Outcome, Row, Selection, claimed_again, may_begin, withdrawn

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
_FORGET_UNRUN = "DELETE FROM calls WHERE idempotency_key = ? AND ended_at IS NOT NULL AND attempts = 0"
_NOTE = f"""
    INSERT INTO calls (run_id, {_COLUMNS}) VALUES ({", ".join("?" * (len(Row._fields) + 1))})
    ON CONFLICT (idempotency_key) DO NOTHING
"""  # noqa: S608
_INTERRUPT = "UPDATE calls SET state = 'interrupted' WHERE ended_at IS NULL AND state = 'started' AND run_id <> ?"


def mark_interrupted(connection: sqlite3.Connection, run_id: str) -> None:
    """Say so of each call that another run began and did not end; whoever opens the file knows that it is gone."""
    connection.execute(_INTERRUPT, (run_id,))


class Database:
    """One open journal; answers come one for each item, in their order."""

    def __init__(self, connection: sqlite3.Connection, *, run_id: str, on_close: Callable[[], None]) -> None:
        self._connection = connection
        self._run_id = run_id
        self._on_close = on_close
        self._is_synced = True

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Generator[None]:
        """Keep all of the block or nothing of it, from a killed process; if synced, from lost power too."""
        if is_synced != self._is_synced:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some failures, a full disk among them.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated; give the row of each other one."""
        if len(claims) > 1 and self._are_all_new(claims):
            return [None] * len(claims)
        return [self._claim(claim) for claim in claims]

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already; tells which were ever begun."""
        rows = [_bindable([*facts, key]) for key, *facts in outcomes]
        if self._connection.executemany(_FINISH, rows).rowcount == len(rows):
            return [True] * len(rows)
        return [self._row(outcome.idempotency_key) is not None for outcome in outcomes]

    def note(self, rows: Sequence[Row]) -> list[None]:
        """Keep each row, in the place of one that has never run; one that has, or may have, stays."""
        for row in rows:
            self._connection.execute(_FORGET_UNRUN, _bindable([row.idempotency_key]))
            self._connection.execute(_NOTE, _bindable([self._run_id, *row]))
        return [None] * len(rows)

    def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look each key up."""
        return [self._row(key) for key in keys]

    def select(self, selections: Sequence[Selection]) -> list[list[Row]]:
        """Give the rows that each selection wants, newest first."""
        return [self._select(selection) for selection in selections]

    def abandon(self, keys: Sequence[str]) -> list[bool]:
        """End calls whose callers were cancelled before they could run them."""
        return self.finish([withdrawn(key) for key in keys])

    def close(self) -> None:
        """Close the file and let other processes in."""
        try:
            self._connection.close()
        finally:
            self._on_close()

    def _are_all_new(self, claims: Sequence[Claim]) -> bool:
        """Start all of them, which is the common case, by one statement; nothing is started if a key is known."""
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
        if known is None or not may_begin(claim, known):
            return known
        self._connection.execute(_REPLACE, self._stored(claimed_again(claim, known)))
        return None

    def _row(self, key: str) -> Row | None:
        found = self._connection.execute(_FIND, _bindable([key])).fetchone()
        return None if found is None else _loaded(found)

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
        query = f"SELECT {_COLUMNS} FROM calls {where} ORDER BY seq DESC LIMIT ?"  # noqa: S608 - our own words only
        limit = -1 if selection.limit is None else selection.limit
        return [_loaded(found) for found in self._connection.execute(query, _bindable([*values, limit]))]

    def _stored(self, row: Row) -> list[Any]:
        return _bindable([self._run_id, *row[: len(STARTED_FIELDS)]])


def _bindable(values: Iterable[Any]) -> list[Any]:
    """Values that SQLite takes; text that is no Unicode (a lone surrogate) is kept as bytes."""
    return [_text(value) if isinstance(value, str) and not value.isascii() else value for value in values]


def _text(value: str) -> str | bytes:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def _loaded(values: Iterable[Any]) -> Row:
    return Row._make(value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value for value in values)
