"""The client of a provider's SDK: the caller's, or one of our own for each event loop."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from threading import Lock
from typing import Any, Final, Generic, Protocol, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from spindle.concurrency import PerLoop
from spindle.errors import UsageError

_Client = TypeVar("_Client")

_NO_KEY: Final = "none-needed"


class SdkClient(Generic[_Client]):
    """Gives the client to ask with, and knows which keys it sends.

    Raises:
        UsageError: Both a client and its address or key were given, the key is none, or the client is a blocking one.
    """

    def __init__(
        self,
        given: _Client | None,
        make: Callable[[str | None], _Client],
        *,
        base_url: str | None,
        api_key: str | None,
        keys: Callable[[_Client], Sequence[Any]],
        close: Callable[[_Client], Awaitable[object]],
        blocking: type | None = None,
    ) -> None:
        if blocking is not None and isinstance(given, blocking):
            raise UsageError(
                f"a client of {blocking.__name__} would block the event loop; give one of Async{blocking.__name__}",
                field="client",
            )
        if given is not None and (base_url is not None or api_key is not None):
            raise UsageError("a client has its own base_url and api_key; give either it or them", field="client")
        if api_key is not None:
            _check_key(api_key)
        # A key of the environment is the provider's: another server is not told it.
        key = _NO_KEY if api_key is None and base_url is not None else api_key
        self._given = _without_retries(given) if given is not None else None
        self._keys, self._close = keys, close
        self._own = PerLoop(lambda: self._checked(make(key)))

    def get(self) -> _Client:
        """Give the client to use on this event loop."""
        return self._given if self._given is not None else self._own.get()

    def secrets(self) -> list[str]:
        """Give the keys that are sent with each request."""
        return [key for key in self._keys(self.get()) if isinstance(key, str) and key != _NO_KEY]

    async def close(self) -> None:
        """Close our own client of this event loop; the caller's stays open."""
        made = self._own.take()
        if made is not None:
            await self._close(made)

    def _checked(self, client: _Client) -> _Client:
        for key in self._keys(client):
            if isinstance(key, str):
                _check_key(key)
        return client


def _without_retries(client: _Client) -> _Client:
    """Asking again is our work, and not also the SDK's; who stands in for its client may have nothing to turn off."""
    with_options = getattr(client, "with_options", None)
    return client if with_options is None else with_options(max_retries=0)


@asynccontextmanager
async def closing_stream(stream: AsyncIterator[Any]) -> AsyncGenerator[AsyncIterator[Any]]:
    """Give the events of a stream, and close it behind them."""
    try:
        yield stream
    finally:
        # Hanging up takes a moment, also for who was told to stop: the server must not go on for nobody.
        with anyio.CancelScope(shield=True):
            close = getattr(stream, "close", None) or getattr(stream, "aclose", None)
            if close is not None:
                await close()


def _check_key(key: str) -> None:
    """Refuse what no header can carry, before an HTTP library does so and says which key it was."""
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise UsageError(
            "the API key is empty, or holds blanks, line breaks or letters that no key has; look at where it is read "
            "from, often a file or an environment variable that ends with a line break",
            field="api_key",
        )


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
    line = _BlockingStreamReader(open_stream, shut)
    # Its own: a model that thinks for minutes must not take a thread away from tools.
    limiter = CapacityLimiter(1)
    try:
        await to_thread.run_sync(line.open, abandon_on_cancel=True, limiter=limiter)
        yield _Items(line, limiter)
    finally:
        line.hang_up()


class _Items:
    """The items of a line; no generator, for one that is left half way would have to be closed as well."""

    def __init__(self, line: "_BlockingStreamReader", limiter: CapacityLimiter) -> None:
        self._line, self._limiter = line, limiter

    def __aiter__(self) -> "_Items":
        return self

    async def __anext__(self) -> Any:
        item = await to_thread.run_sync(self._line.read, abandon_on_cancel=True, limiter=self._limiter)
        if item is _END:
            raise StopAsyncIteration
        return item


class _BlockingStreamReader:
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
