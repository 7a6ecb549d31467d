"""Handles the requests of clients about their tasks: get, result, update, cancel and list, on both protocols."""

from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from spindle.errors import JournalError
from spindle.json_types import JsonObject, is_object
from spindle.mcp.server.peer import TASKS_EXTENSION, TASKS_REVISION, Context
from spindle.mcp.server.replicas import now_micros
from spindle.mcp.server.tasks.notifications import TaskNotifier
from spindle.mcp.server.tasks.records import KeptTask
from spindle.mcp.server.tasks.running import CANCELLED
from spindle.mcp.server.tasks.service import TaskService, get_owner
from spindle.mcp.server.tasks.state import TaskState
from spindle.mcp.server.tasks.wire import (
    POLL_MS,
    TaskIdParams,
    UpdateParams,
    build_detailed,
    build_result,
    build_task,
    check_method,
    check_name_header,
    created_tasks,
    declare_tasks,
    is_modern,
    mark_tools,
)

PAGE_SIZE: Final = 100
_MAX_CURSOR_CHARS: Final = 6


class TaskRequests:
    """The handlers of the methods of tasks, and the middleware that answers a call with a task."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        replica = service.replica
        if replica is not None:
            replica.on("task_update", self._update_for_other)
            replica.on("task_cancelled", self._hear_of_cancel)

    def register(self, sdk: Server[Any]) -> None:
        """Add the methods to a server, and declare them on the newer protocol."""
        sdk.add_request_handler("tasks/get", TaskIdParams, self.get)
        sdk.add_request_handler("tasks/result", TaskIdParams, self.result)
        sdk.add_request_handler("tasks/update", UpdateParams, self.update)
        sdk.add_request_handler("tasks/cancel", TaskIdParams, self.cancel)
        sdk.add_request_handler("tasks/list", types.PaginatedRequestParams, self.list)
        entry = sdk.get_request_handler("subscriptions/listen")
        if entry is not None:
            notifier = TaskNotifier(self._service, entry.handler)
            sdk.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, notifier.listen)
        sdk.extensions[TASKS_EXTENSION] = {}
        sdk.middleware.append(self)  # the innermost, so that the pages of a list are kept as they are marked

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a call that became a task on the older protocol, and declare tasks there; the SDK does neither."""
        created = list[JsonObject]()
        token = created_tasks.set(created)
        try:
            answer = await call_next(ctx)
        finally:
            created_tasks.reset(token)
        if created or not is_object(answer):
            return created[0] if created else answer
        if ctx.method == "initialize":
            return declare_tasks(answer)
        return mark_tools(answer) if ctx.method == "tools/list" and ctx.protocol_version == TASKS_REVISION else answer

    async def get(self, ctx: Context, params: TaskIdParams) -> JsonObject:
        """Return the state of a task, and on the newer protocol its result."""
        check_method(ctx)
        check_name_header(ctx, params.task_id)
        kept, task = await self._service.find(ctx, params.task_id)
        if task is not None:
            await task.refresh()
        state = kept.state if task is None else task.state
        end = await self._service.read_end(ctx, kept, task) if state.status in {"completed", "failed"} else None
        return build_detailed(ctx, state, end)

    async def result(self, ctx: Context, params: TaskIdParams) -> JsonObject:
        """Wait for the end of a task and return its result; meanwhile its questions are sent to the client."""
        check_method(ctx, modern=False)
        while True:
            kept, task = await self._service.find(ctx, params.task_id)
            state = kept.state if task is None else task.state
            if state.is_ended:
                end = await self._service.read_end(ctx, kept, task)
                return build_result(state, CANCELLED if end is None else end)
            if task is None or task.is_over:
                await anyio.sleep(POLL_MS / 1_000)
                continue
            await task.refresh()
            if task.kept.state.status == "input_required":
                await task.ask_through(ctx)
            elif not task.is_over:
                with anyio.move_on_after(POLL_MS / 1_000):
                    await task.changed.wait()

    async def update(self, ctx: Context, params: UpdateParams) -> JsonObject:
        """Pass the answers of a client on to the questions of its task."""
        check_method(ctx, modern=True)
        check_name_header(ctx, params.task_id)
        kept, task = await self._service.find(ctx, params.task_id)
        if task is not None:
            await task.answer(params.input_responses)
        else:
            await self._forward(kept, params)
        return {"resultType": "complete"}

    async def _forward(self, kept: KeptTask, params: UpdateParams) -> None:
        """Send answers to the replica that runs the call."""
        replica, state = self._service.replica, kept.state
        if replica is None or state.status != "input_required" or state.process in {"", replica.id}:
            return
        content: JsonObject = {"task": state.id, "responses": params.input_responses}
        try:
            await replica.request(state.process, "task_update", content)
        except JournalError as error:
            raise MCPError(types.INTERNAL_ERROR, f"The answers could not be delivered: {error}") from error

    async def _update_for_other(self, content: JsonObject) -> JsonObject:
        task = self._service.find_running(str(content["task"]))
        if task is not None:
            await task.answer(content["responses"])
        return {}

    async def cancel(self, ctx: Context, params: TaskIdParams) -> JsonObject:
        """Cancel a task; on the newer protocol one that has ended is left as it is."""
        check_method(ctx)
        check_name_header(ctx, params.task_id)
        kept, task = await self._service.find(ctx, params.task_id)
        is_cancelled = await (self._cancel_elsewhere(kept) if task is None else task.cancel())
        if is_modern(ctx):
            return {"resultType": "complete"}
        kept, task = await self._service.find(ctx, params.task_id)
        state = kept.state if task is None else task.state
        if not is_cancelled:
            raise MCPError(types.INVALID_PARAMS, f"Cannot cancel task: already in terminal status {state.status!r}")
        return build_task(ctx, state)

    async def _cancel_elsewhere(self, kept: KeptTask) -> bool:
        ended = kept.state.end("cancelled", now=now_micros())
        if ended is None:
            return False
        try:
            is_cancelled = await self._service.records.replace(kept, ended) is not None
        except JournalError as error:
            raise MCPError(types.INTERNAL_ERROR, f"The task could not be cancelled: {error}") from error
        if self._service.replica is not None:
            self._service.replica.post("task_cancelled", {"task": kept.state.id})
        return is_cancelled

    async def _hear_of_cancel(self, content: JsonObject) -> None:
        """Cancel the call of a task that was cancelled at another replica."""
        task = self._service.find_running(str(content.get("task")))
        if task is not None:
            await task.cancel()

    async def list(self, ctx: Context, params: types.PaginatedRequestParams) -> JsonObject:
        """Return a page of the tasks of a client, newest first; without a token only those of its session."""
        check_method(ctx, modern=False)
        caller = self._service.host.identify(ctx)
        try:
            states = await self._service.records.list(get_owner(caller))
        except JournalError as error:
            raise MCPError(types.INTERNAL_ERROR, f"The journal of tasks cannot be used: {error}") from error
        if caller.is_anonymous:
            states = [state for state in states if state.session == caller.key]
        start = _read_cursor(params.cursor, len(states))
        shown = [self._find_latest(state) for state in states[start : start + PAGE_SIZE]]
        page: JsonObject = {"tasks": [build_task(ctx, state) for state in shown]}
        if start + PAGE_SIZE < len(states):
            page["nextCursor"] = str(start + PAGE_SIZE)
        return page

    def _find_latest(self, state: TaskState) -> TaskState:
        task = self._service.find_running(state.id)
        return state if task is None else task.state


def _read_cursor(cursor: str | None, count: int) -> int:
    if cursor is None:
        return 0
    is_number = cursor.isascii() and cursor.isdigit() and len(cursor) <= _MAX_CURSOR_CHARS
    if not (is_number and 0 < int(cursor) <= count):
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor: it was not issued by this server.")
    return int(cursor)
