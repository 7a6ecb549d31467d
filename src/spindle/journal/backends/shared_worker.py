"""What the worker threads of stores share: tickets, a store's handle on its worker, and the workers of this process."""

import atexit
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary, finalize

from anyio import Event

from spindle.concurrency import Schedule, schedule_here

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Key = TypeVar("Key")

_EXIT_SECONDS = 5.0


class Ticket(Generic[Item, Answer]):
    """One caller's queued operation, and its answers once they are committed."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self.done = Event()
        self.schedule = schedule_here()


AnyTicket: TypeAlias = Ticket[Any, Any]


def wake_callers(tickets: Iterable[AnyTicket]) -> None:
    """Notify the callers, from any thread, that their tickets have answers or an error."""
    by_loop: dict[Schedule, list[Event]] = {}
    for ticket in tickets:
        by_loop.setdefault(ticket.schedule, []).append(ticket.done)
    for schedule, events in by_loop.items():
        with suppress(RuntimeError):  # that event loop has ended
            schedule(partial(_set_all, events))


def _set_all(events: list[Event]) -> None:
    for event in events:
        event.set()


class Worker(Protocol):
    """A thread that executes tickets for all of its users."""

    @property
    def is_own_process(self) -> bool:
        """Whether this process started the worker: a forked child has its memory, but not its thread."""
        ...

    def submit(self, ticket: Any) -> bool:
        """Queue a ticket; return False if the worker no longer accepts any."""
        ...

    def withdraw(self, ticket: Any) -> bool:
        """Remove a ticket from the queue; return False if it was already taken."""
        ...

    def remove_user(self, close_request: Any = None) -> None:
        """Release the worker; `close_request` is completed once that is done."""
        ...


class EndableWorker(Worker, Protocol):
    """A worker that new users can join, and that the exit of the process ends."""

    def add_user(self) -> bool:
        """Add a user; return False if the worker is ending."""
        ...

    def end(self, *, timeout_seconds: float) -> None:
        """End the worker even if it has users, and wait for it."""
        ...


Endable = TypeVar("Endable", bound=EndableWorker)


class WorkerRegistry(Generic[Key, Endable]):
    """The workers of this process, one for each key; the exit of the process ends them."""

    def __init__(self, *, after_fork: Callable[[Key, Endable], None]) -> None:
        self._lock = Lock()
        self._workers: WeakValueDictionary[Key, Endable] = WeakValueDictionary()
        self._inherited: list[Endable] = []
        """Workers of the parent of a fork: kept alive, because closing their connections would affect the parent."""
        self._after_fork = after_fork
        atexit.register(self.end_all)
        os.register_at_fork(after_in_child=self._reset_in_child)

    def acquire(self, key: Key, create: Callable[[Endable | None], Endable]) -> Endable:
        """Return the worker of a key, to be released with `remove_user`; `create` gets one that is ending, if any."""
        with self._lock:
            worker = self._workers.get(key)
            if worker is None or not worker.add_user():
                worker = self._workers[key] = create(worker)
            return worker

    def end_all(self) -> None:
        """Write pending operations and end all workers."""
        for worker in list(self._workers.values()):
            worker.end(timeout_seconds=_EXIT_SECONDS)

    def _reset_in_child(self) -> None:
        self._lock = Lock()  # the parent may hold its lock
        for key, worker in list(self._workers.items()):
            self._inherited.append(worker)
            self._after_fork(key, worker)
        self._workers.clear()


AWorker = TypeVar("AWorker", bound=Worker)


class SharedWorkerHandle(Generic[AWorker]):
    """One store's reference to a worker, also released if the store is garbage-collected without being closed.

    `acquire` and `closed_error` must not reference the store, or it would never be collected.
    """

    def __init__(self, acquire: Callable[[], AWorker], *, closed_error: Callable[[], Exception]) -> None:
        self._acquire, self._closed_error = acquire, closed_error
        self._lock = Lock()
        self._worker: AWorker | None = None
        self._finalizer: finalize[[], SharedWorkerHandle[AWorker]] | None = None
        self._is_closed = False

    def open(self) -> None:
        """Accept tickets again."""
        self._is_closed = False

    def close(self) -> AWorker | None:
        """Stop accepting tickets; return the worker that must still be released, if there is one."""
        with self._lock:
            self._is_closed = True
            worker, self._worker = self._worker, None
            if self._finalizer is not None:
                self._finalizer.detach()
        return worker if worker is not None and worker.is_own_process else None

    def submit(self, ticket: object) -> None:
        """Submit a ticket to the worker, or to a new one if it has ended or belongs to the parent of a fork.

        Raises:
            Exception: The error that `closed_error` returns, if the handle is closed.
        """
        with self._lock:
            if self._is_closed:
                raise self._closed_error()
            while self._worker is None or not self._worker.submit(ticket):
                self._worker = self._acquire_worker()

    def withdraw(self, ticket: object, *, undo: object) -> None:
        """Withdraw a ticket; if it was already taken, submit `undo` instead."""
        worker = self._worker
        if worker is not None and not worker.withdraw(ticket):
            worker.submit(undo)

    def _acquire_worker(self) -> AWorker:
        if self._finalizer is not None:
            self._finalizer.detach()
        worker = self._acquire()
        self._finalizer = finalize(self, worker.remove_user)
        self._finalizer.atexit = False
        return worker
