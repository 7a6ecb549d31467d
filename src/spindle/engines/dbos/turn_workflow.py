"""The workflow of a turn: one step for each iteration, and messages that end its wait for answers.

It holds ids and the number of the last step; the state of the turn is in the journal. DBOS runs this code again after a
takeover, with the recorded results of its steps.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import anyio.to_thread

from spindle.engines.dbos.client import SUSPENDED, TOPIC, translate_errors
from spindle.engines.turns import TurnIterations
from spindle.errors import EngineUnavailableError, SpindleError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject

with needs_extra("dbos", purpose="The engine DBOS"):
    import dbos

_logger = logging.getLogger("spindle.engines")

_RETRY_SECONDS: Final = 1.0
_RECEIVE_SECONDS: Final = 86_400.0
"""How long one wait for a message lasts; it is repeated, and each leaves two rows in the database."""


class RunningBody(NamedTuple):
    """What a worker runs for a workflow now."""

    task: "asyncio.Task[JsonObject]"
    cancel: Callable[[], object]
    """Ends it for its caller."""


class TurnWorkflows:
    """The workflows of the turns of one worker."""

    def __init__(
        self, iterations: TurnIterations, client: "dbos.DBOSClient", bodies: dict[str, RunningBody], *, concurrency: int
    ) -> None:
        self._iterations = iterations
        self._client = client
        self._bodies = bodies
        """By workflow, of calls and turns; the worker looks for their cancellation."""
        self._slots = asyncio.Semaphore(concurrency)
        self._waits: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    async def run(self, message: JsonObject) -> JsonObject:
        """Advance a turn until it has ended."""
        is_cancelled = False
        while True:
            if self._is_stopping:
                raise asyncio.CancelledError  # not recorded: another worker goes on
            found: JsonObject = await dbos.DBOS.run_step_async(
                {"name": "iteration"}, self._iterate, message, is_cancelled
            )
            if found["status"] == "suspended":
                is_cancelled = await self._wait_for_answers(found["step"])
            elif found["status"] != "running":
                return found

    def stop(self) -> None:
        """Begin no more iterations, and end the waits of suspended turns: other workers go on with them."""
        self._is_stopping = True
        for wait in self._waits:
            wait.cancel()

    async def _wait_for_answers(self, step: int) -> bool:
        """Wait until the journal has answers; return whether the turn is to be aborted instead."""
        while not self._is_stopping:
            wait = asyncio.create_task(dbos.DBOS.recv_async(TOPIC, _RECEIVE_SECONDS))
            self._waits.add(wait)
            try:
                message: JsonObject = await wait or {}
            finally:
                self._waits.discard(wait)
            if message.get("is_cancelled") is True:
                return True
            if message.get("step", 0) > step:
                return False
        return False

    async def _iterate(self, message: JsonObject, is_cancelled: bool) -> JsonObject:  # noqa: FBT001 - a step's argument
        run_id, cancel = str(dbos.DBOS.workflow_id), asyncio.Event()
        if is_cancelled:
            cancel.set()
        async with self._slots:
            task = asyncio.create_task(self._advance(message, cancel))
            self._bodies[run_id] = RunningBody(task, cancel.set)
            try:
                found = await task
            finally:
                task.cancel()
                self._bodies.pop(run_id, None)
        if found["status"] == "suspended":
            await self._note_suspension(run_id, found["step"])
        return found

    async def _advance(self, message: JsonObject, cancel: asyncio.Event) -> JsonObject:
        while True:
            try:
                return await self._iterations.advance(message, cancel)
            except SpindleError as error:  # a step that fails would be the end of the workflow
                _logger.warning("an iteration of a turn is started again: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _note_suspension(self, run_id: str, step: int) -> None:
        note = partial(self._client.update_workflow_attributes, run_id, {SUSPENDED: step}, merge=True)
        while True:
            try:
                with translate_errors():
                    return await anyio.to_thread.run_sync(note)
            except EngineUnavailableError:
                await asyncio.sleep(_RETRY_SECONDS)
