"""The client of a provider's SDK, given by the caller or created per event loop, and readers of blocking streams."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from threading import Lock
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from spindle.bridges.wire import get_field, get_str, to_plain
from spindle.concurrency import PerLoop
from spindle.errors import BrokenAnswerError, UsageError

_Client = TypeVar("_Client")

_NO_KEY: Final = "none-needed"


SendRequest: TypeAlias = Callable[..., Awaitable[Any]]
"""An SDK's method that sends a request and returns the response, or with `stream=True` an iterator of its events."""


class SdkClient(Generic[_Client]):
    """The SDK client of a callback, and the keys it sends.

    Raises:
        UsageError: Both a client and its base URL or key were passed, the key is not valid, or the client is blocking.
    """

    def __init__(
        self,
        given: _Client | None,
        make: Callable[[str | None], _Client],
        *,
        base_url: str | None,
        api_key: str | None,
        keys: Callable[[_Client], Sequence[object]],
        close: Callable[[_Client], Awaitable[object]],
        blocking: type | None = None,
    ) -> None:
        if blocking is not None and isinstance(given, blocking):
            raise UsageError(
                f"Expected an Async{blocking.__name__} client, got {blocking.__name__}, which blocks the event loop.",
                field="client",
            )
        if given is not None and (base_url is not None or api_key is not None):
            raise UsageError("Expected either client, or base_url and api_key, but got both.", field="client")
        if api_key is not None:
            _check_key(api_key)
        # A key from the environment belongs to the provider: never send it to another server.
        key = _NO_KEY if api_key is None and base_url is not None else api_key
        self._given = _without_retries(given) if given is not None else None
        self._keys, self._close = keys, close
        self._own = PerLoop(lambda: self._check(make(key)))

    def get(self) -> _Client:
        """Return the client to use on this event loop."""
        return self._given if self._given is not None else self._own.get()

    def secrets(self) -> list[str]:
        """Return the keys sent with each request."""
        return [key for key in self._keys(self.get()) if isinstance(key, str) and key != _NO_KEY]

    async def close(self) -> None:
        """Close the client created for this event loop; a client passed by the caller stays open."""
        made = self._own.take()
        if made is not None:
            await self._close(made)

    def _check(self, client: _Client) -> _Client:
        for key in self._keys(client):
            if isinstance(key, str):
                _check_key(key)
        return client


def _without_retries(client: _Client) -> _Client:
    """Disable the SDK's own retries, since the callback retries; stand-ins for a client may lack the option."""
    with_options = getattr(client, "with_options", None)
    return client if with_options is None else with_options(max_retries=0)


@asynccontextmanager
async def closing_stream(stream: AsyncIterator[object]) -> AsyncGenerator[AsyncIterator[object]]:
    """Yield the events of a stream, and close it on exit."""
    try:
        yield stream
    finally:
        # Shielded: the connection must be closed on cancellation too, or the server keeps generating.
        with anyio.CancelScope(shield=True):
            close = getattr(stream, "close", None) or getattr(stream, "aclose", None)
            if close is not None:
                await close()


_FOREIGN_TYPES: Final = frozenset({"text/html", "application/json", "application/problem+json"})
"""Content types of a body that is not a stream of events, but a page or an error."""
_EVENT_FIELD: Final = re.compile(r"\s*(?:data|event|id|retry)?:")


