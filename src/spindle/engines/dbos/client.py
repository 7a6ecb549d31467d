"""The caller's side of DBOS: one call or turn is one workflow in a queue, under its id."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from spindle.engines.client import EngineAnswer, EngineCall, EngineTurn
from spindle.engines.settings import EngineSettings
from spindle.errors import EngineUnavailableError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject
from spindle.turns.engine import TurnRest

with needs_extra("dbos", purpose="The engine DBOS"):
    import dbos
    from dbos import error as dbos_errors
    from sqlalchemy.exc import DBAPIError, ProgrammingError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError

if TYPE_CHECKING:
    from dbos import WorkflowStatus

T = TypeVar("T")

WORKFLOW: Final = "spindle_call"
"""The name of the workflows of calls."""
TURN_WORKFLOW: Final = "spindle_turn"
"""The name of the workflows of turns."""
APPLICATION: Final = "spindle"
VERSION: Final = "spindle-calls-1"
"""The version that workers register. It changes with the steps of the workflow, not with the tools."""
CANCELLED: Final = "spindle_cancelled"
"""The attribute of a workflow that its caller has cancelled."""
SUSPENDED: Final = "spindle_suspended"
"""The attribute of the workflow of a turn with the step at which it was suspended last."""
TOPIC: Final = "spindle"
"""The topic of the messages to the workflows of turns."""
WAS_CANCELLED: Final[JsonObject] = {"cancelled": True}
"""The output of a workflow whose cancellation was known to its worker only."""

_POLL_SECONDS: Final = 0.1
_CLOSE_SECONDS: Final = 5.0
_ENDED: Final = frozenset({"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})


def get_database_url(settings: EngineSettings) -> str:
    """Return the URL of the database."""
    return "postgresql://" + settings.url.partition("://")[2]


def open_client(settings: EngineSettings) -> "dbos.DBOSClient":
    """Open a client that stores JSON and reports a lost database at once."""
    return dbos.DBOSClient(
        system_database_url=get_database_url(settings),
        serializer=dbos.DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
        lazy=True,
        retry_connection_errors=False,
    )


@contextmanager
def translate_errors() -> Generator[None]:
    """Translate errors of the database.

    Raises:
        EngineUnavailableError: The database cannot be reached.
    """
    try:
        yield
    except ProgrammingError:
        raise
    except (DBAPIError, PoolTimeoutError, OSError) as error:
        raise EngineUnavailableError(f"The database of DBOS does not answer: {type(error).__name__}") from error


class _Waiter(NamedTuple):
    """One who waits for the end of a workflow, or for the suspension of its turn after a step."""

    future: "asyncio.Future[EngineAnswer | None]"
    after: int | None


class DbosClient:
    """An `EngineClient` for DBOS. One query at intervals asks for the state of all calls that are waited for."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._opened: dbos.DBOSClient | None = None
        self._waiters: dict[str, list[_Waiter]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._running: set[asyncio.Future[Any]] = set()
        self._is_closing = False
        self._connecting = asyncio.Lock()

    @property
    def _client(self) -> "dbos.DBOSClient":
        if self._opened is None:
            raise EngineUnavailableError("DBOS is not connected.")
        return self._opened

    async def connect(self) -> None:
        """Connect for the first time; create the tables of DBOS if no worker has done so yet."""
        async with self._connecting:  # calls of one batch connect at once
            if self._opened is None:
                self._opened = await self._open()

    async def _open(self) -> "dbos.DBOSClient":
        client = await asyncio.to_thread(open_client, self._settings)
        try:
            with translate_errors():
                try:
                    await client.list_workflows_async(limit=1, load_input=False, load_output=False)
                except ProgrammingError:
                    await asyncio.to_thread(dbos.DBOS.migrate, get_database_url(self._settings))
        except BaseException:
            await asyncio.shield(asyncio.to_thread(client.destroy))
            raise
        return client

    async def start(self, call: EngineCall) -> None:
        """Put the workflow of a call into its queue, unless one with its id exists, waiting, running or ended."""
        await self._enqueue(WORKFLOW, call, {"tool": call.summary})

    async def start_turn(self, turn: EngineTurn) -> None:
        """Put the workflow of a turn into its queue, unless one with its id exists, waiting, running or ended."""
        await self._enqueue(TURN_WORKFLOW, turn, {"runner": turn.summary})

    async def _enqueue(self, workflow: str, item: EngineCall | EngineTurn, attributes: JsonObject) -> None:
        options: dbos.EnqueueOptions = {
            "workflow_name": workflow,
            "queue_name": item.queue,
            "workflow_id": item.id,
            "app_version": VERSION,
            "attributes": attributes,
        }

        async def enqueue() -> None:
            await self._client.enqueue_async(options, item.message)

        await self._run(enqueue())

    async def wait(self, call_id: str) -> EngineAnswer:
        """Wait until the workflow of a call has ended."""
        return await self._wait(call_id, None) or EngineAnswer(status="lost")

    async def wait_turn(self, run_id: str, after: int) -> TurnRest:
        """Wait until the workflow of a turn has ended, or an attribute says that the turn was suspended."""
        answer = await self._wait(run_id, after)
        if answer is None:
            return "suspended"
        is_lost = answer.message is None or answer.message.get("status") == "lost"
        return "lost" if is_lost else "ended"

    async def answer_turn(self, run_id: str, step: int) -> None:
        """Send the message that the journal has answers."""
        await self._send(run_id, {"step": step})

    async def cancel_turn(self, run_id: str) -> None:
        """Ask for a turn to be aborted: in an attribute for a running iteration, in a message for a turn that waits."""
        with suppress(dbos_errors.DBOSNonExistentWorkflowError):
            await self._run(self._client.update_workflow_attributes_async(run_id, {CANCELLED: True}, merge=True))
        await self._send(run_id, {"is_cancelled": True})

    async def _send(self, run_id: str, message: JsonObject) -> None:
        with suppress(dbos_errors.DBOSNonExistentWorkflowError):
            await self._run(self._client.send_async(run_id, message, TOPIC))

    async def _wait(self, workflow_id: str, after: int | None) -> EngineAnswer | None:
        """Return the answer of a workflow that has ended, or `None` if its turn was suspended after a step."""
        future: asyncio.Future[EngineAnswer | None] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(future, after)
        self._waiters.setdefault(workflow_id, []).append(waiter)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            return await future
        finally:
            waiting = self._waiters.get(workflow_id, [])
            if waiter in waiting:
                waiting.remove(waiter)
            if not waiting:
                self._waiters.pop(workflow_id, None)

    async def cancel(self, call_id: str) -> None:
        """Cancel the workflow of a call; workers look for cancelled ones at intervals."""
        with suppress(dbos_errors.DBOSNonExistentWorkflowError):
            # The attribute survives a takeover that happens at the same moment; the status might not.
            await self._run(self._client.update_workflow_attributes_async(call_id, {CANCELLED: True}, merge=True))
            await self._run(self._client.cancel_workflow_async(call_id))

    async def close(self) -> None:
        """Close the connections to the database, after what is running has returned them."""
        self._is_closing = True
        left = {*self._running, *filter(None, [self._poller])}
        if left:
            await asyncio.wait(left, timeout=_CLOSE_SECONDS)
        if self._opened is not None:
            await asyncio.to_thread(self._opened.destroy)
            self._opened = None

    async def _poll(self) -> None:
        while self._waiters and not self._is_closing:
            asked = list(self._waiters)
            try:
                known = await self._run(self._client.list_workflows_async(workflow_ids=asked, load_input=False))
            except Exception as error:  # noqa: BLE001 - every waiter gets it
                self._fail(error)
                return
            found = {each.workflow_id: each for each in known}
            for workflow_id in asked:
                status = found.get(workflow_id)
                for waiter in list(self._waiters.get(workflow_id, ())):
                    if (is_suspended := _is_suspended(status, waiter.after)) or _has_ended(status):
                        self._waiters[workflow_id].remove(waiter)
                        if not waiter.future.done():
                            waiter.future.set_result(None if is_suspended else _read_status(status))
            await asyncio.sleep(_POLL_SECONDS)

    async def _run(self, action: Coroutine[Any, Any, T]) -> T:
        """Await an action in a task that a cancelled caller leaves behind: its thread holds a connection."""
        task = asyncio.ensure_future(action)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        with translate_errors():
            return await asyncio.shield(task)

    def _fail(self, error: Exception) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.future.done():
                    waiter.future.set_exception(error)
        self._waiters.clear()


def _has_ended(status: "WorkflowStatus | None") -> bool:
    return status is None or status.status in _ENDED


def _is_suspended(status: "WorkflowStatus | None", after: int | None) -> bool:
    if status is None or after is None or status.status in _ENDED:
        return False
    return int((status.attributes or {}).get(SUSPENDED, 0)) > after


def _read_status(status: "WorkflowStatus | None") -> EngineAnswer:
    """Return the answer of a workflow that has ended."""
    if status is None:
        return EngineAnswer(status="lost")
    if status.status == "SUCCESS" and status.output != WAS_CANCELLED:
        return EngineAnswer(status="finished", message=status.output)
    return EngineAnswer(status="cancelled" if status.status in {"CANCELLED", "SUCCESS"} else "lost")
