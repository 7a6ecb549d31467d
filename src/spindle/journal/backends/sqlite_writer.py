"""The thread that owns a SQLite database: it executes tickets in order, and commits queued ones together."""

import atexit
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Generic, TypeAlias, TypeVar

from spindle.errors import JournalError, JournalLockedError
from spindle.journal.backends.shared_worker import Answer, Item, Ticket, WorkerRegistry, wake_callers
from spindle.journal.backends.sqlite_database import LockedDatabase
from spindle.journal.backends.sqlite_locks import release_leases

Target = TypeVar("Target", bound=LockedDatabase)

MAX_GROUP = 256
"""The maximum number of tickets per commit, so that no caller waits for a long queue."""


class SqliteTicket(Ticket[Item, Answer], Generic[Target, Item, Answer]):
    """A ticket for a SQLite database."""

    def __init__(
        self,
        operation: Callable[[Target, Sequence[Item]], list[Answer]],
        items: Sequence[Item],
        *,
        is_synced: bool = True,
    ) -> None:
        super().__init__(items)
        self._operation = operation
        self.is_synced = is_synced
        """Whether the operation must survive power loss before its caller continues."""

    def perform(self, database: Target) -> None:
        """Execute the operation inside a transaction."""
        self.answers = self._operation(database, self.items)


AnyTicket: TypeAlias = SqliteTicket[Target, Any, Any]


class SqliteWriter(Generic[Target]):
    """A thread that executes tickets until its last user leaves; users may run in any event loop.

    The first ticket starts the thread, and the thread opens the database. If that fails, all waiting callers get the
    error and the writer ends.
    """

    def __init__(self, open_database: Callable[[], Target], *, after: "SqliteWriter[Target] | None" = None) -> None:
        self._changed = Condition()
        self._queue: deque[AnyTicket[Target]] = deque()
        self._users = 1
        self._is_ending = False
        self._has_ended = False
        self._close_requests: list[AnyTicket[Target]] = []
        self.pid = os.getpid()
        """The process that started the writer."""
        self._thread = Thread(target=self._run, args=(open_database, after), name="spindle-journal", daemon=True)

    @property
    def is_own_process(self) -> bool:
        """Whether this process started the writer: a forked child has its memory, but not its thread."""
        return self.pid == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether its thread was started and has not closed the database yet."""
        return self._thread.ident is not None and not self._has_ended

    def add_user(self) -> bool:
        """Add a user; return False if the writer is ending."""
        with self._changed:
            self._users += not self._is_ending
            return not self._is_ending

    def submit(self, ticket: AnyTicket[Target]) -> bool:
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

    def withdraw(self, ticket: AnyTicket[Target]) -> bool:
        """Remove a ticket from the queue; return False if it was already taken."""
        with self._changed:
            try:
                self._queue.remove(ticket)
            except ValueError:
                return False
            return True

    def remove_user(self, close_request: AnyTicket[Target] | None = None) -> None:
        """Remove a user; `close_request` is completed after all queued tickets, and for the last user after closing."""
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
            wake_callers([close_request])

    def end(self, *, timeout_seconds: float | None) -> None:
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

    def _run(self, open_database: Callable[[], Target], after: "SqliteWriter[Target] | None") -> None:
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

    def _take(self) -> list[AnyTicket[Target]]:
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
        wake_callers([*left, *self._close_requests])


def _commit(database: Target, tickets: Sequence[AnyTicket[Target]]) -> None:
    try:
        with database.transaction(is_synced=any(ticket.is_synced for ticket in tickets)):
            for ticket in tickets:
                ticket.perform(database)
    except Exception as error:  # noqa: BLE001 - a failing ticket must not end the thread
        if len(tickets) > 1 and not isinstance(error, JournalLockedError):
            # Retried one by one, so that a failing ticket does not fail the others.
            for ticket in tickets:
                _commit(database, [ticket])
            return
        for ticket in tickets:
            ticket.error = error
    wake_callers(tickets)


def acquire_writer(path: Path, open_database: Callable[[], Target], *, kind: str = "journal") -> SqliteWriter[Target]:
    """Return the writer of a file, to be released with `remove_user`; a new one waits for one that is ending.

    Raises:
        JournalLockedError: The parent of this process had the file open when it forked.
    """
    if (parent := _inherited_files.get(path)) is not None:
        raise _forked_error(path, parent)
    return _writers.acquire((kind, path), lambda ending: SqliteWriter(open_database, after=ending))


def _forked_error(path: Path, pid: int) -> JournalLockedError:
    # SQLite keeps its locks on a file per process and takes inherited ones for its own: in a forked child it would
    # write to a log that the parent may have deleted.
    return JournalLockedError(
        f"The file {path} was open in process {pid} when it forked this one, and SQLite cannot use it here again; "
        "open it after the fork, or start processes with the method spawn or forkserver",
        path=str(path),
        holder_pid=pid,
    )


def end_all() -> None:
    """Write pending operations, close all files and end all runs, as at the exit of the process."""
    _writers.end_all()
    release_leases()


def _remember_open_file(key: tuple[str, Path], writer: SqliteWriter[Any]) -> None:
    if writer.is_open:
        _inherited_files[key[1]] = writer.pid


atexit.register(release_leases)  # runs after what is registered later: the end of the writers
_writers: WorkerRegistry[tuple[str, Path], SqliteWriter[Any]] = WorkerRegistry(after_fork=_remember_open_file)
_inherited_files: dict[Path, int] = {}
"""The files that were open in the parent of a fork, with its process id."""
