"""One thread that owns a database: it takes what is asked in order, and commits at once what came together."""

import atexit
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from anyio import Event

from spindle.concurrency import Schedule, schedule_here
from spindle.errors import JournalError
from spindle.journal.backends.sqlite_database import Database

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MAX_GROUP = 256
"""So many callers share one commit at most, so that none waits for a long row of others."""


class Ticket(Generic[Item, Answer]):
    """One caller's place in the queue: what is asked, and the answers once they are kept."""

    def __init__(
        self,
        operation: Callable[[Database, Sequence[Item]], list[Answer]],
        items: Sequence[Item],
        *,
        is_synced: bool = True,
    ) -> None:
        self._operation = operation
        self.items = items
        self.is_synced = is_synced
        """Whether what is asked must survive lost power before anybody goes on."""
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self.done = Event()
        self.schedule = schedule_here()

    def perform(self, database: Database) -> None:
        """Do what is asked, inside a transaction."""
        self.answers = self._operation(database, self.items)


AnyTicket: TypeAlias = Ticket[Any, Any]


class Writer:
    """Runs tickets in its thread until its last user leaves; users may be of any event loop.

    The first ticket starts the thread, and the thread opens the database. When that fails, those who wait are told why
    and the writer has ended.
    """

    def __init__(self, open_database: Callable[[], Database], *, after: "Writer | None" = None) -> None:
        self._changed = Condition()
        self._queue: deque[AnyTicket] = deque()
        self._users = 1
        self._is_ending = False
        self._has_ended = False
        self._farewells: list[AnyTicket] = []
        self._pid = os.getpid()
        self._thread = Thread(target=self._run, args=(open_database, after), name="spindle-journal", daemon=True)

    @property
    def is_ours(self) -> bool:
        """Whether this process started it: a forked child has the memory of a writer, but not its thread."""
        return self._pid == os.getpid()

    def enter(self) -> bool:
        """Become one more user; says whether that was still possible."""
        with self._changed:
            self._users += not self._is_ending
            return not self._is_ending

    def submit(self, ticket: AnyTicket) -> bool:
        """Queue a ticket; says whether the writer still takes any."""
        if not self.is_ours:
            return False
        with self._changed:
            if self._is_ending:
                return False
            if self._thread.ident is None:
                self._start()
            self._queue.append(ticket)
            self._changed.notify()
            return True

    def withdraw(self, ticket: AnyTicket) -> bool:
        """Take a ticket back; says whether it was still in time."""
        with self._changed:
            try:
                self._queue.remove(ticket)
            except ValueError:
                return False
            return True

    def leave(self, farewell: AnyTicket | None = None) -> None:
        """Be a user no more; `farewell` is done when all that was asked is, and for the last user all is closed."""
        if not self.is_ours:
            return  # its lock may be held by a thread that this process does not have
        with self._changed:
            self._users -= 1
            self._is_ending = self._is_ending or not self._users
            is_over = self._has_ended or self._thread.ident is None
            if farewell and not is_over:
                (self._farewells if self._is_ending else self._queue).append(farewell)
            self._changed.notify()
        if farewell and is_over:
            _wake([farewell])

    def end(self, *, timeout_seconds: float | None = None) -> None:
        """End although there are users, and wait for it."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self.join(timeout_seconds=timeout_seconds)

    def join(self, *, timeout_seconds: float | None = None) -> None:
        """Wait until everything is written and closed."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            raise JournalError(f"the journal's thread cannot be started: {error}; end some threads first") from error

    def _run(self, open_database: Callable[[], Database], after: "Writer | None") -> None:
        failure: BaseException | None = None
        try:
            if after is not None:
                after.join()
            with closing(open_database()) as database:
                while tickets := self._take():
                    _commit(database, tickets)
        except BaseException as error:  # noqa: BLE001 - whatever it was, those who wait must be told
            failure = error
        self._tell_all(failure)

    def _take(self) -> list[AnyTicket]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_ending)
            return [self._queue.popleft() for _ in range(min(len(self._queue), MAX_GROUP))]

    def _tell_all(self, failure: BaseException | None) -> None:
        with self._changed:
            self._is_ending = self._has_ended = True
            left = list(self._queue)
            self._queue.clear()
        for ticket in left:
            ticket.error = failure or JournalError("the journal was closed")
        _wake([*left, *self._farewells])


def _commit(database: Database, tickets: list[AnyTicket]) -> None:
    try:
        with database.transaction(is_synced=any(ticket.is_synced for ticket in tickets)):
            for ticket in tickets:
                ticket.perform(database)
    except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a ticket does
        if len(tickets) > 1:
            # One of them may be at fault, and the others must not suffer for it.
            for ticket in tickets:
                _commit(database, [ticket])
            return
        tickets[0].error = error
    _wake(tickets)


def _wake(tickets: Iterable[AnyTicket]) -> None:
    by_loop: dict[Schedule, list[Event]] = {}
    for ticket in tickets:
        by_loop.setdefault(ticket.schedule, []).append(ticket.done)
    for schedule, events in by_loop.items():
        with suppress(RuntimeError):  # that loop has ended, and nobody waits there any more
            schedule(partial(_set_all, events))


def _set_all(events: list[Event]) -> None:
    for event in events:
        event.set()


_EXIT_SECONDS = 5.0

_lock = Lock()
_writers: WeakValueDictionary[Path, Writer] = WeakValueDictionary()
_inherited: list[Writer] = []
"""Writers of the process this one was forked from: kept, for closing their connections would reach its files."""

_run_id = uuid4().hex


def process_run_id() -> str:
    """Name this process, unlike any other that ever writes the same journal."""
    return _run_id


def borrow(path: Path, open_database: Callable[[], Database]) -> Writer:
    """Give the writer of a file, to be left again; one that is ending is waited for by its successor's thread."""
    with _lock:
        writer = _writers.get(path)
        if writer is None or not writer.enter():
            writer = _writers[path] = Writer(open_database, after=writer)
        return writer


def _end_all() -> None:
    for writer in list(_writers.values()):
        writer.end(timeout_seconds=_EXIT_SECONDS)


def _forget_in_child() -> None:
    global _lock, _run_id  # noqa: PLW0603 - the child is another process, and its parent may have held the lock
    _lock = Lock()
    _run_id = uuid4().hex
    _inherited.extend(_writers.values())
    _writers.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_in_child)
