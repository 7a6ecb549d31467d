"""How long to wait before a server is tried again, and when to give up. No clock, no I/O."""

from dataclasses import dataclass
from typing import Protocol

import anyio

FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 30.0
ATTEMPTS = 5


@dataclass
class Backoff:
    """Counts failures in a row: waits 1 s, 2 s, 4 s … 30 s at most, and after five new attempts there is none."""

    failures: int = 0

    def failed(self) -> float | None:
        """Take note of a failure; gives the seconds to wait, or `None` when it is time to give up."""
        self.failures += 1
        if self.failures > ATTEMPTS:
            return None
        return min(FIRST_WAIT_SECONDS * 2 ** (self.failures - 1), MAX_WAIT_SECONDS)

    def reset(self) -> None:
        """Begin anew: it works again, or somebody asked for it."""
        self.failures = 0


class Clock(Protocol):
    """What passes the time between attempts and between health checks."""

    def now(self) -> float:
        """Give the seconds since some moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...


class LoopClock:
    """The event loop's own clock."""

    def now(self) -> float:
        """Give the loop's time."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await anyio.sleep(seconds)
