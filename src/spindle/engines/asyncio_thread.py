"""A thread with an asyncio event loop: engine clients need asyncio, and callers may run on any event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from threading import Event, Lock, Thread
from typing import Any, TypeVar

import anyio

from spindle.concurrency import ThreadsafeEvent
from spindle.errors import UsageError

T = TypeVar("T")

_CANCEL_SECONDS = 2.0
"""How long a cancelled caller waits until its coroutine has ended."""


class AsyncioThread:
    """Runs coroutines on its own event loop for callers of any event loop; the first one starts the thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._is_closed = False

    async def run(self, func: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function in the thread and return its result; cancelling the caller cancels it.

        Raises:
            UsageError: The thread was closed.
        """
        ended = ThreadsafeEvent()
        # In a context of its own: the caller's says which event loop it runs on, and that is another one.
        future = Context().run(asyncio.run_coroutine_threadsafe, func(), self._start())
        future.add_done_callback(lambda _: ended.set())
        try:
            await ended.wait()
        finally:
            if not future.done():
                future.cancel()
                with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
                    await ended.wait()
        return future.result()

    def close(self) -> None:
        """Stop the event loop and wait for the thread."""
        with self._lock:
            self._is_closed = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_CANCEL_SECONDS)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise UsageError("The transport of the engine was closed.")
            if self._loop is None:
                started = Event()
                self._thread = Thread(target=self._run, args=(started,), name=self._name, daemon=True)
                self._thread.start()
                started.wait()
            loop = self._loop
        if loop is None:  # pragma: no cover - the thread sets it before it reports
            raise RuntimeError("the event loop did not start")
        return loop

    def _run(self, started: Event) -> None:
        loop = self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.call_soon(started.set)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            loop.close()
