"""Clients that use tasks, on both revisions, by plain JSON: the SDK has no types for half of it."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from mcp.client.client import Client
from mcp.client.extension import advertise

from spindle import Err, Executor, Journal, Tool, ToolContext, ToolRegistry
from spindle.journal import StateQuery
from spindle.mcp.server.sessions import Caller
from spindle.mcp.server.tasks.settings import TaskSettings
from spindle.mcp.server.tool_server import ToolServer
from tests.mcp.asking_clients import LEGACY, MODERN, Asked

EXTENSION = "io.modelcontextprotocol/tasks"
ENDED = {"completed", "failed", "cancelled"}


class TaskClient:
    """A connected client; `mode` is its revision of the protocol."""

    def __init__(self, client: Client, mode: str) -> None:
        self.client, self.is_modern = client, mode == MODERN

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its answer as it is on the wire."""
        session = cast("Any", self.client.session)
        data: dict[str, Any] = {"method": method, "params": params}
        options: dict[str, Any] = {"timeout": 30}
        session._stamp(data, options)
        if "taskId" in params:
            options.setdefault("headers", {})["mcp-name"] = params["taskId"]
        return await session._dispatcher.send_raw_request(method, data["params"], options)

    async def call(self, name: str, *, ttl: int | None = None, **arguments: Any) -> dict[str, Any]:
        """Call a tool; on the older revision as a task."""
        task = {} if self.is_modern else {"task": {} if ttl is None else {"ttl": ttl}}
        return await self.send("tools/call", name=name, arguments=arguments, **task)

    async def create(self, name: str, *, ttl: int | None = None, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the task that it became."""
        answer = await self.call(name, ttl=ttl, **arguments)
        assert self.is_modern is (answer.get("resultType") == "task"), answer
        return answer if self.is_modern else answer["task"]

    async def get(self, task: str) -> dict[str, Any]:
        return await self.send("tasks/get", taskId=task)

    async def until(self, task: str, wanted: Callable[[str], bool]) -> dict[str, Any]:
        """Ask for a task until it has a status."""
        while True:
            shown = await self.get(task)
            if wanted(shown["status"]):
                return shown
            await anyio.sleep(0.01)

    async def read(self, task: str) -> dict[str, Any]:
        """Wait for the end of a task and return its result."""
        if not self.is_modern:
            return await self.send("tasks/result", taskId=task)
        shown = await self.until(task, ENDED.__contains__)
        assert shown["status"] == "completed", shown
        return shown["result"]


def text_in(result: dict[str, Any]) -> str:
    """The texts of a result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


class TaskGateway:
    """Servers, one after the other, that share a journal: leaving `connect` stops one, as a restart does."""

    def __init__(self, *tools: Tool, after_seconds: float = 0, journal: Journal | None = None, **options: Any) -> None:
        self.journal = Journal.memory() if journal is None else journal
        self.caller = Caller(key="alice")
        self.server: ToolServer | None = None
        self._tools, self._after_seconds, self._options = tools, after_seconds, options

    def start(self) -> ToolServer:
        registry = ToolRegistry(self._tools)
        executor = Executor(registry, journal=self.journal, spool=self._options.get("spool"), state_key="a key")
        settings: dict[str, Any] = {"ttl_seconds": self._options.get("ttl_seconds", 3_600)}
        tasks = TaskSettings(after_seconds=self._after_seconds, journal=self.journal, **settings)
        self.server = ToolServer(executor, registry, identify=lambda _ctx: self.caller, is_fenced=False, tasks=tasks)
        return self.server

    async def approve(self, name: str, args: dict[str, Any]) -> None:
        """Approve the only call that waits, in another process."""
        assert self.journal.states is not None
        [waiting] = await self.journal.states.select(StateQuery("approval", status="pending"))
        about = json.loads(waiting.data)
        other = Executor(ToolRegistry(self._tools), journal=self.journal, state_key="a key")
        ctx = ToolContext(about["session_id"], turn_id=about["turn_id"])
        [outcome] = await other.execute_parallel([{"id": about["tool_call_id"], "name": name, "args": args}], ctx)
        assert isinstance(outcome.result, Err)
        assert outcome.result.ticket is not None
        await other.resume(outcome.result.ticket, approved=True)

    @asynccontextmanager
    async def connect(
        self, mode: str, *, asked: Asked | None = None, has_tasks: bool = True, server: ToolServer | None = None
    ) -> AsyncGenerator[TaskClient]:
        """Start a server and connect a client, whose user can be asked if there is `asked`."""
        callbacks = {} if asked is None else asked.callbacks("elicitation")
        extensions = [advertise(EXTENSION)] if has_tasks else []
        with anyio.fail_after(10):
            async with Client((server or self.start()).sdk, mode=mode, extensions=extensions, **callbacks) as client:
                yield TaskClient(client, mode)


__all__ = ["ENDED", "EXTENSION", "LEGACY", "MODERN", "Asked", "TaskClient", "TaskGateway", "text_in"]
