"""Record storage in a SQLite file: one connection per process, owned by one thread, durable at each commit."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from anyio import CancelScope

from spindle.addresses import refuse_url
from spindle.capabilities.withheld import OWN_FILES
from spindle.errors import JournalError, RecordsError, SpindleError, UsageError
from spindle.journal.backends.shared_worker import SharedWorkerHandle
from spindle.journal.backends.sqlite_database import LockedDatabase, is_damage
from spindle.journal.backends.sqlite_locks import FileLock
from spindle.journal.backends.sqlite_schema import connect, create, get_version, migrate
from spindle.journal.backends.sqlite_writer import SqliteTicket, SqliteWriter, acquire_writer
from spindle.turns.record_json import from_json, to_json
from spindle.turns.record_list import AnyRecord, Kind

Item = TypeVar("Item")
Answer = TypeVar("Answer")
_text = json.JSONEncoder().encode

APPLICATION_ID = 0x53505243
"""Identifies a file of Spindle records in the SQLite header."""

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
_FIRST = f"SELECT min(seq) FROM records WHERE {_SAME}"  # noqa: S608 - constants only
_UPDATE = "UPDATE records SET body = ? WHERE seq = ?"
_REMOVE = "DELETE FROM records WHERE seq = ?"
_REMOVE_OTHERS = f"DELETE FROM records WHERE {_SAME} AND seq > ?"  # noqa: S608
_SELECT = "SELECT kind, body FROM records WHERE ? IS NULL OR turn_id = ? ORDER BY seq"


class Key(NamedTuple):
    """The key of a record; texts are encoded as JSON, which preserves every character."""

    kind: str
    id: str
    turn_id: str | None


class RecordRow(NamedTuple):
    """A record as it is stored."""

    key: Key
    body: str


class RecordsDatabase(LockedDatabase):
    """One open file of records; each method returns one answer per item, in order."""

    def store(self, rows: Sequence[RecordRow]) -> list[None]:
        """Append rows."""
        return [self._insert(row) for row in rows]

    def replace(self, rows: Sequence[RecordRow]) -> list[None]:
        """Replace the first row with each key and remove the others."""
        return [self._replace(row) for row in rows]

    def delete(self, keys: Sequence[Key]) -> list[None]:
        """Delete the first row with each key."""
        return [self._delete(key) for key in keys]

    def load(self, turn_ids: Sequence[str | None]) -> list[list[tuple[str, str]]]:
        """Return kind and body of each turn's rows, in order."""
        return [self._connection.execute(_SELECT, (turn_id, turn_id)).fetchall() for turn_id in turn_ids]

    def _insert(self, row: RecordRow) -> None:
        self._connection.execute(_INSERT, (*row.key, row.body))

    def _replace(self, row: RecordRow) -> None:
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
    """Open a file of records; create it and its folder if missing.

    Raises:
        RecordsError: The file is not a file of records, or was written by a newer version.
        OSError, sqlite3.Error: The file cannot be opened.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        with lock.hold():
            return RecordsDatabase(_connect(path), lock)
    except BaseException:
        lock.close()
        raise


def _connect(path: Path) -> sqlite3.Connection:
    if not path.exists() or not path.stat().st_size:
        create(path, application_id=APPLICATION_ID, migrations=MIGRATIONS)
    _check_header(path)
    connection = connect(path)
    try:
        _check_version(connection, path)
        migrate(connection, MIGRATIONS)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(b"SQLite format 3\x00") or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise RecordsError(f"The file {path} is not a Spindle records file; use another path.")


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if get_version(connection) > len(MIGRATIONS):
        raise RecordsError(
            f"The records file {path} was written by a newer version of Spindle; upgrade, or use another file."
        )


class SqliteRecordStore:
    """Stores each record as a row of JSON; stores of the same path in one process share one thread."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = _check_path(path)
        OWN_FILES.add_database(path)
        closed = f"The records {self._path} are closed; open them again with Records.sqlite(path)."
        self._worker = SharedWorkerHandle(partial(_get_writer, self._path), closed_error=partial(RecordsError, closed))

    async def store(self, kind: Kind, record: AnyRecord, *, turn_id: str | None) -> None:
        """Append a record."""
        await self._run(RecordsDatabase.store, [RecordRow(_key(kind, record.id, turn_id), await to_json(record))])

    async def replace(self, kind: Kind, record: AnyRecord, *, turn_id: str | None) -> None:
        """Replace the first record with this id and remove the others; append it if there is none."""
        await self._run(RecordsDatabase.replace, [RecordRow(_key(kind, record.id, turn_id), await to_json(record))])

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None) -> None:
        """Delete the first record with this id, if there is one."""
        await self._run(RecordsDatabase.delete, [_key(kind, id, turn_id)])

    async def load(self, turn_id: str | None) -> list[tuple[Kind, AnyRecord]]:
        """Return the records of a turn, or all for `None`, in order."""
        [rows] = await self._run(RecordsDatabase.load, [None if turn_id is None else _text(turn_id)])
        try:
            return [(cast("Kind", kind), from_json(kind, body)) for kind, body in rows]
        except (SpindleError, LookupError, TypeError, ValueError) as error:
            raise RecordsError(f"The records {self._path} contain an invalid record: {error}") from error

    async def aclose(self) -> None:
        """Close the file after all pending writes, also if the caller is being cancelled."""
        writer = self._worker.close()
        if writer is None:
            return
        close_request = SqliteTicket(RecordsDatabase.store, ())
        writer.remove_user(close_request)
        with CancelScope(shield=True):
            await close_request.done.wait()

    async def _run(
        self, operation: Callable[[RecordsDatabase, Sequence[Item]], list[Answer]], items: Sequence[Item]
    ) -> list[Answer]:
        ticket = SqliteTicket(operation, items)
        try:
            self._worker.submit(ticket)
            # Shielded: the caller must know whether the record was written, because only stored records are shown.
            with CancelScope(shield=True):
                await ticket.done.wait()
        except JournalError as error:  # raised by the worker thread, which is shared with the journal
            raise self._translate(error) from error
        if ticket.error is not None:
            raise self._translate(ticket.error) from ticket.error
        return ticket.answers

    def _translate(self, error: BaseException) -> RecordsError:
        if isinstance(error, RecordsError):
            return RecordsError(str(error))
        if isinstance(error, sqlite3.Error) and is_damage(error):
            return RecordsError(
                f"The records {self._path} are damaged ({error}); move the file away and start a new one."
            )
        return RecordsError(
            f"The records {self._path} failed: {error}; nothing was changed, and they can still be used."
        )


def _get_writer(path: Path) -> SqliteWriter[RecordsDatabase]:
    return acquire_writer(path, partial(open_records, path), kind="records")


def _key(kind: Kind, id: str, turn_id: str | None) -> Key:
    return Key(kind, _text(id), None if turn_id is None else _text(turn_id))


def _check_path(path: str | PathLike[str]) -> Path:
    given: object = path
    if not isinstance(given, str | Path) or not (text := str(given)) or "\0" in text:
        raise UsageError(f"Expected a file path (str or Path), got {path!r}.", field="path")
    if text == ":memory:":
        raise UsageError("':memory:' is not supported; use Records.memory().", field="path")
    refuse_url(text)
    return Path(text).resolve()
