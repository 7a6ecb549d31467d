"""Stopping a real `spindle serve`: by a signal, by a second one, and by closing its pipe."""

import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from spindle.cli.commands.journal import CallFilter, read_calls
from tests.bounds import wait_until
from tests.mcp.gateways import IN_TIME, LEGACY, MODERN, PLAIN, SERVERS, code_of, hostile, text_of
from tests.mcp.serving import COMMAND, chosen_config, serving
from tests.mcp.upstreams import wait_for_ends

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])
either_signal = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the server under test has its own


def config(*, stop_seconds: float) -> str:
    tools = f'[tools]\nmodules = ["holding:TOOLS"]\npython_path = ["{SERVERS}"]\n'
    return f"{tools}{PLAIN}stop_seconds = {stop_seconds}\n{hostile('up')}"


async def recorded(folder: Path, tool: str) -> list[tuple[str, str | None]]:
    """The state and code of each call of a tool in the journal."""
    found = await read_calls(folder / "state" / "journal.sqlite", CallFilter(tool=tool))
    return [(entry.state, entry.code) for entry in found]


async def appears(path: Path) -> None:
    with anyio.fail_after(IN_TIME):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.01)


async def refused(client: Client) -> str | None:
    """Call until the signal, which is on its way, has arrived; gives the code of the refusal."""
    code = None
    while code is None:
        code = code_of(await client.call_tool("whoami", {}))
    return code


async def ended(process: "subprocess.Popen[Any]") -> int:
    with anyio.fail_after(IN_TIME):
        return await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)


async def upstream_pids(client: Client) -> list[int]:
    """The upstream server's process, and one that it started itself."""
    return [int(pid) for pid in text_of(await client.call_tool("mcp__up__child", {})).split()]


@asynccontextmanager
async def holding(
    folder: Path, mode: str, *, stop_seconds: float
) -> "AsyncGenerator[tuple[subprocess.Popen[str], Client, list[Any], list[int]]]":
    """A server with a call that runs, and what becomes of the call."""
    outcome: list[Any] = []
    with serving(folder, config=config(stop_seconds=stop_seconds)) as (process, address):
        async with Client(streamable_http_client(address), mode=mode) as client, anyio.create_task_group() as tasks:
            pids = await upstream_pids(client)

            async def call() -> None:
                try:
                    outcome.append(await client.call_tool("hold", {"folder": str(folder)}))
                except MCPError as error:
                    outcome.append(error)

            tasks.start_soon(call)
            await appears(folder / "began")
            yield process, client, outcome, pids
            tasks.cancel_scope.cancel()


@both_revisions
@either_signal
async def test_a_call_that_runs_may_end_and_no_other_begins(mode: str, number: signal.Signals, tmp_path: Path) -> None:
    async with holding(tmp_path, mode, stop_seconds=300) as (process, client, outcome, pids):
        process.send_signal(number)
        late = await refused(client)
        (tmp_path / "go").touch()
        code = await ended(process)

    assert code == 0
    assert late == "not_available"
    assert text_of(outcome[0]) == "held to the end"
    assert await recorded(tmp_path, "hold") == [("finished", None)]
    wait_for_ends(pids)


@both_revisions
@either_signal
async def test_a_call_that_does_not_end_is_cancelled_answered_and_recorded(
    mode: str, number: signal.Signals, tmp_path: Path
) -> None:
    async with holding(tmp_path, mode, stop_seconds=0.2) as (process, _, outcome, pids):
        process.send_signal(number)
        code = await ended(process)

    assert code == 0
    assert code_of(outcome[0]) == "cancelled"
    assert (tmp_path / "cancelled").exists()
    assert await recorded(tmp_path, "hold") == [("finished", "cancelled")]
    wait_for_ends(pids)


@both_revisions
async def test_a_second_signal_ends_at_once(mode: str, tmp_path: Path) -> None:
    async with holding(tmp_path, mode, stop_seconds=300) as (process, client, outcome, pids):
        process.send_signal(signal.SIGINT)
        await refused(client)
        process.send_signal(signal.SIGINT)
        code = await ended(process)  # long before the 300 s that the call may take

    assert code == 0
    assert code_of(outcome[0]) == "cancelled"
    assert await recorded(tmp_path, "hold") == [("finished", "cancelled")]
    wait_for_ends(pids)


