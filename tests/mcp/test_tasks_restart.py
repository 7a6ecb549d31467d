"""Tasks through a real gateway that is stopped or killed: both revisions in front, both behind it."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp.client.client import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client

from tests.mcp.gateways import SERVERS, entry
from tests.mcp.serving import npm_program, serving
from tests.mcp.task_clients import ENDED, EXTENSION, LEGACY, MODERN, Asked, TaskClient, text_in

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]
both_in_front = pytest.mark.parametrize("mode", [LEGACY, MODERN])
both_behind = pytest.mark.parametrize("upstream", ["http-older", "http"])
both_ends = pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
CONFIG = "[server]\nfence = false\ntask_after_seconds = 0.2\nstop_seconds = 1\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the servers under test have their own


@contextmanager
def upstream_server(folder: Path, kind: str) -> Generator[str]:
    command = [sys.executable, str(SERVERS / "tasking.py"), str(folder), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        finally:
            process.kill()


@asynccontextmanager
async def gateway(
    folder: Path, mode: str, *, ending: signal.Signals = signal.SIGKILL, has_tasks: bool = True, **client: Any
) -> AsyncGenerator[TaskClient]:
    """Serve the folder's configuration, connect, and end the server with a signal."""
    extensions = [advertise(EXTENSION)] if has_tasks else []
    with anyio.fail_after(90), serving(folder) as (process, address):
        async with Client(streamable_http_client(address), mode=mode, extensions=extensions, **client) as connected:
            yield TaskClient(connected, mode)
            os.kill(process.pid, ending)
            process.wait(30)


def read_log(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


async def until_logged(folder: Path, line: str, count: int = 1) -> None:
    while read_log(folder).count(line) < count:  # noqa: ASYNC110  another process writes it
        await anyio.sleep(0.02)


@both_in_front
@both_behind
@both_ends
async def test_a_task_of_an_upstream_task_survives_a_restart_and_is_not_sent_twice(
    mode: str, upstream: str, ending: signal.Signals, tmp_path: Path
) -> None:
    with upstream_server(tmp_path, upstream) as address:
        (tmp_path / "spindle.toml").write_text(f'{CONFIG}[mcp.servers.up]\nurl = "{address}"\n')
        async with gateway(tmp_path, mode, ending=ending) as client:
            task = (await client.create("mcp__up__build", what="boat"))["taskId"]
            await until_logged(tmp_path, "get task-1", 2)
            before = await client.get(task)
        async with gateway(tmp_path, mode) as client:
            after = await client.get(task)
            (tmp_path / "go").touch()
            ended = await client.until(task, ENDED.__contains__)
            result = await client.read(task)
        async with gateway(tmp_path, mode) as client:
            once_more = await client.read(task)

    assert (before["status"], before["statusMessage"]) == ("working", "build boat")
    assert after["status"] == "working"
    assert ended["status"] == "completed"
    assert text_in(result) == "built boat"
    assert once_more == result
    assert read_log(tmp_path).count("call build") == 1
    assert "cancel task-1" not in read_log(tmp_path)


@both_in_front
@both_behind
async def test_a_cancelled_task_cancels_the_upstream_task(mode: str, upstream: str, tmp_path: Path) -> None:
    with upstream_server(tmp_path, upstream) as address:
        (tmp_path / "spindle.toml").write_text(f'{CONFIG}[mcp.servers.up]\nurl = "{address}"\n')
        async with gateway(tmp_path, mode) as client:
            task = (await client.create("mcp__up__build", what="boat"))["taskId"]
            await until_logged(tmp_path, "get task-1")
            await client.send("tasks/cancel", taskId=task)
            await until_logged(tmp_path, "cancel task-1")
            shown = await client.get(task)
    assert shown["status"] == "cancelled"


@both_in_front
@both_behind
async def test_the_question_of_an_upstream_task_reaches_the_user(mode: str, upstream: str, tmp_path: Path) -> None:
    asked = Asked()
    asked.elicitation.content["name"] = "Ada"
    with upstream_server(tmp_path, upstream) as address:
        (tmp_path / "spindle.toml").write_text(f'{CONFIG}[mcp.servers.up]\nurl = "{address}"\n'.replace("0.2", "0"))
        async with gateway(tmp_path, mode, **asked.callbacks("elicitation")) as client:
            task = (await client.create("mcp__up__ask_name"))["taskId"]
            waiting = await client.until(task, lambda status: status == "input_required")
            for key in waiting.get("inputRequests", {}):
                response = {"action": "accept", "content": {"name": "Ada"}}
                await client.send("tasks/update", taskId=task, inputResponses={key: response})
            result = await client.read(task)
    assert text_in(result) == "hello Ada"


@both_in_front
@both_behind
async def test_a_client_without_tasks_gets_the_result_and_progress(mode: str, upstream: str, tmp_path: Path) -> None:
    said: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        said.append(message)
        (tmp_path / "go").touch()

    with upstream_server(tmp_path, upstream) as address:
        (tmp_path / "spindle.toml").write_text(f'{CONFIG}[mcp.servers.up]\nurl = "{address}"\n')
        async with gateway(tmp_path, mode, has_tasks=False) as client:
            result = await client.client.call_tool("mcp__up__build", {"what": "boat"}, progress_callback=report)
    assert result.content[0].text == "built boat"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert said[0] == "build boat"


@both_in_front
@both_ends
async def test_a_local_task_that_dies_with_the_gateway_has_failed(
    mode: str, ending: signal.Signals, tmp_path: Path
) -> None:
    tools = f'[tools]\nmodules = ["holding:TOOLS"]\npython_path = ["{SERVERS}"]\n'
    (tmp_path / "spindle.toml").write_text(CONFIG + tools)
    async with gateway(tmp_path, mode, ending=ending) as client:
        task = (await client.create("hold", folder=str(tmp_path)))["taskId"]
        await anyio.lowlevel.checkpoint()
        while not (tmp_path / "began").exists():  # noqa: ASYNC110  another process creates it
            await anyio.sleep(0.02)
    async with gateway(tmp_path, mode) as client:
        shown = await client.until(task, ENDED.__contains__)
    assert shown["status"] == "failed"
    assert "not known" in shown["statusMessage"] or "unknown" in shown["statusMessage"]


@both_in_front
async def test_the_task_tool_of_the_reference_server_is_used_as_one(mode: str, tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text(CONFIG + entry("everything", npm_program("mcp-server-everything")))
    name = "mcp__everything__simulate-research-query"
    async with gateway(tmp_path, mode) as client:
        task = (await client.create(name, topic="tea", ambiguous=False))["taskId"]
        result = await client.read(task)
    assert "tea" in text_in(result)
