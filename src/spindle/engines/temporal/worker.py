"""The worker's side of Temporal: it takes activities from task queues, sends heartbeats, and runs their calls."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from spindle.engines.settings import EngineSettings
from spindle.engines.temporal.client import ACTIVITY, connect
from spindle.engines.worker import CallRunner
from spindle.errors import EngineUnavailableError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject

with needs_extra("temporal", purpose="The engine Temporal"):
    from temporalio import activity
    from temporalio.exceptions import ApplicationError
    from temporalio.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_THROTTLE: Final = timedelta(seconds=1)
"""Heartbeats are sent at most this often; a cancellation is known at the next one."""
_CONNECT_PAUSE_SECONDS: Final = 1.0


class TemporalWorker:
    """Takes calls from task queues of a Temporal service."""

    def __init__(
        self, settings: EngineSettings, runner: CallRunner, *, queues: Sequence[str], drain_seconds: float
    ) -> None:
        self._settings = settings
        self._runner = runner
        self._queues = queues
        self._drain_seconds = drain_seconds

    async def run(self, stop: anyio.Event, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Take calls until `stop` is set; then take no more, and let running ones finish for `drain_seconds`."""
        client = await self._connect(stop)
        if client is None:
            task_status.started()
            return
        async with AsyncExitStack() as stack:
            for queue in self._queues:
                worker = Worker(
                    client,
                    task_queue=queue,
                    activities=[self._build_activity()],
                    max_concurrent_activities=self._runner.concurrency,
                    max_heartbeat_throttle_interval=_THROTTLE,
                    default_heartbeat_throttle_interval=_THROTTLE,
                    graceful_shutdown_timeout=timedelta(seconds=self._drain_seconds),
                )
                await stack.enter_async_context(worker)
            self._runner.stats.is_connected = True
            task_status.started()
            await stop.wait()
            self._runner.stats.is_draining = True

    async def _connect(self, stop: anyio.Event) -> Any:
        while not stop.is_set():
            try:
                return await connect(self._settings)
            except EngineUnavailableError:
                with anyio.move_on_after(_CONNECT_PAUSE_SECONDS):
                    await stop.wait()
        return None

    def _build_activity(self) -> Any:
        @activity.defn(name=ACTIVITY)
        async def run_call(message: JsonObject) -> JsonObject:
            info = activity.info()
            async with self._send_heartbeats():
                try:
                    return await self._runner.run(message, info.activity_id, starts=info.attempt)
                except asyncio.CancelledError:
                    details = activity.cancellation_details()
                    if details is not None and details.cancel_requested:
                        raise
                    # This worker is stopping: another one takes over, as if this one had died.
                    raise ApplicationError("The worker stopped before the call ended.") from None

        return run_call

    @asynccontextmanager
    async def _send_heartbeats(self) -> "AsyncGenerator[None]":
        async def beat() -> None:
            while True:
                activity.heartbeat()
                await asyncio.sleep(self._settings.worker_timeout_seconds / 4)

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
