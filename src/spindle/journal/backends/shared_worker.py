"""A store's handle on a worker thread that stores may share: acquired on first use, released when no longer needed."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from weakref import finalize


class Worker(Protocol):
    """A thread that executes tickets for all of its users."""

    @property
    def is_ours(self) -> bool:
        """Whether this process started the worker: a forked child has its memory, but not its thread."""
        ...

    def submit(self, ticket: Any) -> bool:
        """Queue a ticket; return False if the worker no longer accepts any."""
        ...

    def withdraw(self, ticket: Any) -> bool:
        """Remove a ticket from the queue; return False if it was already taken."""
        ...

    def leave(self, farewell: Any = None) -> None:
        """Release the worker; `farewell` is completed once that is done."""
        ...


AWorker = TypeVar("AWorker", bound=Worker)


class SharedWorkerHandle(Generic[AWorker]):
    """One store's reference to a worker, also released if the store is garbage-collected without being closed.

    `borrow` and `closed` must not reference the store, or it would never be collected.
    """

    def __init__(self, borrow: Callable[[], AWorker], *, closed: Callable[[], Exception]) -> None:
        self._borrow, self._closed = borrow, closed
        self._lock = Lock()
        self._worker: AWorker | None = None
        self._leaving: finalize[[], SharedWorkerHandle[AWorker]] | None = None
        self._is_closed = False

    def open(self) -> None:
        """Accept tickets again."""
        self._is_closed = False

    def close(self) -> AWorker | None:
        """Stop accepting tickets; return the worker that must still be released, if there is one."""
        with self._lock:
            self._is_closed = True
            worker, self._worker = self._worker, None
            if self._leaving is not None:
                self._leaving.detach()
        return worker if worker is not None and worker.is_ours else None

    def submit(self, ticket: Any) -> None:
        """Submit a ticket to the worker, or to a new one if it has ended or belongs to the parent of a fork.

        Raises:
            Exception: The error that `closed` returns, if the handle is closed.
        """
        with self._lock:
            if self._is_closed:
                raise self._closed()
            while self._worker is None or not self._worker.submit(ticket):
                self._worker = self._borrowed()

    def withdraw(self, ticket: Any, *, undo: Any) -> None:
        """Withdraw a ticket; if it was already taken, submit `undo` instead."""
        worker = self._worker
        if worker is not None and not worker.withdraw(ticket):
            worker.submit(undo)

    def _borrowed(self) -> AWorker:
        if self._leaving is not None:
            self._leaving.detach()
        worker = self._borrow()
        self._leaving = finalize(self, worker.leave)
        self._leaving.atexit = False
        return worker
