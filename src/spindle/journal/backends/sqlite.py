"""A journal in a SQLite file, written by one thread of each process; intents are synced to disk before calls run."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from anyio import CancelScope, get_cancelled_exc_class

from spindle.addresses import refuse_url
from spindle.capabilities.withheld import OWN_FILES
from spindle.errors import JournalError, UsageError
from spindle.journal import backends
from spindle.journal.backends.shared_worker import Answer, Item, SharedWorkerHandle
from spindle.journal.backends.sqlite_database import Database, translate_error
from spindle.journal.backends.sqlite_recovery import open_database
from spindle.journal.backends.sqlite_states import OPERATIONS
from spindle.journal.backends.sqlite_writer import SqliteTicket, SqliteWriter, acquire_writer
from spindle.journal.entries import Claim, FinishResult, LostCalls, OnDamage, Outcome, Row, Selection, check_endings
from spindle.journal.states import WorkerStateStore

if TYPE_CHECKING:  # loaded by the first search
    from spindle.journal.search import Scan, ScanStep
    from spindle.journal.summaries import SummaryRow


class SqliteJournalStore:
    """A journal store in a SQLite table; stores of one path in one process share one writer."""

    def __init__(self, path: str | PathLike[str], *, on_damage: OnDamage = "raise") -> None:
        if on_damage not in get_args(OnDamage):
            raise UsageError(
                f"Expected on_damage to be one of {get_args(OnDamage)}, got {on_damage!r}", field="on_damage"
            )
        self._path = _validate_path(path)
        self.lost_calls = _lost_calls.setdefault(self._path, LostCalls())
        OWN_FILES.add_database(path)
        self._worker_handle = SharedWorkerHandle(
            partial(_acquire_writer, self._path, on_damage),
            closed_error=partial(
                JournalError, f"The journal {self._path} is closed; enter it with `async with` to reopen it"
            ),
        )
        self.states = WorkerStateStore(self._run_one, OPERATIONS)

    async def open(self) -> None:
        """Open the file now instead of on first use."""
        self._worker_handle.open()
        await self._wait_for_answers(self._submit(Database.find, ()))

    async def aclose(self) -> None:
        """Write pending operations and release the file, even if the caller is being cancelled."""
        writer = self._worker_handle.close()
        if writer is None:
            return
        close_request = SqliteTicket(Database.find, (), is_synced=False)
        writer.remove_user(close_request)
        with CancelScope(shield=True):
            await close_request.done.wait()

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
        """End each call unless it has ended already.

        Raises:
            JournalError: Another process is running one of the calls; the others were ended.
        """
        return check_endings(outcomes, await self._wait_for_answers(self._submit(Database.finish, outcomes)))

    async def note(self, rows: Sequence[Row]) -> None:
        """Store each row, unless its call has run."""
        await self._wait_for_answers(self._submit(Database.note, rows))

    async def interrupt(self, keys: Sequence[str]) -> None:
        """Mark those calls of this process as interrupted that have no outcome."""
        await self._wait_for_answers(self._submit(Database.interrupt, keys))

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        return await self._wait_for_answers(self._submit(Database.find, keys))

    async def select(self, selection: Selection) -> list[Row]:
        """Return the matching rows, newest first."""
        return (await self._wait_for_answers(self._submit(Database.select, [selection])))[0]

    async def scan(self, scan: "Scan") -> "ScanStep":
        """Read some rows in order; return those that match."""
        return (await self._wait_for_answers(self._submit(backends.scan_sqlite, [scan])))[0]

    async def summarize(self, keys: Sequence[str]) -> "list[SummaryRow | None]":
        """Look up the summary of each key."""
        return await self._wait_for_answers(self._submit(backends.summarize_sqlite, keys))

    async def _run_one(self, operation: Callable[[Database, Sequence[Item]], list[Answer]], item: Item) -> Answer:
        [answer] = await self._wait_for_answers(self._submit(operation, [item], is_synced=True))
        return answer

    def _submit(
        self,
        operation: Callable[[Database, Sequence[Item]], list[Answer]],
        items: Sequence[Item],
        *,
        is_synced: bool = False,
    ) -> SqliteTicket[Database, Item, Answer]:
        ticket = SqliteTicket(operation, items, is_synced=is_synced)
        self._worker_handle.submit(ticket)
        return ticket

    async def _wait_for_answers(self, ticket: SqliteTicket[Database, Item, Answer]) -> list[Answer]:
        await ticket.done.wait()
        if ticket.error is not None:
            raise translate_error(ticket.error, self._path)
        return ticket.answers

    def _abandon(self, ticket: SqliteTicket[Database, Claim, Row | None]) -> None:
        """End the calls of a cancelled `begin`, so that none stays started without being run."""
        self._worker_handle.withdraw(ticket, undo=SqliteTicket(_end_abandoned, [ticket], is_synced=False))


_lost_calls: dict[Path, LostCalls] = {}
"""The lost calls of each file that this process has used."""


def _acquire_writer(path: Path, on_damage: OnDamage) -> SqliteWriter[Database]:
    return acquire_writer(path, partial(open_database, path, on_damage))


def _end_abandoned(
    database: Database, tickets: Sequence[SqliteTicket[Database, Claim, Row | None]]
) -> list[FinishResult]:
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
    refuse_url(text)
    return Path(text).resolve()
