"""Health checks of a connected server: a ping at intervals, and whenever a call gives a reason for one."""

from collections.abc import Callable

import anyio

from spindle.mcp.client.lifecycle import ActiveConnection, Clock
from spindle.mcp.client.running_calls import RunningCalls
from spindle.mcp.spec import ServerSpec

HEALTH_SECONDS = 60.0
"""Interval between health checks."""
_PING_SECONDS = 10.0


class HealthChecks:
    """The health checks of one server; `mark_lost` is called for a connection that does not answer."""

    def __init__(
        self,
        spec: ServerSpec,
        clock: Clock,
        calls: RunningCalls,
        mark_lost: Callable[[ActiveConnection, str], None],
    ) -> None:
        self._spec, self._clock, self._calls, self._mark_lost = spec, clock, calls, mark_lost

    async def run(self, live: ActiveConnection) -> None:
        """Check a connection until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick, live)
            while True:
                await live.health_check_due.wait()
                live.health_check_due = anyio.Event()
                # While calls run it is not idle; if it hangs, they time out and request this check again.
                if not len(self._calls) and not await self.is_responsive(live):
                    self._mark_lost(live, "it does not answer")

    async def _tick(self, live: ActiveConnection) -> None:
        while True:
            await self._clock.sleep(HEALTH_SECONDS)
            live.health_check_due.set()

    async def is_responsive(self, live: ActiveConnection) -> bool:
        """Return whether the server answers a ping within the time limit."""
        answered, reply = anyio.Event(), [False]

        async def ask() -> None:
            reply[0] = await live.session.ping()
            answered.set()

        if live.is_lost:
            return False
        live.group.start_soon(ask)
        with anyio.move_on_after(min(_PING_SECONDS, self._spec.start_timeout_seconds)):
            await answered.wait()
        return reply[0] and not live.is_lost
