"""The worker's side of DBOS: it takes workflows from queues and runs their calls, under a lease that it renews.

The workflow of a call has two steps: `begin`, which records that the body starts, and `run`, which records the result.
An execution that finds `begin` recorded knows that another worker has started the body before.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from spindle.engines.dbos.client import (
    APPLICATION,
    CANCELLED,
    TURN_WORKFLOW,
    VERSION,
    WAS_CANCELLED,
    WORKFLOW,
    get_database_url,
    open_client,
    translate_errors,
)
from spindle.engines.dbos.leases import WorkerLeases
from spindle.engines.dbos.turn_workflow import RunningBody, TurnWorkflows
from spindle.engines.settings import EngineSettings
from spindle.engines.turns import TurnIterations
from spindle.engines.worker import CallRunner
from spindle.errors import EngineUnavailableError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject

with needs_extra("dbos", purpose="The engine DBOS"):
    import dbos

P = ParamSpec("P")
T = TypeVar("T")

_logger = logging.getLogger("spindle.engines")

_QUEUE_POLL_SECONDS: Final = 0.2
_WATCH_SECONDS: Final = 0.5
"""The interval at which a worker looks for cancellations of its calls."""
_CONNECT_PAUSE_SECONDS: Final = 1.0
_STARTS: Final = "spindle_starts"
"""The attribute of a workflow that counts its takeovers."""


class DbosWorker:
    """Takes calls from queues of DBOS; one in a process, because DBOS is one instance in a process."""

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
        self._queues = queues
        self._turn_queues = [settings.get_turn_queue(name) for name in turns.names]
        self._drain_seconds = drain_seconds
        self._id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._leases = WorkerLeases(get_database_url(settings), self._id, seconds=settings.worker_timeout_seconds)
        self._client = open_client(settings)
        self._bodies: dict[str, RunningBody] = {}
        self._turns = TurnWorkflows(turns, self._client, self._bodies, concurrency=runner.concurrency)

    async def run(self, stop: anyio.Event, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Take calls until `stop` is set; then take no more, and let running ones finish for `drain_seconds`."""
        if not await self._take_lease(stop):
            task_status.started()
            return
        await self._launch()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._renew)
            tasks.start_soon(self._watch)
            self._runner.stats.is_connected = True
            task_status.started()
            await stop.wait()
            self._runner.stats.is_draining = True
            self._turns.stop()
            # It takes no more workflows, waits, and closes its connections: what is left is not recorded.
            await _in_thread(dbos.DBOS.destroy, workflow_completion_timeout_sec=round(self._drain_seconds))
            tasks.cancel_scope.cancel()
        for body in self._bodies.values():
            body.task.cancel()
        with anyio.CancelScope(shield=True):
            await self._leases.release()
            await _in_thread(self._client.destroy)

    async def _take_lease(self, stop: anyio.Event) -> bool:
        while not stop.is_set():
            try:
                await self._leases.renew()
            except EngineUnavailableError:
                with anyio.move_on_after(_CONNECT_PAUSE_SECONDS):
                    await stop.wait()
            else:
                return True
        return False

    async def _launch(self) -> None:
        dbos.DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": get_database_url(self._settings),
                "executor_id": self._id,
                "application_version": VERSION,
                "serializer": dbos.DBOSPortableJSONSerializer(),
                "log_level": "ERROR",
            }
        )
        dbos.DBOS.workflow(name=WORKFLOW)(self._build_workflow())
        dbos.DBOS.workflow(name=TURN_WORKFLOW)(self._build_turn_workflow())
        dbos.DBOS.listen_queues([*self._queues, *self._turn_queues])
        dbos.DBOS.launch()  # in this thread: it adopts the running event loop, and workflows run there
        for queue in (*self._queues, *self._turn_queues):
            await dbos.DBOS.register_queue_async(
                queue,
                # Turns that wait for answers must not keep others out; their iterations are limited by the worker.
                worker_concurrency=None if queue in self._turn_queues else self._runner.concurrency,
                polling_interval_sec=_QUEUE_POLL_SECONDS,
                on_conflict="always_update",
            )

    def _build_workflow(self) -> Any:
        async def run_call(message: JsonObject) -> JsonObject:
            call_id = str(dbos.DBOS.workflow_id)
            began_here: list[bool] = []

            async def begin() -> bool:
                began_here.append(True)
                return True

            async def run() -> JsonObject:
                starts = 1
                if not began_here:
                    attributes = await self._read_attributes(call_id)
                    starts += int(attributes.get(_STARTS, 1))
                    if attributes.get(CANCELLED) is True:  # cancelled while it was taken over
                        return WAS_CANCELLED
                body = asyncio.create_task(self._runner.run(message, call_id, starts=starts))
                self._bodies[call_id] = RunningBody(body, body.cancel)
                try:
                    return await body
                except asyncio.CancelledError:
                    # Cancelled by its caller, or taken over: then the engine refuses this result.
                    return WAS_CANCELLED
                finally:
                    self._bodies.pop(call_id, None)

            await dbos.DBOS.run_step_async({"name": "begin"}, begin)
            return await dbos.DBOS.run_step_async({"name": "run"}, run)

        return run_call

    def _build_turn_workflow(self) -> Any:
        async def run_turn(message: JsonObject) -> JsonObject:
            return await self._turns.run(message)

        return run_turn

    async def _renew(self) -> None:
        """Renew the own lease, and take over the calls and turns of workers without one."""
        while True:
            try:
                await self._leases.renew()
                await self._take_over()
            except EngineUnavailableError as error:
                _logger.warning("the lease of this worker could not be renewed: %s", error)
            await asyncio.sleep(self._settings.worker_timeout_seconds / 4)

    async def _take_over(self) -> None:
        async with self._leases.hold_takeover_lock() as is_held:
            if not is_held:
                return
            living = await self._leases.list_living()
            with translate_errors():
                running = await _in_thread(
                    self._client.list_workflows,
                    status="PENDING",
                    name=[WORKFLOW, TURN_WORKFLOW],
                    load_input=False,
                    load_output=False,
                )
                for each in running:
                    if each.executor_id in living:
                        continue
                    takeovers = int((each.attributes or {}).get(_STARTS, 0)) + 1
                    await _in_thread(
                        self._client.update_workflow_attributes, each.workflow_id, {_STARTS: takeovers}, merge=True
                    )
                    await _in_thread(self._client.resume_workflow, each.workflow_id, queue_name=each.queue_name)

    async def _read_attributes(self, call_id: str) -> JsonObject:
        while True:
            try:
                with translate_errors():
                    found = await _in_thread(self._client.list_workflows, workflow_ids=[call_id], load_input=False)
            except EngineUnavailableError:  # a step that fails would be the outcome of the call
                await asyncio.sleep(_CONNECT_PAUSE_SECONDS)
            else:
                return (found[0].attributes or {}) if found else {}

    async def _watch(self) -> None:
        """Cancel the bodies of calls that were cancelled, or that another worker has taken over."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if not self._bodies:
                continue
            try:
                with translate_errors():
                    found = await _in_thread(
                        self._client.list_workflows,
                        workflow_ids=list(self._bodies),
                        load_input=False,
                        load_output=False,
                    )
            except EngineUnavailableError:
                continue
            for each in found:
                body = self._bodies.get(each.workflow_id)
                is_cancelled = each.status == "CANCELLED" or (each.attributes or {}).get(CANCELLED) is True
                if body is not None and each.executor_id != self._id:
                    body.task.cancel()
                elif body is not None and is_cancelled:
                    body.cancel()


async def _in_thread(func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread of anyio: DBOS replaces those of the event loop, and shuts them down."""
    return await anyio.to_thread.run_sync(partial(func, *args, **kwargs))
