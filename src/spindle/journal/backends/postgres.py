"""A journal in a PostgreSQL database (extra `postgres`), which many processes and machines may write concurrently."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from secrets import randbits
from typing import TypeVar

from anyio import CancelScope, get_cancelled_exc_class

from spindle.errors import JournalError
from spindle.journal.backends.postgres_queries import Bid, Calls
from spindle.journal.backends.postgres_session import GRACE_SECONDS, checked_address, translated
from spindle.journal.backends.postgres_worker import Ticket, borrow
from spindle.journal.backends.shared_worker import SharedWorkerHandle
from spindle.journal.entries import Claim, Outcome, Row, Selection

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class PostgresStore:
    """A journal store in a PostgreSQL table; stores of one dsn in one process share one connection."""

    def __init__(self, dsn: str, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._address = checked_address(dsn)
        closed = f"The journal in PostgreSQL at {self._address} is closed; enter it with `async with` to reopen it"
        self._loan = SharedWorkerHandle(
            partial(borrow, self._address, grace_seconds=grace_seconds), closed=partial(JournalError, closed)
        )

    async def open(self) -> None:
        """Connect now instead of on first use."""
        self._loan.open()
        await self._answers(self._submitted(Calls.find, ()))

    async def aclose(self) -> None:
        """Write pending operations and release the connection, even if the caller is being cancelled.

        The connection stays open while this process has unfinished calls: it proves that they are running.
        """
        portal = self._loan.close()
        if portal is None:
            return
        farewell = Ticket(Calls.find, ())
        portal.leave(farewell)
        with CancelScope(shield=True):
            await farewell.wait()

    async def begin(self, claims: Sequence[Claim]) -> list[Row | None]:
        """Start each call that is unknown, has never run or may be repeated."""
        # Never 0, which is the id of noted calls.
        bids = [Bid(randbits(62) + 1, claim) for claim in claims]
        ticket = self._submitted(Calls.begin, bids)
        try:
            return await self._answers(ticket)
        except get_cancelled_exc_class():
            self._abandon(ticket)
            raise

    async def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """End each call unless it has ended already.

        Raises:
            JournalError: Another process is running one of the calls; the others were ended.
        """
        endings = await self._answers(self._submitted(Calls.finish, outcomes))
        elsewhere = [outcome for outcome, ending in zip(outcomes, endings, strict=True) if ending == "elsewhere"]
        if elsewhere:
            raise JournalError(
                f"{len(elsewhere)} of {len(outcomes)} outcomes belong to calls that another process is running, "
                f"such as {elsewhere[0].idempotency_key!r}; only that process can end them while it is alive",
                field="idempotency_key",
            )
        return [ending == "ended" for ending in endings]

    async def note(self, rows: Sequence[Row]) -> None:
        """Store each row, unless its call has run."""
        await self._answers(self._submitted(Calls.note, rows))

    async def find(self, keys: Sequence[str]) -> list[Row | None]:
        """Look up each key."""
        return await self._answers(self._submitted(Calls.find, keys))

    async def select(self, selection: Selection) -> list[Row]:
        """Return the matching rows, newest first."""
        return (await self._answers(self._submitted(Calls.select, [selection])))[0]

    def _submitted(
        self, operation: Callable[[Calls, Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]
    ) -> Ticket[Item, Answer]:
        ticket = Ticket(operation, items)
        self._loan.submit(ticket)
        return ticket

    async def _answers(self, ticket: Ticket[Item, Answer]) -> list[Answer]:
        await ticket.wait()
        if ticket.error is not None:
            raise translated(ticket.error, self._address)
        return ticket.answers

    def _abandon(self, ticket: Ticket[Bid, Row | None]) -> None:
        """End the calls of a cancelled `begin`, so that none stays started without being run."""
        self._loan.withdraw(ticket, undo=Ticket(Calls.disown, ticket.items))
