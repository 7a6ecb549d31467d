"""A journal in a SQLite file, written by one thread of one process; intents are synced to disk before calls run."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar, get_args

from anyio import CancelScope, get_cancelled_exc_class

from spindle.errors import JournalError, UsageError
from spindle.journal.backends.shared_worker import SharedWorkerHandle
from spindle.journal.backends.sqlite_database import Database, translate_error
from spindle.journal.backends.sqlite_recovery import open_database
from spindle.journal.backends.sqlite_writer import SqliteTicket, SqliteWriter, acquire_writer, process_run_id
from spindle.journal.entries import Claim, OnDamage, Outcome, Row, Selection

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class SqliteJournalStore:
    """A journal store in a SQLite table; stores of one path in one process share one writer."""

    def __init__(self, path: str | PathLike[str], *, on_damage: OnDamage = "raise", run_id: str | None = None) -> None:
        if on_damage not in get_args(OnDamage):
            raise UsageError(
                f"Expected on_damage to be one of {get_args(OnDamage)}, got {on_damage!r}", field="on_damage"
            )
        self._path = _validate_path(path)
        self._worker_handle = SharedWorkerHandle(
            partial(_acquire_writer, self._path, run_id, on_damage),
            closed_error=partial(
                JournalError, f"The journal {self._path} is closed; enter it with `async with` to reopen it"
            ),
        )

    async def open(self) -> None:
        """Open the file now instead of on first use."""
        self._worker_handle.open()
        await self._wait_for_answers(self._submit(Database.find, ()))

    async def aclose(self) -> None:
        """Write pending operations and release the file, even if the caller is being cancelled."""
        writer = self._worker_handle.close()
        if writer is None:
            return
        farewell = SqliteTicket(Database.find, (), is_synced=False)
        writer.remove_user(farewell)
        with CancelScope(shield=True):
            await farewell.done.wait()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated."""
        # The intent of a call that may be repeated need not survive power loss.
        ticket = self._submit(Database.begin, claims, is_synced=not all(claim.repeat for claim in claims))
        try:
            return await self._wait_for_answers(ticket)
        except get_cancelled_exc_class():
            self._abandon(ticket)
            raise

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already."""
        return await self._wait_for_answers(self._submit(Database.finish, outcomes))

    async def note(self, rows: Sequence[Row]) -> None:
        """Store each row, unless its call has run."""
        await self._wait_for_answers(self._submit(Database.note, rows))

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        return await self._wait_for_answers(self._submit(Database.find, keys))

    async def select(self, selection: Selection) -> list[Row]:
        """Return the matching rows, newest first."""
        return (await self._wait_for_answers(self._submit(Database.select, [selection])))[0]

    def _submit(
        self,
        operation: Callable[[Database, Sequence[Item]], list[Answer]],
        items: Sequence[Item],
        *,
        is_synced: bool = False,
    ) -> SqliteTicket[Item, Answer]:
        ticket = SqliteTicket(operation, items, is_synced=is_synced)
        self._worker_handle.submit(ticket)
        return ticket

    async def _wait_for_answers(self, ticket: SqliteTicket[Item, Answer]) -> list[Answer]:
        await ticket.done.wait()
        if ticket.error is not None:
            raise translate_error(ticket.error, self._path)
        return ticket.answers

    def _abandon(self, ticket: SqliteTicket[Claim, Row | None]) -> None:
        """End the calls of a cancelled `begin`, so that none stays started without being run."""
        self._worker_handle.withdraw(ticket, undo=SqliteTicket(_end_abandoned, [ticket], is_synced=False))


def _acquire_writer(path: Path, run_id: str | None, on_damage: OnDamage) -> SqliteWriter:
    return acquire_writer(path, partial(open_database, path, run_id or process_run_id(), on_damage))


def _end_abandoned(database: Database, tickets: Sequence[SqliteTicket[Claim, Row | None]]) -> list[bool]:
    begun = (
        claim.row.idempotency_key
        for ticket in tickets
        if ticket.error is None
        for claim, standing in zip(ticket.items, ticket.answers, strict=False)
        if standing is None
    )
    return database.abandon(list(begun))


def _validate_path(path: str | PathLike[str]) -> Path:
    given: object = path
    if not isinstance(given, str | Path) or not (text := str(given)) or "\0" in text:
        raise UsageError(f"Expected a file path (str or Path), got {path!r}", field="path")
    if text == ":memory:":
        raise UsageError("Use Journal.memory() for a journal in memory", field="path")
    return Path(text).resolve()
