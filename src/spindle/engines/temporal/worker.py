"""The worker's side of Temporal: it takes activities from task queues, sends heartbeats, and runs their calls.

A worker with runners also takes their turns: each runner has a task queue for its workflows and their iterations.
"""

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
from spindle.engines.temporal.turn_workflow import ITERATION, TurnWorkflow
from spindle.engines.turns import TurnIterations
from spindle.engines.worker import CallRunner
from spindle.errors import EngineUnavailableError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject

with needs_extra("temporal", purpose="The engine Temporal"):
    from temporalio import activity
    from temporalio.exceptions import ApplicationError
    from temporalio.worker import UnsandboxedWorkflowRunner, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_THROTTLE: Final = timedelta(seconds=1)
"""Heartbeats are sent at most this often; a cancellation is known at the next one."""
_CONNECT_PAUSE_SECONDS: Final = 1.0


class TemporalWorker:
    """Takes calls from task queues of a Temporal service."""

    def __init__(
        self,
        settings: EngineSettings,
        runner: CallRunner,
        turns: TurnIterations,
        *,
        queues: Sequence[str],
        drain_seconds: float,
    ) -> None:
        self._settings = settings
        self._runner = runner
        self._turns = turns
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
                await stack.enter_async_context(self._build_worker(client, queue, [self._build_activity()]))
            for name in self._turns.names:
                queue = self._settings.get_turn_queue(name)
                worker = self._build_worker(client, queue, [self._build_iteration()], workflows=[TurnWorkflow])
                await stack.enter_async_context(worker)
            self._runner.stats.is_connected = True
            task_status.started()
            await stop.wait()
            self._runner.stats.is_draining = True

    def _build_worker(self, client: Any, queue: str, activities: Sequence[Any], workflows: Sequence[type] = ()) -> Any:
        return Worker(
            client,
            task_queue=queue,
            activities=activities,
            workflows=workflows,
            workflow_runner=UnsandboxedWorkflowRunner(),  # our only workflow is small, and imports nothing to guard
            max_concurrent_activities=self._runner.concurrency,
            max_heartbeat_throttle_interval=_THROTTLE,
            default_heartbeat_throttle_interval=_THROTTLE,
            # How long a workflow is kept for the worker that had it last, which may have died.
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=self._settings.worker_timeout_seconds / 2),
            graceful_shutdown_timeout=timedelta(seconds=self._drain_seconds),
        )

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

    def _build_iteration(self) -> Any:
        @activity.defn(name=ITERATION)
        async def advance(order: JsonObject) -> JsonObject:
            cancel = asyncio.Event()
            if order["is_cancelled"]:
                cancel.set()
            iteration = asyncio.create_task(self._turns.advance(order["message"], cancel))
            async with self._send_heartbeats():
                while True:
                    try:
                        return await asyncio.shield(iteration)
                    except asyncio.CancelledError:
                        details = activity.cancellation_details()
                        if details is not None and details.cancel_requested and not iteration.done():
                            cancel.set()  # the turn is aborted, and its end saved
                            continue
                        iteration.cancel()
                        await asyncio.wait({iteration})
                        raise ApplicationError("The worker stopped before the iteration ended.") from None

        return advance

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
