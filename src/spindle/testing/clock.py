"""Time that stands still until a test moves it."""

import math

import anyio
import anyio.lowlevel

from spindle.errors import UsageError


class FakeClock:
    """A clock that only `advance` moves, for whatever takes a `clock`: `StorageBackend`, `Spool`, `McpServers`.

    Deadlines of calls are the event loop's, and pass as ever.
    """

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._sleepers: dict[anyio.Event, float] = {}
        self._came: set[anyio.Event] = set()

    def __call__(self) -> float:
        """Give the seconds since the epoch, as `time.time` does."""
        return self._now

    def now(self) -> float:
        """Give the same."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let so much time pass, and wake who has slept long enough.

        Raises:
            UsageError: Time does not go back, nor to infinity.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise UsageError(f"advance(seconds) takes 0 or more, got {seconds!r}", field="seconds")
        self._now += seconds
        for woken, until in self._sleepers.items():
            if until <= self._now:
                woken.set()

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved that far."""
        woken, until = anyio.Event(), self._now + seconds
        if until <= self._now:
            await anyio.lowlevel.checkpoint()
            return
        self._sleepers[woken] = until
        for each in self._came:
            each.set()
        try:
            await woken.wait()
        finally:
            del self._sleepers[woken]

    async def asleep(self, count: int = 1, timeout_seconds: float | None = 5) -> None:
        """Wait until at least `count` tasks sleep by this clock, so that none is overlooked by `advance`.

        Raises:
            TimeoutError: So many did not go to sleep, in `timeout_seconds` of real time.
        """
        with anyio.move_on_after(timeout_seconds):
            while self._sleeping() < count:
                await self._next()
        if self._sleeping() < count:
            raise TimeoutError(f"{self._sleeping()} of {count} tasks sleep by this clock")

    def _sleeping(self) -> int:
        # One that was woken, and has not run yet, sleeps no more.
        return sum(until > self._now for until in self._sleepers.values())

    async def _next(self) -> None:
        came = anyio.Event()
        self._came.add(came)
        try:
            await came.wait()
        finally:
            self._came.discard(came)