class Pipe:
    """A client at the other end of a server's standard streams, in plain JSON lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._last = 0
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.answer(self.send("initialize", hello))
        self._write({"method": "notifications/initialized"})

    def send(self, method: str, params: Any) -> int:
        self._last += 1
        self._write({"id": self._last, "method": method, "params": params})
        return self._last

    def call(self, name: str, arguments: Any) -> int:
        return self.send("tools/call", {"name": name, "arguments": arguments})

    def answer(self, id: int) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == id:
                return message["result"]
        raise AssertionError("the server closed its side without an answer")

    def _write(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def piped(folder: Path, *, stop_seconds: float) -> Generator[Pipe]:
    (folder / "spindle.toml").write_text(config(stop_seconds=stop_seconds))
    command = [*COMMAND, "serve", "--stdio", *chosen_config(folder), "--state", str(folder / "state")]
    with (folder / "stderr.txt").open("w") as said:
        process = subprocess.Popen(
            command, cwd=folder, stdin=-1, stdout=-1, stderr=said, text=True, start_new_session=True
        )
    try:
        yield Pipe(process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def test_closing_the_pipe_ends_the_server_and_its_upstream(tmp_path: Path) -> None:
    with piped(tmp_path, stop_seconds=300) as pipe:
        pids = pipe.answer(pipe.call("mcp__up__child", {}))["content"][0]["text"].split()
        pipe.close()
        code = pipe.process.wait(IN_TIME)

    assert code == 0
    assert len(pids) == 2
    wait_for_ends(pids)


def test_a_call_that_runs_when_the_pipe_is_closed_is_cancelled_and_recorded(tmp_path: Path) -> None:
    with piped(tmp_path, stop_seconds=300) as pipe:
        pipe.call("hold", {"folder": str(tmp_path)})
        wait_until((tmp_path / "began").exists)
        pipe.close()
        code = pipe.process.wait(IN_TIME)

    assert code == 0
    assert anyio.run(recorded, tmp_path, "hold") == [("finished", "cancelled")]


@either_signal
def test_a_signal_lets_the_call_of_a_pipe_end(number: signal.Signals, tmp_path: Path) -> None:
    with piped(tmp_path, stop_seconds=300) as pipe:
        pids = pipe.answer(pipe.call("mcp__up__child", {}))["content"][0]["text"].split()
        running = pipe.call("hold", {"folder": str(tmp_path)})
        wait_until((tmp_path / "began").exists)
        pipe.process.send_signal(number)
        (tmp_path / "go").touch()
        answer = pipe.answer(running)
        code = pipe.process.wait(IN_TIME)  # although its client keeps the pipe open

    assert code == 0
    assert answer["content"][0]["text"] == "held to the end"
    assert anyio.run(recorded, tmp_path, "hold") == [("finished", None)]
    wait_for_ends(pids)


@pytest.mark.parametrize("signals", [1, 2])
def test_a_call_of_a_pipe_that_does_not_end_is_cancelled_and_answered(signals: int, tmp_path: Path) -> None:
    with piped(tmp_path, stop_seconds=0.2 if signals == 1 else 300) as pipe:
        running = pipe.call("hold", {"folder": str(tmp_path)})
        wait_until((tmp_path / "began").exists)
        pipe.process.send_signal(signal.SIGTERM)
        if signals == 2:
            while not pipe.answer(pipe.call("whoami", {}))["isError"]:
                time.sleep(0.01)
            pipe.process.send_signal(signal.SIGTERM)
        answer = pipe.answer(running)
        code = pipe.process.wait(IN_TIME)

    assert code == 0
    assert answer["_meta"]["spindle/code"] == "cancelled"
    assert anyio.run(recorded, tmp_path, "hold") == [("finished", "cancelled")]


@either_signal
def test_a_server_that_has_nothing_to_do_stops_at_once(number: signal.Signals, tmp_path: Path) -> None:
    with piped(tmp_path, stop_seconds=300) as pipe:
        pipe.answer(pipe.call("whoami", {}))
        pipe.process.send_signal(number)
        assert pipe.process.wait(IN_TIME) == 0
