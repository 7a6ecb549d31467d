"""A journal in a SQLite file: written by one thread of one process; what will be done is synced before it is done."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar, get_args

from anyio import CancelScope, get_cancelled_exc_class

from spindle.errors import JournalError, UsageError
from spindle.journal.backends.shared_worker import SharedWorkerHandle
from spindle.journal.backends.sqlite_database import Database, translated
from spindle.journal.backends.sqlite_recovery import open_database
from spindle.journal.backends.sqlite_writer import Ticket, Writer, borrow, process_run_id
from spindle.journal.entries import Claim, OnDamage, Outcome, Row, Selection

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class SqliteStore:
    """Keeps rows in a table; stores of one path in one process share one writer."""

    def __init__(self, path: str | PathLike[str], *, on_damage: OnDamage = "raise", run_id: str | None = None) -> None:
        if on_damage not in get_args(OnDamage):
            raise UsageError(f"on_damage is one of {get_args(OnDamage)}, not {on_damage!r}", field="on_damage")
        self._path = _checked_path(path)
        self._loan = SharedWorkerHandle(
            partial(_writer_of, self._path, run_id, on_damage),
            closed=partial(
                JournalError, f"the journal {self._path} is closed; enter it with `async with` to use it again"
            ),
        )

    async def open(self) -> None:
        """Open the file now rather than on first use."""
        self._loan.open()
        await self._answers(self._submitted(Database.find, ()))

    async def aclose(self) -> None:
        """Write what is still waiting and let go of the file, also for a caller that is being cancelled."""
        writer = self._loan.close()
        if writer is None:
            return
        farewell = Ticket(Database.find, (), is_synced=False)
        writer.leave(farewell)
        with CancelScope(shield=True):
            await farewell.done.wait()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated."""
        # A call that may be repeated needs no memory of having begun.
        ticket = self._submitted(Database.begin, claims, is_synced=not all(claim.repeat for claim in claims))
        try:
            return await self._answers(ticket)
        except get_cancelled_exc_class():
            self._abandon(ticket)
            raise

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already."""
        return await self._answers(self._submitted(Database.finish, outcomes))

    async def note(self, rows: Sequence[Row]) -> None:
        """Keep each row, unless one that has run is there."""
        await self._answers(self._submitted(Database.note, rows))

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look each key up."""
        return await self._answers(self._submitted(Database.find, keys))

    async def select(self, selection: Selection) -> list[Row]:
        """Give the rows that are wanted, newest first."""
        return (await self._answers(self._submitted(Database.select, [selection])))[0]

    def _submitted(
        self,
        operation: Callable[[Database, Sequence[Item]], list[Answer]],
        items: Sequence[Item],
        *,
        is_synced: bool = False,
    ) -> Ticket[Item, Answer]:
        ticket = Ticket(operation, items, is_synced=is_synced)
        self._loan.submit(ticket)
        return ticket

    async def _answers(self, ticket: Ticket[Item, Answer]) -> list[Answer]:
        await ticket.done.wait()
        if ticket.error is not None:
            raise translated(ticket.error, self._path)
        return ticket.answers

    def _abandon(self, ticket: Ticket[Claim, Row | None]) -> None:
        """See to it that no call stays begun which nobody is going to run."""
        self._loan.withdraw(ticket, undo=Ticket(_end_unheard, [ticket], is_synced=False))


def _writer_of(path: Path, run_id: str | None, on_damage: OnDamage) -> Writer:
    return borrow(path, partial(open_database, path, run_id or process_run_id(), on_damage))


def _end_unheard(database: Database, tickets: Sequence[Ticket[Claim, Row | None]]) -> list[bool]:
    begun = (
        claim.row.idempotency_key
        for ticket in tickets
        if ticket.error is None
        for claim, standing in zip(ticket.items, ticket.answers, strict=False)
        if standing is None
    )
    return database.abandon(list(begun))


def _checked_path(path: str | PathLike[str]) -> Path:
    given: object = path
    if not isinstance(given, str | Path) or not (text := str(given)) or "\0" in text:
        raise UsageError(f"{path!r} is no path of a file; give a str or a Path", field="path")
    if text == ":memory:":
        raise UsageError("a journal in memory is made by Journal.memory()", field="path")
    return Path(text).resolve()
