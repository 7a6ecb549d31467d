"""Tells clients that their tasks have changed: on the older protocol unasked, on the newer one those that listen."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Literal

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from spindle.json_types import JsonObject, is_array
from spindle.mcp.server.peer import TASKS_REVISION, Context, declares_tasks
from spindle.mcp.server.tasks.running import RunningTask
from spindle.mcp.server.tasks.service import TaskService
from spindle.mcp.server.tasks.wire import build_detailed, build_missing_extension, build_task

MAX_LISTENED: Final = 100
"""Tasks that one subscription may name."""
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

Listen = Callable[[Context, types.SubscriptionsListenRequestParams], Awaitable[Any]]


class TaskNotification(types.Notification[JsonObject, Literal["notifications/tasks"]]):
    """The state of a task, on the newer protocol."""

    method: Literal["notifications/tasks"] = "notifications/tasks"


class StatusNotification(types.Notification[JsonObject, Literal["notifications/tasks/status"]]):
    """The state of a task, on the older protocol."""

    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"


class _AcknowledgingSession:
    """The session of a subscription, which adds its tasks to the acknowledgement."""

    def __init__(self, session: Any, ids: list[str]) -> None:
        self._session, self._ids = session, ids
        self.acknowledged = anyio.Event()

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notification of the subscription."""
        if isinstance(notification, types.SubscriptionsAcknowledgedNotification):
            params = notification.params
            honored = params.notifications.model_dump(by_alias=True, exclude_none=True)
            asked = types.SubscriptionFilter.model_validate({**honored, "taskIds": self._ids})
            notification = notification.model_copy(
                update={"params": params.model_copy(update={"notifications": asked})}
            )
            await self._session.send_notification(notification, related_request_id)
            self.acknowledged.set()
            return
        await self._session.send_notification(notification, related_request_id)


class TaskNotifier:
    """Sends the changes of tasks; `listen` handles the subscriptions to everything else."""

    def __init__(self, service: TaskService, listen: Listen) -> None:
        self._service, self._listen = service, listen
        service.listeners.append(self._hear)

    def _hear(self, task: RunningTask) -> None:
        group = self._service.host.get_group()
        if group is not None and task.call.client.request.protocol_version == TASKS_REVISION:
            group.start_soon(self._send_status, task)

    async def _send_status(self, task: RunningTask) -> None:
        request = task.call.client.request
        notification: Any = StatusNotification(params=build_task(request, task.state))
        with suppress(Exception):  # the client has disconnected, and may ask
            await request.session.send_notification(notification)

    async def listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Handle a subscription, which may name tasks of the client.

        Raises:
            MCPError: It names tasks, and the client has not declared them; or the list of tasks is invalid.
        """
        given = (params.notifications.model_extra or {}).get("taskIds")
        if given is None:
            return await self._listen(ctx, params)
        if not declares_tasks(ctx):
            raise build_missing_extension()
        if not is_array(given) or len(given) > MAX_LISTENED or not all(isinstance(each, str) for each in given):
            raise MCPError(types.INVALID_PARAMS, f"taskIds must be at most {MAX_LISTENED} ids of tasks")
        own = [each for each in dict.fromkeys(given) if await self._is_own(ctx, each)]
        session = _AcknowledgingSession(ctx.session, own)
        proxied: Any = replace(ctx, session=session)  # pyright: ignore[reportArgumentType]  a proxy of it
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._push, ctx, session, own)
            try:
                return await self._listen(proxied, params)
            finally:
                tasks.cancel_scope.cancel()

    async def _is_own(self, ctx: Context, id: str) -> bool:
        try:
            await self._service.find(ctx, id)
        except MCPError:
            return False
        return True

    async def _push(self, ctx: Context, session: _AcknowledgingSession, ids: list[str]) -> None:
        """Send the state of each task now, and after each change."""
        await session.acknowledged.wait()
        send, receive = anyio.create_memory_object_stream[str](len(ids) * 100 + 1)

        def hear(task: RunningTask) -> None:
            if task.kept.state.id in ids:
                with suppress(anyio.WouldBlock, anyio.ClosedResourceError):  # the client still polls
                    send.send_nowait(task.kept.state.id)

        self._service.listeners.append(hear)
        try:
            for each in ids:
                send.send_nowait(each)
            async with receive:
                async for changed in receive:
                    await self._send_task(ctx, changed)
        finally:
            self._service.listeners.remove(hear)
            send.close()

    async def _send_task(self, ctx: Context, id: str) -> None:
        kept, task = await self._service.find(ctx, id)
        state = kept.state if task is None else task.state
        end = await self._service.read_end(ctx, kept, task) if state.status in {"completed", "failed"} else None
        shown = build_detailed(ctx, state, end)
        del shown["resultType"]
        notification: Any = TaskNotification(params={**shown, "_meta": {_SUBSCRIPTION: ctx.request_id}})
        await ctx.session.send_notification(notification, ctx.request_id)
