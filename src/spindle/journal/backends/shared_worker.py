"""A store's share in a worker that other stores may share: borrowed on first use, left when nobody needs it here."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from weakref import finalize


class Worker(Protocol):
    """Does in a thread of its own what it is asked, for as many as have borrowed it."""

    @property
    def is_ours(self) -> bool:
        """Whether this process started it: a forked child has its memory, but not its thread."""
        ...

    def submit(self, ticket: Any) -> bool:
        """Queue a ticket; says whether the worker still takes any."""
        ...

    def withdraw(self, ticket: Any) -> bool:
        """Take a ticket back; says whether it was still in time."""
        ...

    def leave(self, farewell: Any = None) -> None:
        """Be a user no more."""
        ...


AWorker = TypeVar("AWorker", bound=Worker)


class SharedWorkerHandle(Generic[AWorker]):
    """One store's hold on a worker; a store that is forgotten rather than closed lets go of it too.

    `borrow` and `closed` must not know the store, or they would keep it from being forgotten.
    """

    def __init__(self, borrow: Callable[[], AWorker], *, closed: Callable[[], Exception]) -> None:
        self._borrow, self._closed = borrow, closed
        self._lock = Lock()
        self._worker: AWorker | None = None
        self._leaving: finalize[[], SharedWorkerHandle[AWorker]] | None = None
        self._is_closed = False

    def open(self) -> None:
        """Take tickets again."""
        self._is_closed = False

    def close(self) -> AWorker | None:
        """Take no more tickets; gives the worker that is still to be left, if there is one."""
        with self._lock:
            self._is_closed = True
            worker, self._worker = self._worker, None
            if self._leaving is not None:
                self._leaving.detach()
        return worker if worker is not None and worker.is_ours else None

    def submit(self, ticket: Any) -> None:
        """Hand a ticket to the worker, or to a new one: it ends when it could not begin, and a forked child has none.

        Raises:
            Exception: What `closed` gives, when this is closed.
        """
        with self._lock:
            if self._is_closed:
                raise self._closed()
            while self._worker is None or not self._worker.submit(ticket):
                self._worker = self._borrowed()

    def withdraw(self, ticket: Any, *, undo: Any) -> None:
        """Take a ticket back; where that is too late, hand in another that undoes it."""
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
