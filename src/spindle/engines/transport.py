"""The transport that runs calls on an engine: the same for every engine, on top of its `EngineClient`."""

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio

from spindle.artifacts.spool import Spool
from spindle.calls import Err, Ok
from spindle.engines.client import EngineAnswer, EngineCall, EngineClient
from spindle.engines.connection import EngineConnection
from spindle.engines.messages import MessageCodec
from spindle.engines.settings import EngineSettings
from spindle.errors import EngineMessageError, EngineUnavailableError, SpoolError
from spindle.execution.transport import CancelSignal, Request
from spindle.json_types import JsonObject
from spindle.tools.declaration import Tool

if TYPE_CHECKING:
    from spindle.execution.state_key import StateKey

_logger = logging.getLogger("spindle.engines")

_SIGNAL_SECONDS = 0.25
"""The interval at which the cancel signal of a call is read."""
_CANCEL_SECONDS = 2.0
"""How long a caller that leaves waits until the engine has its cancellation."""


class EngineTransport:
    """Runs requests on the workers of an engine; usable from several event loops and threads.

    The engine records each call under its idempotency key: the same request again, from any process, returns the
    recorded result. Read-only tools run again instead.
    """

    def __init__(
        self,
        client: EngineClient,
        settings: EngineSettings,
        *,
        spool: Spool | None = None,
        state_key: "StateKey | None" = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._codec = MessageCodec(spool=spool, key=state_key)
        self._connection = EngineConnection(client, settings)
        self.remembers_seconds = settings.retention_seconds
        """How long after its start a call is remembered at least."""

    def accepts(self, tool: Tool) -> bool:
        """Return whether calls of the tool run on the engine."""
        return self._settings.runs_on_engine(tool)

    async def execute(self, request: Request, cancel: CancelSignal) -> Ok | Err:
        """Run the request on a worker and return its result; cancelling the caller cancels it there."""
        queue = self._settings.find_queue(request.toolset)
        if queue is None:
            return Err("not_available", f"No task queue is configured for {request.tool!r}.", by="spindle")
        call_id = build_call_id(request)
        try:
            await self._connection.open()
            message = await self._codec.encode_request(request, call_id)
        except EngineUnavailableError as error:
            text = f"The tool {request.tool!r} was not run: its engine cannot be reached."
            return Err("not_available", text, retryable=True, cause=error, by="spindle")
        except (EngineMessageError, SpoolError) as error:
            return Err("not_available", str(error), cause=error, by="spindle")
        call = EngineCall(
            id=call_id, queue=queue, message=message, seconds_left=request.seconds_left, summary=request.tool
        )
        answer = await self._run(call, cancel)
        return await self._read(answer, request)

    async def find_problem(self) -> str | None:
        """Connect once, and return why that is not possible, or `None`."""
        try:
            await self._connection.try_once()
        except EngineUnavailableError as error:
            return str(error)
        return None

    async def close(self) -> None:
        """Close the connection to the engine."""
        await self._connection.close()

    async def _run(self, call: EngineCall, cancel: CancelSignal) -> EngineAnswer:
        """Start the call and wait for its answer, also while the engine restarts; the caller has the deadline."""
        answers: list[EngineAnswer] = []

        async def wait() -> None:
            try:
                await self._connection.repeat(lambda: self._client.start(call))
            except Exception as error:  # noqa: BLE001 - such as a missing namespace, or a message that is too large
                _logger.warning("the engine refused a call of %s: %s", call.summary, type(error).__name__)
                answers.append(EngineAnswer(status="refused"))
            else:
                answers.append(await self._connection.repeat(lambda: self._client.wait(call.id)))
            tasks.cancel_scope.cancel()

        async def watch() -> None:
            while not cancel.cancelled:  # noqa: ASYNC110 - the port has a flag, not an event
                await anyio.sleep(_SIGNAL_SECONDS)
            await self._connection.repeat(lambda: self._client.cancel(call.id))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                tasks.start_soon(watch)
        finally:
            if not answers:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_SECONDS):
                    await self._connection.repeat(lambda: self._client.cancel(call.id))
        return answers[0]

    async def _read(self, answer: EngineAnswer, request: Request) -> Ok | Err:
        match answer:
            case EngineAnswer(status="finished", message=message) if message is not None:
                return await self._decode(message, request)
            case EngineAnswer(status="cancelled"):
                return Err("cancelled", f"The call of {request.tool!r} was cancelled.", by="spindle")
            case EngineAnswer(status="refused"):
                return Err("not_available", f"The engine refused the call of {request.tool!r}.", by="spindle")
            case EngineAnswer(status="timed_out"):
                return Err("timed_out", f"The call of {request.tool!r} took too long on the engine.", by="spindle")
            case _:
                return build_interrupted(request.tool)

    async def _decode(self, message: JsonObject, request: Request) -> Ok | Err:
        try:
            return await self._codec.decode_result(message)
        except (EngineMessageError, SpoolError) as error:
            text = f"The tool {request.tool!r} has run, but its result cannot be read here: {error}"
            return Err("execution_failed", text, cause=None, by="spindle")


def build_call_id(request: Request) -> str:
    """Return the id of a request on the engine: equal for the same attempt of the same call."""
    attempt = f"-{request.attempt}" if request.attempt > 1 else ""
    return f"spindle-{request.idempotency_key}{attempt}" + (f"-{uuid4().hex}" if request.read_only else "")


def build_interrupted(tool: str) -> Err:
    """Build the result of a call whose worker died and that must not run again."""
    text = (
        f"The call of {tool!r} was interrupted: its worker died, so it is unknown whether it took effect. "
        "It was not run again: find out first."
    )
    return Err("interrupted", text, by="spindle")
