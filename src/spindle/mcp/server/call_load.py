"""`CallLoad`: counts the calls in progress of a server, limits those of each client, and drains them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio

CANCEL_SECONDS: Final = 2.0
"""Time for cancelled calls to end."""


class CallLoad:
    """The calls in progress of all clients; each client may have `max_per_client` of them."""

    def __init__(self, max_per_client: int) -> None:
        self._max = max_per_client
        self.running = 0
        """Number of calls in progress."""
        self._in_progress: Counter[str] = Counter()
        """The number of calls in progress of each conversation."""
        self.is_stopping = False
        """Whether new calls are refused because the server stops."""
        self._idle = anyio.Event()
        self._scopes: set[anyio.CancelScope] = set()

    @contextmanager
    def count(self, conversation: str) -> Generator[None]:
        """Count a call of a client while it is in progress."""
        self.running += 1
        self._in_progress[conversation] += 1
        try:
            yield
        finally:
            self.running -= 1
            self._in_progress[conversation] -= 1
            if not self._in_progress[conversation]:
                del self._in_progress[conversation]
            if not self.running:
                self._idle.set()

    @contextmanager
    def cancellable(self) -> Generator[None]:
        """Run the body in a scope that `drain` cancels."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    @property
    def has_full_clients(self) -> bool:
        """Whether a client has as many calls in progress as it may."""
        return any(count >= self._max for count in self._in_progress.values())

    def is_full(self, conversation: str) -> bool:
        """Return whether a client has as many calls in progress as it may."""
        return self._in_progress.get(conversation, 0) >= self._max

    def explain_full(self) -> str:
        """Return why a call is refused and what to do."""
        return (
            f"This client has {self._max} calls in progress, which is the limit (max_calls_per_session). "
            "Wait until one of them has ended, and call again."
        )

    async def drain(
        self, seconds: float, wait_others: Callable[[], Awaitable[None]], cancel_others: Callable[[], None]
    ) -> int:
        """Refuse new calls, wait for running ones, then cancel the rest; return how many were cancelled.

        `wait_others` and `cancel_others` do the same for calls that no request waits for.
        """
        self.is_stopping = True
        left = 0
        try:
            with anyio.move_on_after(seconds):
                await self._until_idle()
                await wait_others()
        finally:
            left = self.running
            cancel_others()
            for scope in tuple(self._scopes):
                scope.cancel()
            with anyio.move_on_after(CANCEL_SECONDS, shield=True):
                await self._until_idle()
        return left

    async def _until_idle(self) -> None:
        while self.running:
            self._idle = anyio.Event()
            await self._idle.wait()
