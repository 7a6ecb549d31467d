"""A store's handle on a worker thread that stores may share: acquired on first use, released when no longer needed."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from weakref import finalize


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


AWorker = TypeVar("AWorker", bound=Worker)


class SharedWorkerHandle(Generic[AWorker]):
    """One store's reference to a worker, also released if the store is garbage-collected without being closed.

    `borrow` and `closed` must not reference the store, or it would never be collected.
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

    def submit(self, ticket: Any) -> None:
        """Submit a ticket to the worker, or to a new one if it has ended or belongs to the parent of a fork.

        Raises:
            Exception: The error that `closed` returns, if the handle is closed.
        """
        with self._lock:
            if self._is_closed:
                raise self._closed_error()
            while self._worker is None or not self._worker.submit(ticket):
                self._worker = self._acquire_worker()

    def withdraw(self, ticket: Any, *, undo: Any) -> None:
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
