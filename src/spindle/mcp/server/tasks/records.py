"""The records of tasks in the journal: one with the state of each task, and one with its result once there is one.

The result is written before the state that says so. A process that dies in between loses nothing: the journal also has
the outcome of the call. A change names the version it replaces, so that of two ends only the first is kept.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spindle.errors import JournalError, SecretError
from spindle.journal.states import StateQuery, StateRecord, StateStore
from spindle.json_types import JsonObject, is_object
from spindle.mcp.client.task_ledger import UPSTREAM_TASK
from spindle.mcp.server.replicas import now_micros
from spindle.mcp.server.tasks.state import ENDS, TaskState, dump_state, load_state

if TYPE_CHECKING:  # it needs the extra `tickets`
    from spindle.execution.state_key import StateKey

TASK: Final = "mcp_task"
RESULT: Final = "mcp_task_result"
MAX_TASKS: Final = 1_000
"""Tasks that are kept of one owner; beyond it the oldest ended one is dropped."""
MAX_ID_CHARS: Final = 128
_CLEAN_COUNT: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptTask:
    """A task as its record has it."""

    state: TaskState
    version: int
    args: JsonObject | None
    """The arguments of the call; `None` if they contain secrets that could not be sealed."""
    record: StateRecord


class TaskRecords:
    """The tasks of all owners; `key` seals the arguments of tools that take secrets."""

    def __init__(
        self,
        states: StateStore,
        key: "StateKey | None" = None,
        *,
        now: Callable[[], int] = now_micros,
        max_tasks: int = MAX_TASKS,
    ) -> None:
        self._states, self._key, self._now, self._max_tasks = states, key, now, max_tasks

    async def create(self, state: TaskState, args: JsonObject, *, has_secrets: bool) -> KeptTask | None:
        """Write a new task, which is durable on return; `None` if its owner has too many that have not ended.

        Raises:
            JournalError: It cannot be written.
        """
        if not await self._make_room(state.owner):
            return None
        sealed, plain = None, None if has_secrets else args
        if has_secrets and self._key is not None:
            sealed = self._key.seal(json.dumps(args).encode(), bound=f"{TASK} {state.id}")
        record = StateRecord(
            TASK,
            state.id,
            state.status,
            _dump(state, plain),
            state.created_at,
            sealed=sealed,
            group=state.owner,
            expires_at=state.expires_at,
        )
        if await self._states.insert(record) is not None:
            raise JournalError("a task with this id exists already")
        return KeptTask(state=state, version=1, args=args, record=record)

    async def _make_room(self, owner: str) -> bool:
        for kind in (TASK, RESULT, UPSTREAM_TASK):
            for record in await self._states.select(StateQuery(kind, expired_at=self._now(), limit=_CLEAN_COUNT)):
                await self._states.delete(kind, record.id)
        known = await self._states.select(StateQuery(TASK, group=owner, limit=2 * self._max_tasks))
        if len(known) < self._max_tasks:
            return True
        ended = [record for record in known if record.status in ENDS]
        open_count = len(known) - len(ended)
        for record in ended[max(0, self._max_tasks - 1 - open_count) :]:
            await self._drop(record.id)
        return open_count < self._max_tasks

    async def _drop(self, id: str) -> None:
        await self._states.delete(RESULT, id)
        await self._states.delete(TASK, id)

    async def find(self, id: str, owner: str) -> KeptTask | None:
        """Return a task of an owner; `None` if it is unknown, has expired, or belongs to another one.

        Raises:
            JournalError: The journal cannot be read.
        """
        if not 0 < len(id) <= MAX_ID_CHARS or not id.isascii():
            return None
        record = await self._states.get(TASK, id)
        if record is None or record.group != owner or (record.expires_at or 0) <= self._now():
            return None
        return self._read(record)

    async def list(self, owner: str) -> list[TaskState]:
        """Return the tasks of an owner, newest first.

        Raises:
            JournalError: The journal cannot be read.
        """
        records = await self._states.select(StateQuery(TASK, group=owner, limit=2 * self._max_tasks))
        return [self._read(each).state for each in records if (each.expires_at or 0) > self._now()]

    async def replace(self, kept: KeptTask, state: TaskState) -> KeptTask | None:
        """Write a change of a task and return it; `None` if another change came first, or the task is gone.

        Raises:
            JournalError: It cannot be written.
        """
        record = kept.record._replace(
            version=kept.version + 1,
            status=state.status,
            data=_dump(state, json.loads(kept.record.data)["args"]),
        )
        if await self._states.get(TASK, state.id) is None:
            return None
        if await self._states.replace(record) is not None:
            return None
        return KeptTask(state=state, version=record.version, args=kept.args, record=record)

    async def write_result(self, state: TaskState, result: JsonObject) -> None:
        """Write what the call returned, before the state that says so.

        Raises:
            JournalError: It cannot be written.
        """
        record = StateRecord(
            RESULT, state.id, "kept", json.dumps(result), self._now(), group=state.owner, expires_at=state.expires_at
        )
        known = await self._states.insert(record)
        if known is not None:
            await self._states.replace(record._replace(version=known.version + 1))

    async def read_result(self, id: str) -> JsonObject | None:
        """Return what the call of a task returned.

        Raises:
            JournalError: The journal cannot be read.
        """
        record = await self._states.get(RESULT, id)
        found = None if record is None else json.loads(record.data)
        return found if is_object(found) else None

    def _read(self, record: StateRecord) -> KeptTask:
        found: JsonObject = json.loads(record.data)
        state = load_state(record.id, record.status, record.created_at, found["state"])
        args = found["args"]
        if args is None and record.sealed is not None and self._key is not None:
            try:
                args = json.loads(self._key.unseal(record.sealed, bound=f"{TASK} {record.id}"))
            except SecretError:
                args = None
        return KeptTask(state=state, version=record.version, args=args, record=record)


def _dump(state: TaskState, args: JsonObject | None) -> str:
    return json.dumps({"state": dump_state(state), "args": args})
