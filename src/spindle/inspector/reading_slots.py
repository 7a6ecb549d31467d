"""How much of the server the readers of the page may use at once, so that calls of clients go on meanwhile.

A query of an artifact takes a thread or a process for seconds. Each profile, with all its logins, has some of the
slots, so that it cannot take those of others; what waits for one is bounded, too.
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from spindle.concurrency import PerLoop
from spindle.errors import RequestConflictError
from spindle.inspector.endpoints import PageUser

MAX_WAITING: Final = 20
"""Requests of one profile that may run or wait for a slot."""


class ReadingSlots:
    """Slots for one kind of work."""

    def __init__(self, *, at_once: int, of_one: int, max_waiting: int = MAX_WAITING) -> None:
        self._all = anyio.CapacityLimiter(at_once)
        self._of_one, self._max_waiting = of_one, max_waiting
        self._own: dict[str | None, anyio.CapacityLimiter] = {}
        self._waiting: Counter[str | None] = Counter()

    @asynccontextmanager
    async def take(self, user: PageUser) -> AsyncGenerator[None]:
        """Wait for a slot, and hold it.

        Raises:
            RequestConflictError: Too many requests of the same profile wait already.
        """
        key = user.profile
        if self._waiting[key] >= self._max_waiting:
            raise RequestConflictError("too many of these requests are in progress; wait for one to end")
        own = self._own.setdefault(key, anyio.CapacityLimiter(self._of_one))
        self._waiting[key] += 1
        try:
            async with own, self._all:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._own[key]


queries: Final = PerLoop(lambda: ReadingSlots(at_once=2, of_one=1))
"""For queries that may take many seconds: searches, JSONPath, SQL."""
reads: Final = PerLoop(lambda: ReadingSlots(at_once=4, of_one=3, max_waiting=100))
"""For parts of an artifact, which take less than a second; with the above fewer than the threads of the spool."""
traces: Final = PerLoop(lambda: ReadingSlots(at_once=1, of_one=1))
"""For sessions whose information flow is followed: it is work for one core."""
