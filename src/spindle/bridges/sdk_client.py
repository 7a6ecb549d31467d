"""The client of a provider's SDK: the caller's, or one of our own for each event loop."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import anyio

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
async def hanging_up(stream: AsyncIterator[Any]) -> AsyncGenerator[AsyncIterator[Any]]:
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
