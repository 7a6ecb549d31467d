"""One caller's place in the queue of a PostgreSQL journal, from whatever event loop it comes."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar

from anyio import Event

from spindle.concurrency import schedule_here
from spindle.journal.backends.postgres_calls import Calls

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Ticket(Generic[Item, Answer]):
    """What is asked, and the answers once they are durable."""

    def __init__(
        self, operation: Callable[[Calls, Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]
    ) -> None:
        self.operation = operation
        self.items = items
        self.answers: list[Answer] = []
        self.error: BaseException | None = None
        self._done = Event()
        self._schedule = schedule_here()

    async def wait(self) -> None:
        """Wait until it is answered."""
        await self._done.wait()

    def wake(self) -> None:
        """Tell the caller, from any thread, that there are answers or an error."""
        with suppress(RuntimeError):  # that loop has ended, and nobody waits there any more
            self._schedule(self._done.set)


AnyTicket: TypeAlias = Ticket[Any, Any]
