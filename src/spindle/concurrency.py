"""Concurrency primitives that are safe across event loops and threads: worker threads, events, per-loop values."""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from threading import get_ident
from typing import Any, Generic, TypeAlias, TypeVar, TypeVarTuple

from anyio import CapacityLimiter, Event
from anyio.lowlevel import EventLoopToken, RunVar, current_token
from anyio.to_thread import run_sync

T = TypeVar("T")
Args = TypeVarTuple("Args")

Schedule: TypeAlias = Callable[[Callable[[], object]], object]

MAX_THREADS = 8
"""Maximum number of threads per pool and event loop."""

owner_loop: ContextVar[EventLoopToken | None] = ContextVar("owner_loop", default=None)
"""In the thread of a sync handler: the event loop that its call belongs to."""


class PerLoop(Generic[T]):
    """One value for each event loop, created on first use there."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: RunVar[T | None] = RunVar("made", None)

    def get(self) -> T:
        """Return the value of the running event loop."""
        made = self._made.get()
        if made is None:
            made = self._make()
            self._made.set(made)
        return made

    def take(self) -> T | None:
        """Remove and return the value of the running event loop, or None if it was never created."""
        made = self._made.get()
        self._made.set(None)
        return made


class WorkerThreads:
    """A pool of threads for the blocking work of one subsystem, so that it cannot starve the others."""

    def __init__(self) -> None:
        self._limiter = PerLoop(lambda: CapacityLimiter(MAX_THREADS))  # a limiter is bound to the loop that created it

    async def run(self, func: Callable[[*Args], T], *args: *Args) -> T:
        """Run a blocking function in a thread; a cancelled caller waits until it has ended."""
        return await run_sync(func, *args, limiter=self._limiter.get())

    async def run_abandonable(self, func: Callable[[*Args], T], *args: *Args) -> T:
        """Run a blocking function without side effects in a thread; a cancelled caller does not wait for it."""
        return await run_sync(func, *args, abandon_on_cancel=True, limiter=self._limiter.get())


spool_threads = WorkerThreads()
storage_threads = WorkerThreads()
file_threads = WorkerThreads()


def schedule_here() -> Schedule:
    """Return a function that runs a callback soon on this event loop: from any thread, in order, without waiting.

    Calling it after the loop was closed raises `RuntimeError`.
    """
    loop: Any = current_token().native_token
    return loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon


class ThreadsafeEvent:
    """An event that tasks of one event loop wait for and that any thread may set."""

    __slots__ = ("_event", "_owner", "_schedule")

    def __init__(self) -> None:
        self._event = Event()
        self._owner = get_ident()
        self._schedule = schedule_here()

    def set(self) -> None:
        """Wake the waiting tasks; do nothing if their loop is closed."""
        with suppress(RuntimeError):
            if get_ident() == self._owner:
                self._event.set()
            else:
                self._schedule(self._event.set)

    async def wait(self) -> None:
        """Wait until the event is set."""
        await self._event.wait()
