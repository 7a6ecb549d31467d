"""The thread that owns a SQLite database: it executes tickets in order, and commits queued ones together."""

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
"""The maximum number of tickets per commit, so that no caller waits for a long queue."""


class SqliteTicket(Generic[Item, Answer]):
    """One caller's queued operation, and its answers once they are committed."""

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
        """Whether the operation must survive power loss before its caller continues."""
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self.done = Event()
        self.schedule = schedule_here()

    def perform(self, database: Database) -> None:
        """Execute the operation inside a transaction."""
        self.answers = self._operation(database, self.items)


AnyTicket: TypeAlias = SqliteTicket[Any, Any]


class SqliteWriter:
    """A thread that executes tickets until its last user leaves; users may run in any event loop.

    The first ticket starts the thread, and the thread opens the database. If that fails, all waiting callers get the
    error and the writer ends.
    """

    def __init__(self, open_database: Callable[[], Database], *, after: "SqliteWriter | None" = None) -> None:
        self._changed = Condition()
        self._queue: deque[AnyTicket] = deque()
        self._users = 1
        self._is_ending = False
        self._has_ended = False
        self._close_requests: list[AnyTicket] = []
        self._pid = os.getpid()
        self._thread = Thread(target=self._run, args=(open_database, after), name="spindle-journal", daemon=True)

    @property
    def is_own_process(self) -> bool:
        """Whether this process started the writer: a forked child has its memory, but not its thread."""
        return self._pid == os.getpid()

    def add_user(self) -> bool:
        """Add a user; return False if the writer is ending."""
        with self._changed:
            self._users += not self._is_ending
            return not self._is_ending

    def submit(self, ticket: AnyTicket) -> bool:
        """Queue a ticket; return False if the writer no longer accepts any."""
        if not self.is_own_process:
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
        """Remove a ticket from the queue; return False if it was already taken."""
        with self._changed:
            try:
                self._queue.remove(ticket)
            except ValueError:
                return False
            return True

    def remove_user(self, close_request: AnyTicket | None = None) -> None:
        """Remove a user; `farewell` is completed after all queued tickets, and for the last user after closing."""
        if not self.is_own_process:
            return  # the lock may be held by a thread that this process does not have
        with self._changed:
            self._users -= 1
            self._is_ending = self._is_ending or not self._users
            is_over = self._has_ended or self._thread.ident is None
            if close_request and not is_over:
                (self._close_requests if self._is_ending else self._queue).append(close_request)
            self._changed.notify()
        if close_request and is_over:
            _wake([close_request])

    def end(self, *, timeout_seconds: float | None = None) -> None:
        """End the writer even if it has users, and wait for it."""
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
            raise JournalError(f"Cannot start the journal's thread: {error}; reduce the number of threads") from error

    def _run(self, open_database: Callable[[], Database], after: "SqliteWriter | None") -> None:
        failure: BaseException | None = None
        try:
            if after is not None:
                after.join()
            with closing(open_database()) as database:
                while tickets := self._take():
                    _commit(database, tickets)
        except BaseException as error:  # noqa: BLE001 - waiting callers must get any error
            failure = error
        self._fail_pending(failure)

    def _take(self) -> list[AnyTicket]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_ending)
            return [self._queue.popleft() for _ in range(min(len(self._queue), MAX_GROUP))]

    def _fail_pending(self, failure: BaseException | None) -> None:
        with self._changed:
            self._is_ending = self._has_ended = True
            left = list(self._queue)
            self._queue.clear()
        for ticket in left:
            ticket.error = failure or JournalError("The journal was closed")
        _wake([*left, *self._close_requests])


def _commit(database: Database, tickets: list[AnyTicket]) -> None:
    try:
        with database.transaction(is_synced=any(ticket.is_synced for ticket in tickets)):
            for ticket in tickets:
                ticket.perform(database)
    except Exception as error:  # noqa: BLE001 - a failing ticket must not end the thread
        if len(tickets) > 1:
            # Retried one by one, so that a failing ticket does not fail the others.
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
        with suppress(RuntimeError):  # that event loop has ended
            schedule(partial(_set_all, events))


def _set_all(events: list[Event]) -> None:
    for event in events:
        event.set()


_EXIT_SECONDS = 5.0

_lock = Lock()
_writers: WeakValueDictionary[Path, SqliteWriter] = WeakValueDictionary()
_inherited: list[SqliteWriter] = []
"""Writers of the parent of a fork: kept alive, because closing their connections would affect its files."""

_run_id = uuid4().hex


def process_run_id() -> str:
    """Return the id of this process, unique among all writers of a journal."""
    return _run_id


def acquire_writer(path: Path, open_database: Callable[[], Database]) -> SqliteWriter:
    """Return the writer of a file, to be released with `leave`; a new writer's thread waits for one that is ending."""
    with _lock:
        writer = _writers.get(path)
        if writer is None or not writer.add_user():
            writer = _writers[path] = SqliteWriter(open_database, after=writer)
        return writer


def _end_all() -> None:
    for writer in list(_writers.values()):
        writer.end(timeout_seconds=_EXIT_SECONDS)


def _reset_in_child() -> None:
    global _lock, _run_id  # noqa: PLW0603 - a child needs its own id and lock; the parent may hold its lock
    _lock = Lock()
    _run_id = uuid4().hex
    _inherited.extend(_writers.values())
    _writers.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_reset_in_child)