async def read_foreign_body(stream: object) -> object:
    """Return the body of a response that is not a stream of events, parsed if it is JSON; `None` if it is a stream.

    Raises:
        BrokenAnswerError: The body cannot be read.
    """
    response: Any = getattr(stream, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", {})
    if headers.get("content-type", "").partition(";")[0].strip().lower() not in _FOREIGN_TYPES:
        return None
    try:
        # The SDK can still iterate over the body after this, in case it is a stream with a wrong content type.
        text = (await response.aread()).decode("utf-8", "replace")
    except Exception as error:
        raise BrokenAnswerError(f"{type(error).__name__}: {error}") from error
    return None if not text.strip() or _EVENT_FIELD.match(text) else parse_body(text)


def parse_body(text: str) -> object:
    """Return a body as plain data, or as text if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def get_words(error: object) -> str:
    """Return the message of an error, which some servers send as a bare text."""
    return error if isinstance(error, str) else get_str(error, "message")


def describe_body(response: object) -> str:
    """Return what a server says in a response that is not a model's: its message, or all of it."""
    plain = to_plain(response)
    words = get_words(get_field(plain, "error")) or get_words(plain)
    return words or json.dumps(plain, ensure_ascii=False, default=str)


def get_retry_after(headers: Mapping[str, str]) -> str | None:
    """Return the `retry-after` header, in seconds or as a date; the more exact one in milliseconds has precedence."""
    milliseconds = headers.get("retry-after-ms")
    try:
        return str(float(milliseconds) / 1000) if milliseconds else headers.get("retry-after")
    except ValueError:
        return headers.get("retry-after")


def _check_key(key: str) -> None:
    """Reject a key that no header can carry, before an HTTP library does so with the key in its message."""
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise UsageError(
            "Expected api_key to be printable ASCII without blanks or line breaks around it; it may be empty, or read "
            "from a file or an environment variable that ends with a line break.",
            field="api_key",
        )


_END: Final = object()


class BlockingStream(Protocol):
    """A stream with blocking iteration, and the connection behind it."""

    def __iter__(self) -> Iterator[object]:
        """Yield the items, blocking until each arrives."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


_Stream = TypeVar("_Stream", bound=BlockingStream)


@asynccontextmanager
async def iterate_blocking_stream(
    open_stream: Callable[[], _Stream], *, interrupt: Callable[[_Stream], object]
) -> AsyncGenerator[AsyncIterator[object]]:
    """Open a stream and yield its items, using worker threads; leaving early does not wait for the rest.

    `interrupt` is called with the stream while a thread still waits for its next item, and must wake that thread.
    """
    reader = _BlockingStreamReader(open_stream, interrupt)
    # A limiter of its own: a model that thinks for minutes must not occupy a thread that tools need.
    limiter = CapacityLimiter(1)
    try:
        await to_thread.run_sync(reader.open, abandon_on_cancel=True, limiter=limiter)
        yield _Items(reader.read, limiter)
    finally:
        reader.abandon()


class _Items:
    """An async iterator over the items; not a generator, which would have to be closed when left early."""

    def __init__(self, read: Callable[[], object], limiter: CapacityLimiter) -> None:
        self._read, self._limiter = read, limiter

    def __aiter__(self) -> "_Items":
        return self

    async def __anext__(self) -> object:
        item = await to_thread.run_sync(self._read, abandon_on_cancel=True, limiter=self._limiter)
        if item is _END:
            raise StopAsyncIteration
        return item


class _BlockingStreamReader(Generic[_Stream]):
    """A blocking stream, read by one thread at a time and abandoned by another."""

    def __init__(self, open_stream: Callable[[], _Stream], interrupt: Callable[[_Stream], object]) -> None:
        self._open, self._interrupt = open_stream, interrupt
        self._lock = Lock()
        self._stream: _Stream | None = None
        self._items: Iterator[object] = iter(())
        self._is_busy = False
        self._is_left = False

    def open(self) -> None:
        stream = self._open()
        with self._lock:
            self._stream, self._items = stream, iter(stream)
            is_left = self._is_left
        if is_left:
            stream.close()

    def read(self) -> object:
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

    def abandon(self) -> None:
        with self._lock:
            self._is_left, stream, is_busy = True, self._stream, self._is_busy
        if stream is None:
            return  # still opening; the opening thread closes it
        if is_busy:
            with suppress(Exception):  # otherwise the thread ends by its own timeout
                self._interrupt(stream)
        else:
            stream.close()
