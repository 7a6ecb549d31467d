"""A journal in a PostgreSQL database (extra `postgres`), which many processes and machines may write concurrently."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from secrets import randbits

from anyio import CancelScope, get_cancelled_exc_class

from spindle.errors import JournalError
from spindle.journal.backends import postgres_search
from spindle.journal.backends.postgres_notices import PostgresNoticeBoard
from spindle.journal.backends.postgres_queries import Bid, CallTable
from spindle.journal.backends.postgres_session import GRACE_SECONDS, parse_address, translate_error
from spindle.journal.backends.postgres_states import OPERATIONS
from spindle.journal.backends.postgres_worker import PostgresTicket, acquire_worker
from spindle.journal.backends.shared_worker import Answer, Item, SharedWorkerHandle
from spindle.journal.entries import Claim, LostCalls, Outcome, Row, Selection, check_endings
from spindle.journal.search import Scan, ScanStep
from spindle.journal.states import WorkerStateStore
from spindle.journal.summaries import SummaryRow

_lost_calls: dict[str, LostCalls] = {}
"""The lost calls of each database that this process has used, by dsn."""


class PostgresJournalStore:
    """A journal store in a PostgreSQL table; stores of one dsn in one process share one connection."""

    def __init__(self, dsn: str, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._address = parse_address(dsn)
        self.lost_calls = _lost_calls.setdefault(dsn, LostCalls())
        closed = f"The journal in PostgreSQL at {self._address} is closed; enter it with `async with` to reopen it"
        self._worker_handle = SharedWorkerHandle(
            partial(acquire_worker, self._address, grace_seconds=grace_seconds),
            closed_error=partial(JournalError, closed),
        )
        self.states = WorkerStateStore(self._run_one, OPERATIONS)
        self.notices = PostgresNoticeBoard(dsn, self._run_one, self._connect)

    async def open(self) -> None:
        """Connect now instead of on first use."""
        self._worker_handle.open()
        await self._connect()

    async def _connect(self) -> None:
        await self._wait_for_answers(self._submit(CallTable.find, ()))

    async def aclose(self) -> None:
        """Write pending operations and release the connection, even if the caller is being cancelled.

        The connection stays open while this process has unfinished calls: it proves that they are running.
        """
        worker = self._worker_handle.close()
        if worker is None:
            return
        close_request = PostgresTicket(CallTable.find, ())
        worker.remove_user(close_request)
        with CancelScope(shield=True):
            await close_request.done.wait()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated."""
        # Never 0, which is the id of noted calls.
        bids = [Bid(randbits(62) + 1, claim) for claim in claims]
        ticket = self._submit(CallTable.begin, bids)
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
        return check_endings(outcomes, await self._wait_for_answers(self._submit(CallTable.finish, outcomes)))

    async def note(self, rows: Sequence[Row]) -> None:
        """Store each row, unless its call has run."""
        await self._wait_for_answers(self._submit(CallTable.note, rows))

    async def interrupt(self, keys: Sequence[str]) -> None:
        """Mark those calls of this process as interrupted that have no outcome."""
        await self._wait_for_answers(self._submit(CallTable.interrupt, keys))

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        return await self._wait_for_answers(self._submit(CallTable.find, keys))

    async def select(self, selection: Selection) -> list[Row]:
        """Return the matching rows, newest first."""
        return (await self._wait_for_answers(self._submit(CallTable.select, [selection])))[0]

    async def scan(self, scan: Scan) -> ScanStep:
        """Read some rows in order; return those that match."""
        return (await self._wait_for_answers(self._submit(postgres_search.scan, [scan])))[0]

    async def summarize(self, keys: Sequence[str]) -> list[SummaryRow | None]:
        """Look up the summary of each key."""
        return await self._wait_for_answers(self._submit(postgres_search.summarize, keys))

    async def _run_one(
        self, operation: Callable[[CallTable, Sequence[Item]], Awaitable[list[Answer]]], item: Item
    ) -> Answer:
        [answer] = await self._wait_for_answers(self._submit(operation, [item]))
        return answer

    def _submit(
        self, operation: Callable[[CallTable, Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]
    ) -> PostgresTicket[Item, Answer]:
        ticket = PostgresTicket(operation, items)
        self._worker_handle.submit(ticket)
        return ticket

    async def _wait_for_answers(self, ticket: PostgresTicket[Item, Answer]) -> list[Answer]:
        await ticket.done.wait()
        if ticket.error is not None:
            raise translate_error(ticket.error, self._address)
        return ticket.answers

    def _abandon(self, ticket: PostgresTicket[Bid, Row | None]) -> None:
        """End the calls of a cancelled `begin`, so that none stays started without being run."""
        self._worker_handle.withdraw(ticket, undo=PostgresTicket(CallTable.end_orphaned, ticket.items))
