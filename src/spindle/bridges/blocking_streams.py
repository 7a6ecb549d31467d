"""Reads the stream of a blocking SDK in worker threads; who leaves hangs up."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from threading import Lock
from typing import Any, Final, Protocol

from anyio import CapacityLimiter, to_thread

_END: Final = object()


class BlockingStream(Protocol):
    """What is read: items that are waited for, and a connection behind them."""

    def __iter__(self) -> Iterator[Any]:
        """Give the items, each when it is here."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


@asynccontextmanager
async def items_of_stream(
    open_stream: Callable[[], BlockingStream], *, shut: Callable[[Any], object]
) -> AsyncGenerator[AsyncIterator[Any]]:
    """Open a stream and give its items, all of it in threads; left early, nobody waits for the rest.

    `shut` is called with the stream when a thread still waits for its next item, and has to wake that thread up.
    """
    line = _Line(open_stream, shut)
    # Its own: a model that thinks for minutes must not take a thread away from tools.
    limiter = CapacityLimiter(1)
    try:
        await to_thread.run_sync(line.open, abandon_on_cancel=True, limiter=limiter)
        yield _Items(line, limiter)
    finally:
        line.hang_up()


class _Items:
    """The items of a line; no generator, for one that is left half way would have to be closed as well."""

    def __init__(self, line: "_Line", limiter: CapacityLimiter) -> None:
        self._line, self._limiter = line, limiter

    def __aiter__(self) -> "_Items":
        return self

    async def __anext__(self) -> Any:
        item = await to_thread.run_sync(self._line.read, abandon_on_cancel=True, limiter=self._limiter)
        if item is _END:
            raise StopAsyncIteration
        return item


class _Line:
    """One stream, used by one thread at a time, and left by another."""

    def __init__(self, open_stream: Callable[[], BlockingStream], shut: Callable[[Any], object]) -> None:
        self._open, self._shut = open_stream, shut
        self._lock = Lock()
        self._stream: BlockingStream | None = None
        self._items: Iterator[Any] = iter(())
        self._is_busy = False
        self._is_left = False

    def open(self) -> None:
        stream = self._open()
        with self._lock:
            self._stream, self._items = stream, iter(stream)
            is_left = self._is_left
        if is_left:
            stream.close()

    def read(self) -> Any:
        with self._lock:
            if self._is_left:
                return _END
            self._is_busy = True
        try:
            return next(self._items, _END)
        finally:
            with self._lock:
                self._is_busy, is_left, stream = False, self._is_left, self._stream
            if is_left and stream is not None:
                stream.close()

    def hang_up(self) -> None:
        with self._lock:
            self._is_left, stream, is_busy = True, self._stream, self._is_busy
        if stream is None:
            return  # it is being opened; the thread that does so closes it
        if is_busy:
            with suppress(Exception):  # what cannot be woken ends by its own timeout
                self._shut(stream)
        else:
            stream.close()
