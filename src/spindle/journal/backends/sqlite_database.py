"""The statements of a SQLite journal; everything here runs in the thread that owns the connection."""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from spindle.journal.rows import STARTED_FIELDS, Claim, Outcome, Row, Selection, claimed_again, withdrawn

_COLUMNS = ", ".join(Row._fields)
_STARTED = ", ".join(["run_id", *STARTED_FIELDS])
_PLACES = ", ".join("?" * (len(STARTED_FIELDS) + 1))

_INSERT = f"INSERT INTO calls ({_STARTED}) VALUES ({_PLACES}) ON CONFLICT (idempotency_key) DO NOTHING"  # noqa: S608
_REPLACE = f"INSERT OR REPLACE INTO calls ({_STARTED}) VALUES ({_PLACES})"  # noqa: S608
_FIND = f"SELECT {_COLUMNS} FROM calls WHERE idempotency_key = ?"  # noqa: S608
_FINISH = """
    UPDATE calls
    SET state = 'finished', attempts = attempts - 1 + ?, ended_at = ?, code = ?, error = ?, result = ?,
        result_chars = ?, cost_usd = ?, trusted = ?, artifact_id = ?
    WHERE idempotency_key = ? AND ended_at IS NULL
"""
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

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Keep all that happens in the block, durably, or nothing of it."""
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
        """Start each call that is unknown or may be repeated; give the row of each that was not started."""
        return [self._claim(claim) for claim in claims]

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already; tells which were ever begun."""
        return [self._end(outcome) for outcome in outcomes]

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

    def _claim(self, claim: Claim) -> Row | None:
        if self._connection.execute(_INSERT, self._stored(claim.row)).rowcount == 1:
            return None
        known = self._row(claim.row.idempotency_key)
        if known is None or not claim.repeat:
            return known
        self._connection.execute(_REPLACE, self._stored(claimed_again(claim, known)))
        return None

    def _end(self, outcome: Outcome) -> bool:
        key, *facts = outcome
        if self._connection.execute(_FINISH, _bindable([*facts, key])).rowcount == 1:
            return True
        return self._row(key) is not None

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
