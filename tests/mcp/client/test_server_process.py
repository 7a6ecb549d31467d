"""The process of a server in a sandbox: it is restarted, cancelled and ended with all it started."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle.calls import Err, Ok
from spindle.mcp import McpServers, ServerSpec
from tests.bounds import wait_until
from tests.mcp.upstreams import IN_TIME, SERVERS, EventLog, call, changed_to, connected, hostile

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """A word for command lines, by which the processes of this test are found whatever their ids are inside."""
    return f"{tmp_path}#mark"


def count(mark: str) -> int:
    return sum(mark.encode() in words for words in _command_lines())


def _command_lines() -> Iterator[bytes]:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield place.read_bytes()
        except OSError:
            continue


def escaping(mark: str, **more: Any) -> ServerSpec:
    args = ("-I", "-S", str(SERVERS / "escaping.py"), mark)
    return ServerSpec(name="e", command=sys.executable, args=args, **more)


async def test_a_server_that_ends_is_started_again_in_its_sandbox(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(hostile(log=log, sandbox="auto", write=(str(tmp_path),))) as servers:
        before = servers.status()[0].reach
        assert isinstance((await call(servers, "mcp__h__ok")).result, Ok)
        assert isinstance((await call(servers, "mcp__h__crash")).result, Err)
        await changed_to(servers, lambda: servers.status()[0].restarts == 1 and servers.status()[0].state == "ready")

        assert isinstance((await call(servers, "mcp__h__ok")).result, Ok)
        assert servers.status()[0].reach == before
    assert log.read_text().splitlines().count("start") == 2


async def test_the_exit_code_and_stderr_of_a_server_that_fails_are_reported(tmp_path: Path) -> None:
    log = EventLog()
    failing = ServerSpec(name="f", command="sh", args=("-c", "echo no luck >&2; exit 7"))
    async with connected(failing, events=log.events) as servers:
        [status] = servers.status()

    assert "exit code 7" in (status.error or "")
    assert "no luck" in (status.error or "")
    assert "declare" in (status.error or "")


@pytest.mark.parametrize("flags", [(), ("--deaf",)], ids=["polite", "deaf"])
async def test_a_server_and_what_it_detached_are_gone_when_the_client_closes(flags: tuple[str, ...], mark: str) -> None:
    spec = hostile(*flags, mark, name="h", sandbox="auto")
    async with connected(spec, escaping(mark)) as servers:
        assert isinstance((await call(servers, "mcp__e__try", {"what": "detach"})).result, Ok)
        # A process that was just started has no command line for an instant.
        wait_until(lambda: count(mark) >= 3, servers.status)

    wait_until(lambda: count(mark) == 0)


async def test_a_start_that_is_cancelled_leaves_no_process(mark: str) -> None:
    mute = hostile("--mute", mark, sandbox="auto", required=True, start_timeout_seconds=3600)
    with anyio.fail_after(IN_TIME):
        async with McpServers([mute], events=EventLog().events):
            while not count(mark):  # noqa: ASYNC110 - no event tells of it
                await anyio.sleep(0.01)

    wait_until(lambda: count(mark) == 0)


async def test_a_call_that_is_cancelled_leaves_the_server_running() -> None:
    async with connected(hostile(sandbox="auto")) as servers:
        with anyio.move_on_after(0.05):
            await call(servers, "mcp__h__hang")

        assert isinstance((await call(servers, "mcp__h__ok")).result, Ok)
        assert servers.status()[0].restarts == 0


async def test_a_large_message_passes_through_the_pipes() -> None:
    words = "x" * 75_000  # more than a pipe holds
    async with connected(hostile(sandbox="auto", max_result_chars=None)) as servers:
        outcome = await call(servers, "mcp__h__ok", {"say": words})

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == words


KILLED = """
import sys, anyio
from spindle.mcp import McpServers, ServerSpec
async def main():
    spec = ServerSpec(name="e", command=sys.executable, args=tuple(sys.argv[1:]), required=True)
    async with McpServers([spec]) as servers:
        await servers.ready()
        print("ready", flush=True)
        await anyio.sleep(3600)
anyio.run(main)
"""


def test_a_server_does_not_outlive_a_killed_client(mark: str) -> None:
    words = [sys.executable, "-c", KILLED, "-I", "-S", str(SERVERS / "escaping.py"), mark]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        assert count(mark) >= 2
        client.kill()

    wait_until(lambda: count(mark) == 0)


def test_a_program_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("no program")
    program.chmod(0o755)

    async def start() -> str:
        async with connected(ServerSpec(name="p", command=str(program))) as servers:
            return servers.status()[0].error or ""

    assert "Exec format error" in anyio.run(start)
