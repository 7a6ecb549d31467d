"""Notifications about tasks: unasked on the older revision, by subscription on the newer one."""

from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict

from tests.mcp.server.tasks.test_service import held
from tests.mcp.task_clients import EXTENSION, LEGACY, MODERN, TaskClient, TaskGateway

pytestmark = pytest.mark.anyio


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class Hearing(ClientExtension):
    """Declares tasks and keeps what is said about them."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.news = anyio.Event()

    async def hear(self, params: Anything) -> None:
        self.heard.append(params.model_extra or {})
        self.news.set()

    def notifications(self) -> list[NotificationBinding[Any]]:
        methods = ("notifications/tasks", "notifications/tasks/status")
        return [NotificationBinding(method=each, params_type=Anything, handler=self.hear) for each in methods]

    async def until(self, status: str) -> dict[str, Any]:
        while not any(each["status"] == status for each in self.heard):
            self.news = anyio.Event()
            await self.news.wait()
        return next(each for each in self.heard if each["status"] == status)


async def test_a_client_of_the_older_revision_hears_of_the_end() -> None:
    work, go, _ = held()
    hearing = Hearing()
    with anyio.fail_after(10):
        async with Client(TaskGateway(work).start().sdk, mode=LEGACY, extensions=[hearing]) as client:
            task = (await TaskClient(client, LEGACY).create("work", what="tea"))["taskId"]
            go.set()
            ended = await hearing.until("completed")
    assert ended["taskId"] == task
    assert "ttl" in ended


async def test_a_client_of_the_newer_revision_hears_of_the_tasks_it_names_and_owns() -> None:
    work, go, _ = held()
    hearing, task, ended = Hearing(), "", dict[str, Any]()
    with anyio.fail_after(10):
        async with (
            Client(TaskGateway(work).start().sdk, mode=MODERN, extensions=[hearing]) as connected,
            anyio.create_task_group() as tasks,
        ):
            client = TaskClient(connected, MODERN)
            task = (await client.create("work", what="tea"))["taskId"]

            async def listen() -> None:
                await client.send("subscriptions/listen", notifications={"taskIds": [task, "unknown"]})

            tasks.start_soon(listen)
            await hearing.until("working")
            go.set()
            ended = await hearing.until("completed")
            tasks.cancel_scope.cancel()
    assert ended["taskId"] == task
    assert ended["result"]["content"][0]["text"] == "done with tea"
    assert {each["taskId"] for each in hearing.heard} == {task}


async def test_only_a_client_that_declares_tasks_may_listen_to_them() -> None:
    work, _, _ = held()
    async with TaskGateway(work).connect(MODERN, has_tasks=False) as client:
        with pytest.raises(MCPError) as refused:
            await client.send("subscriptions/listen", notifications={"taskIds": ["t"]})
    assert refused.value.code == -32021
