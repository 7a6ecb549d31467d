"""One thread with an event loop of its own that owns a session: it takes what is asked in order, from any event loop.

What came together is kept in one transaction. What a lost connection leaves in doubt is asked again over a new one:
asking twice does the same as asking once.
"""

import asyncio
import atexit
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import groupby
from secrets import randbits
from threading import Lock, RLock, Thread
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from anyio import Event

from spindle.concurrency import schedule_here
from spindle.errors import JournalError
from spindle.journal.backends.postgres_queries import Bid, Calls
from spindle.journal.backends.postgres_session import (
    CLASHES,
    GRACE_SECONDS,
    HEARTBEAT_SECONDS,
    Address,
    Session,
    is_loss,
)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Ticket(Generic[Item, Answer]):
    """What is asked, and the answers once they are durable."""

    def __init__(
        self, operation: Callable[[Calls, Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]
    ) -> None:
        self.operation = operation
        self.items = items
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self._done = Event()
        self._schedule = schedule_here()

    async def wait(self) -> None:
        """Wait until it is answered."""
        await self._done.wait()

    def wake(self) -> None:
        """Tell the caller, from any thread, that there are answers or an error."""
        with suppress(RuntimeError):  # that loop has ended, and nobody waits there any more
            self._schedule(self._done.set)


AnyTicket: TypeAlias = Ticket[Any, Any]


MAX_GROUP = 256
"""So many callers share one transaction at most, so that none waits for a long row of others."""

PATIENCE_SECONDS = 10.0
"""How long callers wait for a connection that was lost before they are told."""

_RETRY_SECONDS = 0.5
_MAX_CLASHES = 5


class PostgresWorker:
    """Serves tickets until its last user leaves and no call of its run is still running.

    The first ticket starts the thread, and the thread connects. When that fails, those who wait are told why and the
    portal has ended.
    """

    def __init__(self, address: Address, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._lock = RLock()  # a forgotten journal leaves from wherever the collector runs
        self._queue: deque[AnyTicket] = deque()
        self._farewells: list[AnyTicket] = []
        self._users = 1
        self._must_end = False
        self._has_ended = False
        self._running: set[str] = set()
        """The keys of calls that were begun here and did not end."""
        self._disowned: list[Bid] = []
        """What was asked to begin over a connection that was then lost: it may be written, and nobody runs it."""
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._session = Session(address, run_id=randbits(63), grace_seconds=grace_seconds, on_loss=self._news.set)
        self._thread = Thread(target=lambda: asyncio.run(self._run()), name="spindle-journal-postgres", daemon=True)

    @property
    def is_ours(self) -> bool:
        """Whether this process started it: a forked child has the memory of a portal, but not its thread."""
        return self._pid == os.getpid()

    def enter(self) -> bool:
        """Become one more user; says whether that was still possible."""
        with self._lock:
            may_enter = not (self._has_ended or self._must_end)
            self._users += may_enter
            return may_enter

    def submit(self, ticket: AnyTicket) -> bool:
        """Queue a ticket; says whether the portal still takes any."""
        if not self.is_ours:
            return False
        with self._lock:
            if self._has_ended or self._must_end:
                return False
            if self._thread.ident is None:
                self._start()
            self._queue.append(ticket)
            self._poke()
            return True

    def withdraw(self, ticket: AnyTicket) -> bool:
        """Take a ticket back; says whether it was still in time."""
        with self._lock:
            try:
                self._queue.remove(ticket)
            except ValueError:
                return False
            return True

    def leave(self, farewell: AnyTicket | None = None) -> None:
        """Be a user no more; `farewell` is answered when all that was asked is, and what can be closed is closed."""
        if not self.is_ours:
            return  # its lock may be held by a thread that this process does not have
        with self._lock:
            self._users -= 1
            is_over = self._has_ended or self._thread.ident is None
            if farewell and not is_over:
                self._farewells.append(farewell)
            self._poke()
        if farewell and is_over:
            farewell.wake()

    def end(self, *, timeout_seconds: float) -> None:
        """End although there are users and calls, and wait for it."""
        with self._lock:
            self._must_end = True
            self._poke()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def let_go_in_child(self) -> None:
        """Give up a forked child's share of the connection: it would keep it open when its owner has died."""
        number = self._session.socket_number
        if number is not None:
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, number, inheritable=False)
            os.close(nothing)

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            raise JournalError(f"the journal's thread cannot be started: {error}; end some threads first") from error

    def _poke(self) -> None:
        if self._loop is not None and not self._has_ended:
            self._loop.call_soon_threadsafe(self._news.set)

    async def _run(self) -> None:
        failure: BaseException | None = None
        with self._lock:
            self._loop = asyncio.get_running_loop()
        try:
            await self._session.open()
            while tickets := await self._take():
                await self._serve(tickets)
        except BaseException as error:  # noqa: BLE001 - whatever it was, those who wait must be told
            failure = error
        await self._session.close()
        self._tell_all(failure)

    async def _take(self) -> list[AnyTicket]:
        """Wait for tickets, and meanwhile see to it that the connection is there; none when it is time to end."""
        while True:
            self._news.clear()
            with self._lock:
                if self._queue:
                    return [self._queue.popleft() for _ in range(min(len(self._queue), MAX_GROUP))]
            if self._is_over():
                return []
            if not self._session.is_open:
                await self._try_to_come_back()
            await self._wait_for_news(HEARTBEAT_SECONDS if self._session.is_open else _RETRY_SECONDS)

    def _is_over(self) -> bool:
        """Whether to end: not while calls are running that other processes would then take for interrupted."""
        with self._lock:
            is_needed = (self._users or self._running) and not self._must_end
            if not self._queue and not is_needed:
                self._has_ended = True
                return True
        self._bid_farewell()
        return False

    async def _wait_for_news(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            if self._session.is_open:
                await self._session.beat()

    async def _try_to_come_back(self) -> None:
        self._session.drop()
        try:
            await self._session.open()
        except Exception:  # noqa: BLE001 - it is tried again, and those who ask for something are told
            self._session.drop()

    async def _serve(self, tickets: list[AnyTicket]) -> None:
        try:
            await self._commit_again(tickets)
        except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a ticket does
            if len(tickets) > 1 and not is_loss(error):
                # One of them may be at fault, and the others must not suffer for it.
                for ticket in tickets:
                    await self._serve([ticket])
                return
            for ticket in tickets:
                ticket.error = error
                if ticket.operation is Calls.begin:
                    self._disowned.extend(ticket.items)
        for ticket in tickets:
            ticket.wake()

    async def _commit_again(self, tickets: list[AnyTicket]) -> None:
        has_lost = False
        clashes = 0
        while True:
            await self._come_back()
            try:
                return await self._commit(tickets)
            except CLASHES:
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
        disowned = list(self._disowned)
        async with self._session.transaction() as calls:
            if disowned:
                await calls.disown(disowned)
            for operation, run in groupby(tickets, key=lambda ticket: ticket.operation):
                together = list(run)
                answers = iter(await operation(calls, [item for ticket in together for item in ticket.items]))
                for ticket in together:
                    ticket.answers = [next(answers) for _ in ticket.items]
        del self._disowned[: len(disowned)]
        for ticket in tickets:
            self._remember(ticket)

    def _remember(self, ticket: AnyTicket) -> None:
        if ticket.operation is Calls.begin:
            bids = zip(ticket.items, ticket.answers, strict=True)
            self._running.update(bid.claim.row.idempotency_key for bid, standing in bids if standing is None)
        elif ticket.operation is Calls.finish:
            self._running.difference_update(outcome.idempotency_key for outcome in ticket.items)
        elif ticket.operation is Calls.disown:
            self._running.difference_update(bid.claim.row.idempotency_key for bid in ticket.items)

    async def _come_back(self) -> None:
        """Connect again after a loss, with patience: a server that restarts is back in a moment."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while not self._session.is_open:
            self._session.drop()
            try:
                await self._session.open()
            except Exception as error:
                if not is_loss(error) or loop.time() >= deadline or self._must_end:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    def _bid_farewell(self) -> None:
        with self._lock:
            farewells, self._farewells = self._farewells, []
        for ticket in farewells:
            ticket.wake()

    def _tell_all(self, failure: BaseException | None) -> None:
        with self._lock:
            self._has_ended = True
            left = list(self._queue)
            self._queue.clear()
        for ticket in left:
            ticket.error = failure or JournalError("the journal was closed")
            ticket.wake()
        self._bid_farewell()


_EXIT_SECONDS = 5.0

_lock = Lock()
_portals: WeakValueDictionary[str, PostgresWorker] = WeakValueDictionary()
_inherited: list[PostgresWorker] = []
"""Portals of the process this one was forked from: kept, for closing their connections would reach its server."""


def borrow(address: Address, *, grace_seconds: float) -> PostgresWorker:
    """Give the portal of a database, to be left again."""
    with _lock:
        portal = _portals.get(address.dsn)
        if portal is None or not portal.enter():
            portal = _portals[address.dsn] = PostgresWorker(address, grace_seconds=grace_seconds)
        return portal


def end_all() -> None:
    """Write what is waiting and close every connection, as a process does that ends."""
    for portal in list(_portals.values()):
        portal.end(timeout_seconds=_EXIT_SECONDS)


def _forget_in_child() -> None:
    global _lock  # noqa: PLW0603 - the child is another process, and its parent may have held the lock
    _lock = Lock()
    _inherited.extend(_portals.values())
    _portals.clear()
    for portal in _inherited:
        portal.let_go_in_child()


atexit.register(end_all)
os.register_at_fork(after_in_child=_forget_in_child)
