"""Records in a SQLite file: one connection, owned by one thread, durable at each commit."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from anyio import CancelScope

from spindle.errors import JournalError, RecordsError, SpindleError, UsageError
from spindle.journal.backends.lending import Loan
from spindle.journal.backends.shared_writers import borrow
from spindle.journal.backends.sqlite_errors import is_damage
from spindle.journal.backends.writer import Ticket, Writer
from spindle.turns.backends.sqlite_records import Key, RecordsDatabase, Row, open_records
from spindle.turns.record_rows import from_json, to_json
from spindle.turns.records import Kind

Answer = TypeVar("Answer")
_text = json.JSONEncoder().encode


class SqliteStore:
    """Keeps each record as a row of JSON; stores of one path in one process share one thread."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = _checked_path(path)
        closed = f"the records {self._path} are closed; make them again with Records.sqlite(path)"
        self._loan = Loan(partial(_writer_of, self._path), closed=partial(RecordsError, closed))

    async def store(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        """Add a record behind all others."""
        await self._done(RecordsDatabase.store, [Row(_key(kind, record.id, turn_id), await to_json(record))])

    async def replace(self, kind: Kind, record: Any, *, turn_id: str | None) -> None:
        """Put a record in the place of the first that has its id, and remove the others; add it when there is none."""
        await self._done(RecordsDatabase.replace, [Row(_key(kind, record.id, turn_id), await to_json(record))])

    async def delete(self, kind: Kind, id: str, *, turn_id: str | None) -> None:
        """Remove the first record with that id, if there is one."""
        await self._done(RecordsDatabase.delete, [_key(kind, id, turn_id)])

    async def load(self, turn_id: str | None) -> list[tuple[Kind, Any]]:
        """Give the records that were added for a turn, or all for `None`, in order."""
        [rows] = await self._done(RecordsDatabase.load, [None if turn_id is None else _text(turn_id)])
        try:
            return [(cast("Kind", kind), from_json(kind, body)) for kind, body in rows]
        except (SpindleError, LookupError, TypeError, ValueError) as error:
            raise RecordsError(f"the records {self._path} hold something that is no record: {error}") from error

    async def aclose(self) -> None:
        """Let go of the file once all that was asked is written, also for a caller that is being cancelled."""
        writer = self._loan.close()
        if writer is None:
            return
        farewell: Ticket[Any, Any] = Ticket(_nothing, ())
        writer.leave(farewell)
        with CancelScope(shield=True):
            await farewell.done.wait()

    async def _done(self, operation: Callable[[Any, Any], list[Answer]], items: Sequence[Any]) -> list[Answer]:
        ticket: Ticket[Any, Answer] = Ticket(operation, items)
        try:
            self._loan.submit(ticket)
            # Cancelled or not, the caller must know whether it was written: what is kept is shown, and nothing else.
            with CancelScope(shield=True):
                await ticket.done.wait()
        except JournalError as error:  # from the thread, which is the journal's
            raise self._translated(error) from error
        if ticket.error is not None:
            raise self._translated(ticket.error) from ticket.error
        return ticket.answers

    def _translated(self, error: BaseException) -> RecordsError:
        if isinstance(error, RecordsError):
            return RecordsError(str(error))
        if isinstance(error, sqlite3.Error) and is_damage(error):
            return RecordsError(f"the records {self._path} are damaged ({error}); put the file aside and go on without")
        return RecordsError(
            f"the records {self._path} failed: {error}; nothing was changed, and they can still be used"
        )


def _writer_of(path: Path) -> Writer:
    # A name that no journal has: the same file for both is refused when it is opened.
    # The writer asks of a database only what one of records has too.
    return borrow(path.with_name(f"{path.name}#records"), cast("Any", partial(open_records, path)))


def _nothing(_database: object, _items: Sequence[Any]) -> list[Any]:
    return []


def _key(kind: Kind, id: str, turn_id: str | None) -> Key:
    return Key(kind, _text(id), None if turn_id is None else _text(turn_id))


def _checked_path(path: str | PathLike[str]) -> Path:
    given: object = path
    if not isinstance(given, str | Path) or not (text := str(given)) or "\0" in text:
        raise UsageError(f"{path!r} is no path of a file; give a str or a Path", field="path")
    if text == ":memory:":
        raise UsageError("records in memory are made by Records.memory()", field="path")
    return Path(text).resolve()
