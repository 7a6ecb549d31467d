"""The caller's side of DBOS: one call is one workflow in a queue, whose id is the id of the call."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spindle.engines.client import EngineAnswer, EngineCall
from spindle.engines.settings import EngineSettings
from spindle.errors import EngineUnavailableError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject

with needs_extra("dbos", purpose="The engine DBOS"):
    import dbos
    from dbos import error as dbos_errors
    from sqlalchemy.exc import DBAPIError, ProgrammingError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError

if TYPE_CHECKING:
    from dbos import WorkflowStatus

T = TypeVar("T")

WORKFLOW: Final = "spindle_call"
"""The name of all our workflows."""
APPLICATION: Final = "spindle"
VERSION: Final = "spindle-calls-1"
"""The version that workers register. It changes with the steps of the workflow, not with the tools."""
CANCELLED: Final = "spindle_cancelled"
"""The attribute of a workflow that its caller has cancelled."""
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


class DbosClient:
    """An `EngineClient` for DBOS. One query at intervals asks for the state of all calls that are waited for."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._opened: dbos.DBOSClient | None = None
        self._waiters: dict[str, list[asyncio.Future[EngineAnswer]]] = {}
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
        options: dbos.EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "queue_name": call.queue,
            "workflow_id": call.id,
            "app_version": VERSION,
            "attributes": {"tool": call.summary},
        }
        await self._run(self._enqueue(options, call))

    async def _enqueue(self, options: "dbos.EnqueueOptions", call: EngineCall) -> None:
        await self._client.enqueue_async(options, call.message)

    async def wait(self, call_id: str) -> EngineAnswer:
        """Wait until the workflow of a call has ended."""
        future: asyncio.Future[EngineAnswer] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(call_id, []).append(future)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            return await future
        finally:
            waiting = self._waiters.get(call_id, [])
            if future in waiting:
                waiting.remove(future)
            if not waiting:
                self._waiters.pop(call_id, None)

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
            for call_id in asked:
                answer = _read_status(found.get(call_id))
                if answer is not None:
                    for future in self._waiters.pop(call_id, []):
                        if not future.done():
                            future.set_result(answer)
            await asyncio.sleep(_POLL_SECONDS)

    async def _run(self, action: Coroutine[Any, Any, T]) -> T:
        """Await an action in a task that a cancelled caller leaves behind: its thread holds a connection."""
        task = asyncio.ensure_future(action)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        with translate_errors():
            return await asyncio.shield(task)

    def _fail(self, error: Exception) -> None:
        for futures in self._waiters.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._waiters.clear()


def _read_status(status: "WorkflowStatus | None") -> EngineAnswer | None:
    """Return the answer of a workflow that has ended, else `None`."""
    if status is None:
        return EngineAnswer(status="lost")
    if status.status not in _ENDED:
        return None
    if status.status == "SUCCESS" and status.output != WAS_CANCELLED:
        return EngineAnswer(status="finished", message=status.output)
    return EngineAnswer(status="cancelled" if status.status in {"CANCELLED", "SUCCESS"} else "lost")
