"""The caller's side of Temporal: one call is one standalone activity, one turn is one workflow, each under its id."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from spindle.engines.client import EngineAnswer, EngineCall, EngineTurn
from spindle.engines.settings import EngineSettings
from spindle.engines.temporal.turn_workflow import ANSWER, CANCEL, SUSPENDED, TURN_WORKFLOW
from spindle.errors import EngineUnavailableError
from spindle.extras import needs_extra
from spindle.turns.engine import TurnRest

with needs_extra("temporal", purpose="The engine Temporal"):
    from temporalio.client import ActivityFailureError, Client, WorkflowFailureError, WorkflowHandle
    from temporalio.common import (
        ActivityIDConflictPolicy,
        ActivityIDReusePolicy,
        RetryPolicy,
        WorkflowIDConflictPolicy,
        WorkflowIDReusePolicy,
    )
    from temporalio.exceptions import (
        ActivityAlreadyStartedError,
        CancelledError,
        TerminatedError,
        TimeoutError,  # noqa: A004 - the name that Temporal gives it
        TimeoutType,
        WorkflowAlreadyStartedError,
    )
    from temporalio.service import RPCError, RPCStatusCode

ACTIVITY: Final = "spindle_call"
"""The type of all our activities."""

_DEFAULT_NAMESPACE: Final = "default"
_GRACE_SECONDS: Final = 30.0
"""The worker itself ends a call at its deadline; the engine does so later, if the worker does not."""
_MAX_BODY_SECONDS: Final = 86_400.0
"""The longest time of a call without a deadline of its own."""
_MAX_QUEUE_SECONDS: Final = 3_600.0
"""The longest time in the queue of a call whose caller is gone; a caller that waits cancels it at its deadline."""
_RPC_SECONDS: Final = 10.0
_RPC_TIMEOUT: Final = timedelta(seconds=_RPC_SECONDS)
_FIRST_LOOK_SECONDS: Final = 0.1
_MAX_LOOK_SECONDS: Final = 1.0
"""The longest interval at which a caller looks whether a turn was suspended; its end is reported at once."""
_NOT_NOW = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNKNOWN,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.ABORTED,
    }
)
"""Statuses after which the same request may succeed later."""
_OUT_OF_TIME = frozenset({TimeoutType.SCHEDULE_TO_CLOSE, TimeoutType.SCHEDULE_TO_START})


async def connect(settings: EngineSettings) -> Client:
    """Connect to the service of the settings.

    Raises:
        EngineUnavailableError: It cannot be reached.
    """
    place = urlsplit(settings.url)
    try:
        return await Client.connect(
            f"{place.hostname}:{place.port or 7233}",
            namespace=place.path.strip("/") or _DEFAULT_NAMESPACE,
            api_key=settings.api_key,
            tls=settings.api_key is not None,
            connect_timeout=timedelta(seconds=_RPC_SECONDS),
        )
    except RuntimeError as error:
        raise EngineUnavailableError(f"Temporal cannot be reached at {place.hostname}: {error}") from error


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except RPCError as error:
        if error.status in _NOT_NOW:
            raise EngineUnavailableError(f"Temporal does not answer: {error.message}") from error
        raise


class TemporalClient:
    """An `EngineClient` for a Temporal service."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._connected: Client | None = None
        self._connecting = asyncio.Lock()

    @property
    def _client(self) -> Client:
        if self._connected is None:
            raise EngineUnavailableError("Temporal is not connected.")
        return self._connected

    async def connect(self) -> None:
        """Connect for the first time."""
        async with self._connecting:  # calls of one batch connect at once
            if self._connected is None:
                self._connected = await connect(self._settings)

    async def start(self, call: EngineCall) -> None:
        """Start the activity of a call, unless one with its id exists, running or closed."""
        body_seconds = (call.seconds_left or _MAX_BODY_SECONDS) + _GRACE_SECONDS
        try:
            with _translate_errors():
                await self._client.start_activity(
                    ACTIVITY,
                    call.message,
                    id=call.id,
                    task_queue=call.queue,
                    start_to_close_timeout=timedelta(seconds=body_seconds),
                    schedule_to_close_timeout=timedelta(seconds=body_seconds + _MAX_QUEUE_SECONDS),
                    heartbeat_timeout=timedelta(seconds=self._settings.worker_timeout_seconds),
                    id_reuse_policy=ActivityIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=ActivityIDConflictPolicy.USE_EXISTING,
                    # A body never fails the activity. What is retried are lost workers, and the worker decides how.
                    retry_policy=RetryPolicy(
                        initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=5)
                    ),
                    summary=call.summary,
                    rpc_timeout=_RPC_TIMEOUT,
                )
        except ActivityAlreadyStartedError:
            pass

    async def wait(self, call_id: str) -> EngineAnswer:
        """Wait until the activity of a call is closed."""
        handle = self._client.get_activity_handle(call_id, result_type=dict[str, Any])
        try:
            with _translate_errors():
                return EngineAnswer(status="finished", message=await handle.result())
        except ActivityFailureError as error:
            return _read_failure(error.cause)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return EngineAnswer(status="lost")
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # the service has closed the request, not our caller
                raise EngineUnavailableError("Temporal is shutting down.") from None
            raise

    async def cancel(self, call_id: str) -> None:
        """Ask for the cancellation of the activity of a call."""
        try:
            with _translate_errors():
                await self._client.get_activity_handle(call_id).cancel(rpc_timeout=_RPC_TIMEOUT)
        except RPCError as error:
            if error.status not in {RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION}:
                raise

    async def start_turn(self, turn: EngineTurn) -> None:
        """Start the workflow of a turn, unless one with its id exists, running or closed."""
        order = {"message": turn.message, "worker_timeout_seconds": self._settings.worker_timeout_seconds}
        try:
            with _translate_errors():
                await self._client.start_workflow(
                    TURN_WORKFLOW,
                    order,
                    id=turn.id,
                    task_queue=turn.queue,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    static_summary=turn.summary,
                    rpc_timeout=_RPC_TIMEOUT,
                )
        except WorkflowAlreadyStartedError:
            pass

    async def wait_turn(self, run_id: str, after: int) -> TurnRest:
        """Wait until the workflow of a turn is closed, or its memo says that the turn was suspended."""
        handle = self._client.get_workflow_handle(run_id, result_type=dict[str, Any])
        ended = asyncio.ensure_future(handle.result())
        pause = _FIRST_LOOK_SECONDS
        try:
            with _translate_errors():
                while not (await asyncio.wait({ended}, timeout=pause))[0]:
                    if await self._find_suspension(handle) > after:
                        return "suspended"
                    pause = min(2 * pause, _MAX_LOOK_SECONDS)
                return "lost" if (await ended)["status"] == "lost" else "ended"
        except WorkflowFailureError:
            return "lost"
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return "lost"
            raise
        finally:
            ended.cancel()

    async def _find_suspension(self, handle: "WorkflowHandle[Any, Any]") -> int:
        described = await handle.describe(rpc_timeout=_RPC_TIMEOUT)
        return await described.memo_value(SUSPENDED, 0, type_hint=int)

    async def answer_turn(self, run_id: str, step: int) -> None:
        """Send the signal that the journal has answers."""
        await self._send(run_id, ANSWER, step)

    async def cancel_turn(self, run_id: str) -> None:
        """Send the signal that the turn is to be aborted."""
        await self._send(run_id, CANCEL)

    async def _send(self, run_id: str, signal: str, *args: Any) -> None:
        try:
            with _translate_errors():
                handle = self._client.get_workflow_handle(run_id)
                await handle.signal(signal, args=args, rpc_timeout=_RPC_TIMEOUT)
        except RPCError as error:
            if error.status not in {RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION}:
                raise

    async def close(self) -> None:
        """Forget the connection, which ends with the last reference to it."""
        self._connected = None


def _read_failure(cause: BaseException | None) -> EngineAnswer:
    match cause:
        case CancelledError() | TerminatedError():
            return EngineAnswer(status="cancelled")
        case TimeoutError(type=kind) if kind in _OUT_OF_TIME:
            return EngineAnswer(status="timed_out")
        case _:
            return EngineAnswer(status="lost")
