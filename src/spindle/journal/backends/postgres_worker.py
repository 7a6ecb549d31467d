"""The thread with its own event loop that owns a session: it executes tickets in order, submitted from any event loop.

Tickets that are queued together share one transaction. After a lost connection they are retried on a new one: every
operation is idempotent.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from secrets import randbits
from threading import RLock, Thread
from typing import Any, TypeAlias

from spindle.errors import JournalError
from spindle.journal.backends.postgres_queries import Bid, CallTable
from spindle.journal.backends.postgres_session import (
    GRACE_SECONDS,
    HEARTBEAT_SECONDS,
    TRANSIENT_ERRORS,
    Address,
    PostgresSession,
    is_loss,
)
from spindle.journal.backends.shared_worker import Answer, Item, Ticket, WorkerRegistry, wake_callers


class PostgresTicket(Ticket[Item, Answer]):
    """A ticket for the table of calls."""

    def __init__(
        self, operation: Callable[[CallTable, Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]
    ) -> None:
        super().__init__(items)
        self.operation = operation


AnyTicket: TypeAlias = PostgresTicket[Any, Any]


MAX_GROUP = 256
"""The maximum number of tickets per transaction, so that no caller waits for a long queue."""

RECONNECT_SECONDS = 10.0
"""How long callers wait for a lost connection before they get an error."""

_RETRY_SECONDS = 0.5
_MAX_CLASHES = 5


class PostgresWorker:
    """A thread that executes tickets until its last user leaves and no call of its run is running.

    The first ticket starts the thread, and the thread connects. If that fails, all waiting callers get the error and
    the worker ends.
    """

    def __init__(self, address: Address, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._lock = RLock()  # reentrant: the garbage collector may call `remove_user` in any thread
        self._queue: deque[AnyTicket] = deque()
        self._close_requests: list[AnyTicket] = []
        self._users = 1
        self._must_end = False
        self._has_ended = False
        self._running: set[str] = set()
        """The keys of calls that were begun here and have not ended."""
        self._orphaned_claims: list[Bid] = []
        """Bids submitted over a connection that was lost: they may be written, but no caller runs them."""
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakeup = asyncio.Event()
        self._session = PostgresSession(
            address, run_id=randbits(63), grace_seconds=grace_seconds, on_loss=self._wakeup.set
        )
        self._thread = Thread(target=lambda: asyncio.run(self._run()), name="spindle-journal-postgres", daemon=True)

    @property
    def is_own_process(self) -> bool:
        """Whether this process started the worker: a forked child has its memory, but not its thread."""
        return self._pid == os.getpid()

    def add_user(self) -> bool:
        """Add a user; return False if the worker is ending."""
        with self._lock:
            may_enter = not (self._has_ended or self._must_end)
            self._users += may_enter
            return may_enter

    def submit(self, ticket: AnyTicket) -> bool:
        """Queue a ticket; return False if the worker no longer accepts any."""
        if not self.is_own_process:
            return False
        with self._lock:
            if self._has_ended or self._must_end:
                return False
            if self._thread.ident is None:
                self._start()
            self._queue.append(ticket)
            self._notify()
            return True

    def withdraw(self, ticket: AnyTicket) -> bool:
        """Remove a ticket from the queue; return False if it was already taken."""
        with self._lock:
            try:
                self._queue.remove(ticket)
            except ValueError:
                return False
            return True

    def remove_user(self, close_request: AnyTicket | None = None) -> None:
        """Remove a user; `close_request` is completed after all queued tickets, once everything possible is closed."""
        if not self.is_own_process:
            return  # the lock may be held by a thread that this process does not have
        with self._lock:
            self._users -= 1
            is_over = self._has_ended or self._thread.ident is None
            if close_request and not is_over:
                self._close_requests.append(close_request)
            self._notify()
        if close_request and is_over:
            wake_callers([close_request])

    def end(self, *, timeout_seconds: float) -> None:
        """End the worker even if it has users and running calls, and wait for it."""
        with self._lock:
            self._must_end = True
            self._notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def release_in_child(self) -> None:
        """Release a forked child's copy of the socket, which would keep the connection open after the parent died."""
        number = self._session.socket_number
        if number is not None:
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, number, inheritable=False)
            os.close(nothing)

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            raise JournalError(f"Cannot start the journal's thread: {error}; reduce the number of threads") from error

    def _notify(self) -> None:
        if self._loop is not None and not self._has_ended:
            self._loop.call_soon_threadsafe(self._wakeup.set)

    async def _run(self) -> None:
        failure: BaseException | None = None
        with self._lock:
            self._loop = asyncio.get_running_loop()
        try:
            await self._session.open()
            while tickets := await self._take():
                await self._serve(tickets)
        except BaseException as error:  # noqa: BLE001 - waiting callers must get any error
            failure = error
        await self._session.close()
        self._fail_pending(failure)

    async def _take(self) -> list[AnyTicket]:
        """Wait for tickets, keeping the connection open meanwhile; return none when it is time to end."""
        while True:
            self._wakeup.clear()
            with self._lock:
                if self._queue:
                    return [self._queue.popleft() for _ in range(min(len(self._queue), MAX_GROUP))]
            if self._is_over():
                return []
            if not self._session.is_open:
                await self._try_reconnect()
            await self._wait_for_wakeup(HEARTBEAT_SECONDS if self._session.is_open else _RETRY_SECONDS)

    def _is_over(self) -> bool:
        """Return whether to end: not while calls are running, which other processes would mark as interrupted."""
        with self._lock:
            is_needed = (self._users or self._running) and not self._must_end
            if not self._queue and not is_needed:
                self._has_ended = True
                return True
        self._complete_close_requests()
        return False

    async def _wait_for_wakeup(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._wakeup.wait(), seconds)
        except TimeoutError:
            if self._session.is_open:
                await self._session.check_alive()

    async def _try_reconnect(self) -> None:
        self._session.drop()
        try:
            await self._session.open()
        except Exception:  # noqa: BLE001 - retried later; `_reconnect` reports errors to callers
            self._session.drop()

    async def _serve(self, tickets: list[AnyTicket]) -> None:
        try:
            await self._commit_with_retries(tickets)
        except Exception as error:  # noqa: BLE001 - a failing ticket must not end the thread
            if len(tickets) > 1 and not is_loss(error):
                # Retried one by one, so that a failing ticket does not fail the others.
                for ticket in tickets:
                    await self._serve([ticket])
                return
            for ticket in tickets:
                ticket.error = error
                if ticket.operation is CallTable.begin:
                    self._orphaned_claims.extend(ticket.items)
        wake_callers(tickets)

    async def _commit_with_retries(self, tickets: list[AnyTicket]) -> None:
        has_lost = False
        clashes = 0
        while True:
            await self._reconnect()
            try:
                return await self._commit(tickets)
            except TRANSIENT_ERRORS:
                clashes += 1
                if clashes > _MAX_CLASHES:
                    raise
            except Exception as error:
                if not is_loss(error):
                    raise
                self._session.drop()
                if has_lost:
                    raise
                has_lost = True

    async def _commit(self, tickets: list[AnyTicket]) -> None:
        disowned = list(self._orphaned_claims)
        async with self._session.transaction() as calls:
            if disowned:
                await calls.end_orphaned(disowned)
            for operation, run in groupby(tickets, key=lambda ticket: ticket.operation):
                together = list(run)
                answers = iter(await operation(calls, [item for ticket in together for item in ticket.items]))
                for ticket in together:
                    ticket.answers = [next(answers) for _ in ticket.items]
        del self._orphaned_claims[: len(disowned)]
        for ticket in tickets:
            self._track_running(ticket)

    def _track_running(self, ticket: AnyTicket) -> None:
        if ticket.operation is CallTable.begin:
            bids = zip(ticket.items, ticket.answers, strict=True)
            self._running.update(bid.claim.row.idempotency_key for bid, standing in bids if standing is None)
        elif ticket.operation is CallTable.finish:
            self._running.difference_update(outcome.idempotency_key for outcome in ticket.items)
        elif ticket.operation is CallTable.end_orphaned:
            self._running.difference_update(bid.claim.row.idempotency_key for bid in ticket.items)

    async def _reconnect(self) -> None:
        """Reconnect after a loss, retrying for a while, because a restarting server is soon available again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RECONNECT_SECONDS
        while not self._session.is_open:
            self._session.drop()
            try:
                await self._session.open()
            except Exception as error:
                if not is_loss(error) or loop.time() >= deadline or self._must_end:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    def _complete_close_requests(self) -> None:
        with self._lock:
            done, self._close_requests = self._close_requests, []
        wake_callers(done)

    def _fail_pending(self, failure: BaseException | None) -> None:
        with self._lock:
            self._has_ended = True
            left = list(self._queue)
            self._queue.clear()
        for ticket in left:
            ticket.error = failure or JournalError("The journal was closed")
        wake_callers(left)
        self._complete_close_requests()


_workers: WorkerRegistry[str, PostgresWorker] = WorkerRegistry(
    after_fork=lambda _, worker: worker.release_in_child(),
)
end_all = _workers.end_all


def acquire_worker(address: Address, *, grace_seconds: float) -> PostgresWorker:
    """Return the worker of a database, to be released with `remove_user`."""
    return _workers.acquire(address.dsn, lambda _: PostgresWorker(address, grace_seconds=grace_seconds))
