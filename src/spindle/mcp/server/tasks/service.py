"""Turns slow calls into tasks, and finds those of a client: running here, ended, or left by a process that is gone."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError

from spindle import execution
from spindle.calls import Call
from spindle.errors import JournalError
from spindle.journal.journal import Journal
from spindle.json_types import JsonObject, is_object
from spindle.mcp.client.task_ledger import TaskLedger
from spindle.mcp.server.call_load import CallLoad
from spindle.mcp.server.call_rounds import BuildResult
from spindle.mcp.server.parked_calls import Execute, ParkedCalls, ResumableCall
from spindle.mcp.server.peer import CallClient, Context, asks_for_task, declares_tasks
from spindle.mcp.server.replicas import Replica, now_micros
from spindle.mcp.server.sessions import Caller, McpSession
from spindle.mcp.server.tasks.records import KeptTask, TaskRecords
from spindle.mcp.server.tasks.running import Recovery, RunningTask, build_interruption
from spindle.mcp.server.tasks.settings import TaskSettings
from spindle.mcp.server.tasks.state import TaskState, create_task_id
from spindle.mcp.server.tasks.wire import (
    build_created,
    build_unknown,
    is_modern,
)
from spindle.tools.declaration import Tool, get_runnable
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.execution.executor import Executor

_MIN_TTL_MS: Final = 1_000
_RETRY_SECONDS: Final = 1.0
"""Least time between two looks at whether a waiting call may run."""
_SETTLE_SECONDS: Final = 1.0
"""How long a request waits for a recovered task, which often ends at once."""
_MAX_TRIED: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """How a call is started again."""

    session_id: str
    """The session under which the journal knows it."""
    can_repeat: bool = False
    """Whether it may run again in any case, because it only goes on waiting for an upstream task."""


class Prepare(Protocol):
    """Prepares a call of a client."""

    def __call__(
        self, ctx: Context, session: McpSession, conversation: str, call: Call, again: Again | None = None
    ) -> tuple[Execute, CallClient]:
        """Return what runs the call, and the client behind it."""
        ...


class TaskHost(NamedTuple):
    """What tasks need of the server they belong to."""

    executor: "Executor"
    registry: ToolRegistry
    tools_ready: anyio.Event | None
    prepare: Prepare
    build_result: BuildResult
    identify: Callable[[Context], Caller]
    get_session: Callable[[Context, Caller], McpSession]
    get_group: Callable[[], TaskGroup | None]
    load: CallLoad
    parked_calls: ParkedCalls

    async def find_tool(self, session: McpSession, name: str) -> Tool | None:
        """Return a tool that a client may see, once the tools of upstream servers are known."""
        if self.tools_ready is not None and name not in self.registry:
            await self.tools_ready.wait()
        return session.get_registry(self.registry).get(name)


def get_owner(caller: Caller) -> str:
    """Return who owns the tasks of a caller: its token, as sessions end with the process; or the pipe."""
    return caller.key if caller.owner is None else caller.owner


class TaskService:
    """The tasks of one server; `replica` is this server among others that share its journal."""

    def __init__(
        self, settings: TaskSettings, host: TaskHost, records: TaskRecords, *, replica: Replica | None = None
    ) -> None:
        self.settings, self.records, self.replica = settings, records, replica
        self.process = token_hex(6) if replica is None else replica.id
        self.ledger = TaskLedger() if settings.upstream is None else settings.upstream
        self.listeners: list[Callable[[RunningTask], None]] = []
        """Called after each change of a task that runs here."""
        self.host = host
        self._running: dict[str, RunningTask] = {}
        self._tried: dict[str, float] = {}
        """When waiting tasks were last started again."""

    def get_delay(self, ctx: Context) -> float | None:
        """Return the seconds after which a call becomes a task; `None` if its client cannot use tasks."""
        if declares_tasks(ctx):
            return self.settings.after_seconds
        return 0.0 if asks_for_task(ctx) else None

    async def promote(self, ctx: Context, session: McpSession, running: ResumableCall) -> JsonObject | None:
        """Turn a call into a task and return the answer to its client; `None` if there can be no more tasks now.

        Raises:
            MCPError: There can be no more tasks, and a client of the older protocol waits for one.
        """
        group, caller = self.host.get_group(), self.host.identify(ctx)
        kept: KeptTask | None = None
        why = "this client has too many tasks"
        try:
            kept = await self._create(ctx, session, caller, running.client.call)
        except JournalError as error:
            why = str(error)
        except anyio.get_cancelled_exc_class():
            running.cancel()
            raise
        if kept is not None and group is not None:
            self._follow(group, caller.conversation, self._build_task(kept, running))
            return build_created(ctx, kept.state)
        if is_modern(ctx):
            return None  # the client waits for the result of its call
        running.cancel()
        raise MCPError(types.INTERNAL_ERROR, f"No task was created: {why}.")

    async def _create(self, ctx: Context, session: McpSession, caller: Caller, call: Call) -> KeptTask | None:
        now = now_micros()
        state = TaskState(
            id=create_task_id(),
            owner=get_owner(caller),
            session=session.key,
            call_id=call.tool_call_id,
            tool=call.name,
            process=self.process,
            created_at=now,
            updated_at=now,
            ttl_ms=self._choose_ttl(ctx),
        )
        tool = await self.host.find_tool(session, call.name)
        args = call.args if is_object(call.args) else {}
        return await self.records.create(state, args, has_secrets=tool is None or bool(tool.secret_fields))

    def _choose_ttl(self, ctx: Context) -> int:
        longest = int(self.settings.ttl_seconds * 1_000)
        given = (ctx.params or {}).get("task")
        wanted = given.get("ttl") if is_object(given) and not is_modern(ctx) else None
        if not isinstance(wanted, int) or isinstance(wanted, bool):
            return longest
        return min(max(wanted, _MIN_TTL_MS), longest)

    def _build_task(self, kept: KeptTask, running: ResumableCall, recovery: Recovery | None = None) -> RunningTask:
        task = RunningTask(
            kept,
            running,
            self.records,
            build_result=self.host.build_result,
            ledger=self.ledger,
            is_stopping=lambda: self.host.load.is_stopping,
            on_change=self._notify,
            recovery=recovery,
        )
        self._running[kept.state.id] = task
        return task

    def _notify(self, task: RunningTask) -> None:
        for listener in tuple(self.listeners):
            listener(task)

    def _follow(self, group: TaskGroup, conversation: str, task: RunningTask) -> None:
        group.start_soon(self._drive, conversation, task)

    async def _drive(self, conversation: str, task: RunningTask) -> None:
        state = task.kept.state
        with self.host.load.count(conversation):
            try:
                # An expired task cannot be asked for.
                with anyio.move_on_after(max(0.0, (state.expires_at - now_micros()) / 1_000_000)):
                    await task.drive()
            finally:
                if task.is_written and self._running.get(state.id) is task:
                    del self._running[state.id]

    def cancel_waiting(self) -> None:
        """Stop the calls of tasks that wait for their client; they go on after a restart."""
        for task in tuple(self._running.values()):
            if task.kept.state.status == "input_required":
                task.call.cancel()

    def find_running(self, id: str) -> RunningTask | None:
        """Return a task that runs here."""
        return self._running.get(id)

    async def find(self, ctx: Context, id: str) -> tuple[KeptTask, RunningTask | None]:
        """Return a task of the client, and what runs it here; one whose process is gone goes on here.

        Raises:
            MCPError: It is unknown, has expired, or belongs to another client; or the journal cannot be read.
        """
        caller = self.host.identify(ctx)
        task = self._running.get(id)
        if task is not None and not task.is_written:
            if task.kept.state.owner != get_owner(caller) or task.kept.state.expires_at <= now_micros():
                raise build_unknown()
            return task.kept, task
        try:
            kept = await self.records.find(id, get_owner(caller))
            if kept is None:
                raise build_unknown()
            task = self._running.get(id)
            if task is not None or not await self._is_left(kept):
                return kept, task
            task = await self._recover(ctx, caller, kept)
        except JournalError as error:
            raise MCPError(types.INTERNAL_ERROR, f"The journal of tasks cannot be used: {error}") from error
        return kept if task is None else task.kept, task

    async def read_end(self, ctx: Context, kept: KeptTask, task: RunningTask | None) -> JsonObject | None:
        """Return the result or the error of a task that has ended; after a restart, its artifact can be read again.

        Raises:
            MCPError: The journal cannot be read.
        """
        if task is not None and task.end is not None:
            return task.end
        try:
            await self._restore_artifact(ctx, kept)
            return await self.records.read_result(kept.state.id)
        except JournalError as error:
            raise MCPError(types.INTERNAL_ERROR, f"The journal of tasks cannot be used: {error}") from error

    async def _restore_artifact(self, ctx: Context, kept: KeptTask) -> None:
        """Let the client read the artifact of a call that ended in another process; the journal has its outcome."""
        state, caller, journal = kept.state, self.host.identify(ctx), self.settings.journal
        session = self.host.get_session(ctx, caller)
        if not state.has_artifact or any(each.id == state.call_id for each in session.tool_calls):
            return
        entry = None if journal is None else await journal.get(state.call_id)
        if entry is None or entry.state != "finished" or kept.args is None:
            return
        call = Call(state.call_id, state.tool, kept.args)
        execute, _ = self.host.prepare(ctx, session, caller.conversation, call, Again(session_id=state.session))
        await self.host.build_result(ctx, session, await execute())

    async def _is_left(self, kept: KeptTask) -> bool:
        """Return whether no process goes on with a task that has not ended."""
        state = kept.state
        if state.is_ended or self.host.load.is_stopping:
            return False
        now = anyio.current_time()
        if now - self._tried.get(state.id, now - _RETRY_SECONDS) < _RETRY_SECONDS:
            return False
        if state.is_waiting or state.process == self.process:
            return True
        if self.replica is not None:
            return await self.replica.is_gone(state.process)
        journal = self.settings.journal
        entry = None if journal is None else await journal.get(state.call_id)
        return entry is None or entry.state != "started"

    async def _recover(self, ctx: Context, caller: Caller, kept: KeptTask) -> RunningTask | None:
        """Start the call of a task again under its old id: the journal knows whether it ran, or may run."""
        if len(self._tried) >= _MAX_TRIED:
            self._tried.clear()
        self._tried[kept.state.id] = anyio.current_time()
        session, group = self.host.get_session(ctx, caller), self.host.get_group()
        tool = await self.host.find_tool(session, kept.state.tool)
        following = kept.state.take_over(self.process)
        if group is None or following is None:
            return None
        taken = await self.records.replace(kept, following)
        if taken is None:
            return None  # another process was faster
        if tool is None or taken.args is None or self.settings.journal is None:
            return await self._give_up(taken)
        resumes = await self.ledger.has(following.call_id)
        again = Again(session_id=following.session, can_repeat=resumes)
        call = Call(following.call_id, following.tool, taken.args)

        def start(own: Call) -> ResumableCall:
            execute, peer = self.host.prepare(ctx, session, caller.conversation, own, again)
            return self.host.parked_calls.start(group, execute, peer, owner=session.key)

        async def restart(call_id: str) -> ResumableCall:
            await anyio.lowlevel.checkpoint()
            return start(replace(call, tool_call_id=call_id))

        may_repeat = resumes or tool.idempotent or tool.read_only
        recovery = Recovery(restart=restart, can_repeat=may_repeat)
        task = self._build_task(taken, start(call), recovery)
        self._follow(group, caller.conversation, task)
        with anyio.move_on_after(_SETTLE_SECONDS):
            while not task.is_over and task.kept.state.status == "working":
                await task.changed.wait()
        return task

    async def _give_up(self, kept: KeptTask) -> None:
        """End a task whose call cannot be started again: its tool is gone, or its secret arguments are."""
        why = "The server was restarted, and the call cannot go on. It is not known whether it took effect."
        ended = kept.state.end("failed", now=now_micros(), message=why)
        if ended is not None:
            await self.records.write_result(ended, build_interruption(why))
            await self.records.replace(kept, ended)


def allow_repeat(registry: ToolRegistry, name: str) -> ToolRegistry:
    """Return a view in which a call may be started again, because it only goes on waiting for an upstream task."""
    entry = registry.entry(name)
    if entry is None or entry.tool.idempotent:
        return registry
    get_runnable(entry.tool)  # kept in the copy: how the tool runs stays the same, and it is not retried
    repeatable = copy(entry.tool)
    vars(repeatable)["idempotent"] = True
    other = registry.copy()
    mcp = None if entry.mcp_server is None else (entry.mcp_server, entry.mcp_tool or name)
    other.register(repeatable, overwrite=True, plugin_id=entry.plugin_id, mcp=mcp)
    return other


def build_tasks(settings: TaskSettings | None, host: TaskHost, replica: Replica | None) -> TaskService | None:
    """Build the tasks of a server; `None` without settings."""
    if settings is None:
        return None
    return TaskService(settings, host, _build_records(host.executor, settings.journal), replica=replica)


def _build_records(executor: "Executor", journal: Journal | None) -> TaskRecords:
    """Build the records of tasks: in the journal if it has room for them, otherwise in memory."""
    states = None if journal is None else journal.states
    tickets = executor.tickets
    # Through the lazy door: it needs the extra `tickets`.
    key = None if tickets is None or tickets.key is None else execution.StateKey(tickets.key)
    if states is None:
        memory = Journal.memory().states
        if memory is None:
            raise JournalError("a journal in memory has no records")
        states = memory
    return TaskRecords(states, key)
