"""The tasks that upstream servers run for our calls, by the id of the call, so that none is sent a second time.

A call that is asked again under its id, after a lost connection or a restart, goes on waiting for the task it created.
"""

import json
import time
from dataclasses import dataclass
from typing import Final

from spindle.errors import JournalError
from spindle.journal.states import StateRecord, StateStore
from spindle.json_types import JsonObject

UPSTREAM_TASK: Final = "mcp_upstream_task"
KEPT_SECONDS: Final = 7 * 86_400
MAX_KEPT: Final = 10_000


class TaskLedger:
    """The upstream tasks of calls, in memory, and in `states` if there are any."""

    def __init__(self, states: StateStore | None = None) -> None:
        self._states = states
        self._known: dict[str, JsonObject] = {}
        self._held: set[str] = set()

    def hold(self, call_id: str) -> None:
        """Let the upstream task of a call go on when the call is cancelled: it will be asked again."""
        self._held.add(call_id)

    def release(self, call_id: str) -> None:
        """Cancel the upstream task of a call with the call, as usual."""
        self._held.discard(call_id)

    def is_held(self, call_id: str | None) -> bool:
        """Return whether the upstream task goes on without the call."""
        return self._states is not None and call_id in self._held

    def is_task(self, call_id: str | None) -> bool:
        """Return whether the client of a call knows it as a task."""
        return call_id in self._held

    async def find(self, call_id: str | None, *, server: str, tool: str) -> str | None:
        """Return the id of the task that a server runs for a call; `None` if there is none.

        Raises:
            JournalError: The journal cannot be read.
        """
        known = await self._load(call_id)
        if known is None or (known["server"], known["tool"]) != (server, tool):
            return None
        return str(known["task"])

    async def has(self, call_id: str) -> bool:
        """Return whether any server runs a task for a call.

        Raises:
            JournalError: The journal cannot be read.
        """
        return await self._load(call_id) is not None

    async def _load(self, call_id: str | None) -> JsonObject | None:
        if not call_id:
            return None
        known = self._known.get(call_id)
        if known is None and self._states is not None:
            record = await self._states.get(UPSTREAM_TASK, call_id)
            known = None if record is None else json.loads(record.data)
        return known

    async def keep(self, call_id: str | None, *, server: str, tool: str, task: str) -> None:
        """Keep the task that a server runs for a call; durable only if there is a journal that can be written."""
        if not call_id:
            return
        known: JsonObject = {"server": server, "tool": tool, "task": task}
        while len(self._known) >= MAX_KEPT:
            del self._known[next(iter(self._known))]
        self._known[call_id] = known
        await self._write(call_id, known)

    async def _write(self, call_id: str, known: JsonObject) -> None:
        if self._states is None:
            return
        now = time.time_ns() // 1_000
        record = StateRecord(
            UPSTREAM_TASK, call_id, "kept", json.dumps(known), now, expires_at=now + KEPT_SECONDS * 1_000_000
        )
        try:
            await self._states.insert(record)
        except JournalError:
            return  # the call goes on; only a restart would lose the task

    async def move(self, old: str, new: str) -> None:
        """Keep the task of a call under another id."""
        known = await self._load(old)
        if known is None:
            return
        self._known[new] = known
        await self._write(new, known)
        await self.drop(old)

    async def drop(self, call_id: str | None) -> None:
        """Forget the task of a call that has ended."""
        if not call_id or (self._known.pop(call_id, None) is None and self._states is None):
            return
        if self._states is not None:
            try:
                await self._states.delete(UPSTREAM_TASK, call_id)
            except JournalError:
                return  # it expires


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTask:
    """The task of one call, as the ledger has it."""

    ledger: TaskLedger
    call_id: str | None
    server: str
    tool: str

    async def find(self) -> str | None:
        """Return the id of the task, if the call has created one before."""
        return await self.ledger.find(self.call_id, server=self.server, tool=self.tool)

    async def keep(self, task_id: str) -> None:
        """Keep the id of the task."""
        await self.ledger.keep(self.call_id, server=self.server, tool=self.tool, task=task_id)

    async def drop(self) -> None:
        """Forget the task."""
        await self.ledger.drop(self.call_id)

    @property
    def is_held(self) -> bool:
        """Whether the task goes on when the call is cancelled."""
        return self.ledger.is_held(self.call_id)

    @property
    def is_task(self) -> bool:
        """Whether the client of the call knows it as a task."""
        return self.ledger.is_task(self.call_id)
