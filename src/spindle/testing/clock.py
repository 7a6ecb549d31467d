"""A fake clock that tests advance by hand."""

import math

import anyio
import anyio.lowlevel

from spindle.errors import UsageError


class FakeClock:
    """A clock that only `advance` moves, for classes with a `clock` argument: `StorageBackend`, `Spool`, `McpServers`.

    Deadlines of calls use the event loop's clock and are not affected.
    """

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._sleepers: dict[anyio.Event, float] = {}
        self._waiters: set[anyio.Event] = set()

    def __call__(self) -> float:
        """Return the seconds since the epoch, like `time.time`."""
        return self._now

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward and wake sleepers whose time has come.

        Raises:
            UsageError: `seconds` is negative or not finite.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise UsageError(
                f"advance(seconds) expects a finite number of at least 0, got {seconds!r}", field="seconds"
            )
        self._now += seconds
        for woken, until in self._sleepers.items():
            if until <= self._now:
                woken.set()

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced by `seconds`."""
        woken, until = anyio.Event(), self._now + seconds
        if until <= self._now:
            await anyio.lowlevel.checkpoint()
            return
        self._sleepers[woken] = until
        for each in self._waiters:
            each.set()
        try:
            await woken.wait()
        finally:
            del self._sleepers[woken]

    async def asleep(self, count: int = 1, timeout_seconds: float | None = 5) -> None:
        """Wait until at least `count` tasks sleep on this clock, so that `advance` wakes them all.

        Raises:
            TimeoutError: Fewer tasks sleep after `timeout_seconds` of real time.
        """
        with anyio.move_on_after(timeout_seconds):
            while self._count_sleepers() < count:
                await self._next()
        if self._count_sleepers() < count:
            raise TimeoutError(f"only {self._count_sleepers()} of {count} tasks sleep on this clock")

    def _count_sleepers(self) -> int:
        # A task that was woken but has not run yet does not count.
        return sum(until > self._now for until in self._sleepers.values())

    async def _next(self) -> None:
        came = anyio.Event()
        self._waiters.add(came)
        try:
            await came.wait()
        finally:
            self._waiters.discard(came)
