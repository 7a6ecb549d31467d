"""How fast upstream servers answer pings, measured while a page looks."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle import mcp
    from spindle.mcp.client.lifecycle import ServerStatus

PING_SECONDS: Final = 15.0
"""A server is pinged at most this often."""
MAX_KEPT: Final = 40
MAX_SERVERS: Final = 200
_AT_ONCE: Final = 8


@dataclass(slots=True)
class ServerLatency:
    """The latest pings of one server."""

    recent_ms: deque[float] = field(default_factory=lambda: deque[float](maxlen=MAX_KEPT))
    """Oldest first."""
    is_silent: bool = False
    """Whether it did not answer; it is not pinged again until it was started anew."""
    restarts: int = 0
    measured_at: float = float("-inf")


class Latencies:
    """Pings servers that are connected, idle and known to answer; no other one notices that someone looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, ServerLatency] = {}

    def get(self, name: str) -> ServerLatency | None:
        """Return the latest pings of a server; `None` if it was never pinged."""
        return self._known.get(name)

    async def measure(self, servers: "mcp.McpServers") -> None:
        """Ping the servers that are due, a few at a time."""
        due = [status for status in servers.status()[:MAX_SERVERS] if self._is_due(status)]
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for status in due:
                tasks.start_soon(self._ping, servers, status.name, limiter)

    def _is_due(self, status: "ServerStatus") -> bool:
        if status.state != "ready":
            return False
        known = self._known.setdefault(status.name, ServerLatency(restarts=status.restarts))
        if known.restarts != status.restarts:
            known = self._known[status.name] = ServerLatency(restarts=status.restarts)
        if known.is_silent or self._clock() - known.measured_at < PING_SECONDS:
            return False
        known.measured_at = self._clock()  # also for other pages, while it is pinged
        return True

    async def _ping(self, servers: "mcp.McpServers", name: str, limiter: anyio.CapacityLimiter) -> None:
        known = self._known[name]
        async with limiter:
            try:
                seconds = await servers.measure_latency(name)
            except SpindleError:
                known.is_silent = True
            else:
                if seconds is not None:
                    known.recent_ms.append(seconds * 1000)
