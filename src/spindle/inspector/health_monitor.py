"""What the page remembers about the health of the server: counts of calls, latencies, sizes, the sandbox."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

import anyio

from spindle.concurrency import BackgroundTask, file_threads, spawn_background
from spindle.errors import SpindleError
from spindle.execution.tickets import TicketOffice
from spindle.inspector.call_follower import JournalCounter
from spindle.inspector.call_stats import CallStats
from spindle.inspector.latencies import Latencies
from spindle.journal.journal import Journal
from spindle.json_types import JsonObject
from spindle.tools.registry import ToolRegistry

T = TypeVar("T")

WAIT_SECONDS: Final = 0.3
"""How long a caller waits for a value that is being found."""
STORE_SECONDS: Final = 15.0
"""The sizes of stores are looked up at most this often: a large spool takes long to list."""
SANDBOX_SECONDS: Final = 600.0
WAITING_SECONDS: Final = 5.0
MAX_WAITING: Final = 1_000


class SampledValue(Generic[T]):
    """The last value of something, found again when it is older than `seconds` and someone asks for it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._sampled_at = float("-inf")
        self._task: BackgroundTask | None = None
        self.value: T | None = None
        """`None` until it was found, and after it could not be."""

    async def get(self, find: Callable[[], Awaitable[T]]) -> T | None:
        """Return the value; one that takes longer to find is there the next time."""

        async def sample() -> None:
            try:
                self.value = await find()
            except (SpindleError, OSError):
                self.value = None

        if self._task is None or (self._task.is_done and time.monotonic() - self._sampled_at >= self._seconds):
            self._sampled_at = time.monotonic()
            self._task = spawn_background(sample, name="spindle page: sample")
        if not self._task.is_done:
            with anyio.move_on_after(WAIT_SECONDS):
                await self._task.wait()
        return self.value


class MonitoredServer(Protocol):
    """The part of a workbench that is monitored."""

    @property
    def journal(self) -> Journal:
        """Its calls."""
        ...

    @property
    def registry(self) -> ToolRegistry:
        """Its tools."""
        ...

    @property
    def tickets(self) -> TicketOffice | None:
        """Its calls that wait for approval."""
        ...

    @property
    def measure_stores(self) -> Callable[[], Awaitable[JsonObject]] | None:
        """Returns the sizes of its stores."""
        ...

    @property
    def find_sandbox(self) -> Callable[[], JsonObject] | None:
        """Returns how commands are confined; it blocks."""
        ...


@dataclass(slots=True)
class HealthMonitor:
    """Collects what the view of health shows; it does nothing while no page looks."""

    started_at: float = field(default_factory=time.time)
    latencies: Latencies = field(default_factory=Latencies)
    _stores: SampledValue[JsonObject] = field(default_factory=lambda: SampledValue[JsonObject](STORE_SECONDS))
    _sandbox: SampledValue[JsonObject] = field(default_factory=lambda: SampledValue[JsonObject](SANDBOX_SECONDS))
    _waiting: SampledValue[int] = field(default_factory=lambda: SampledValue[int](WAITING_SECONDS))
    _follower: JournalCounter | None = None

    def get_follower(self, bench: MonitoredServer) -> JournalCounter:
        """Return what counts the calls of the journal."""
        if self._follower is None:
            self._follower = JournalCounter(bench.journal, CallStats(bench.registry.has))
        return self._follower

    async def measure_stores(self, bench: MonitoredServer) -> JsonObject | None:
        """Return the sizes of spool and journal; `None` if they are not known, or not yet."""
        return None if bench.measure_stores is None else await self._stores.get(bench.measure_stores)

    async def find_sandbox(self, bench: MonitoredServer) -> JsonObject | None:
        """Return how commands of tools are confined; `None` if it is not known, or not yet."""
        find = bench.find_sandbox
        if find is None:
            return None

        async def probe() -> JsonObject:
            return await file_threads.run(find)

        return await self._sandbox.get(probe)

    async def count_waiting(self, bench: MonitoredServer) -> int | None:
        """Return how many calls wait for approval, at most `MAX_WAITING`; `None` if none can."""
        tickets = bench.tickets
        if tickets is None:
            return None

        async def count() -> int:
            return len(await tickets.read_heads(is_pending=True, limit=MAX_WAITING))

        return await self._waiting.get(count)
