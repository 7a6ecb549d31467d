"""The size of the spool while serving: oldest first, and never what a live session may still read."""

from typing import Any

import anyio
import pytest
from mcp.client.client import Client

from spindle import Budget, Executor, Spool, ToolRegistry, tool
from spindle.mcp import ToolServer
from spindle.mcp.server.serve import limit_spool
from spindle.mcp.server.sessions import Caller
from tests.mcp.gateways import text_of
from tests.mcp.upstreams import EventLog

pytestmark = pytest.mark.anyio


@tool
def lines(first: str) -> str:
    """Return 10,000 bytes."""
    return f"{first}\n" + "x" * 9_990


class Scene:
    """A server whose requests come from the caller that the test names."""

    def __init__(self, spool: Spool) -> None:
        self.caller, self.received = "a", EventLog()
        registry = ToolRegistry([lines])
        executor = Executor(registry, spool=spool, budget=Budget(chars=1_000))
        self.server = ToolServer(executor, registry, identify=self.identify, is_fenced=False)

    def identify(self, _ctx: object) -> Caller:
        return Caller(key=self.caller)


async def call(client: Client, first: str) -> str:
    """Call the tool and return the id of its artifact."""
    shown = text_of(await client.call_tool("lines", {"first": first}))
    return shown.split('call_id "')[1].split('"')[0]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_artifacts_of_ended_sessions_are_removed_oldest_first(mode: str) -> None:
    now = [0.0]
    spool = Spool.memory(clock=lambda: now[0])
    await spool.write("older run", "x" * 10_000, turn_id="gone")
    scene = Scene(spool)
    async with Client(scene.server.sdk, mode=mode) as client, anyio.create_task_group() as tasks:
        for name in ("a", "b"):
            now[0] += 1
            scene.caller = name
            kept = await call(client, f"of {name}")
        scene.server.forget("a")
        tasks.start_soon(_limit, scene, spool, 15_000)
        await scene.received.until(lambda: scene.received.warned_of("max_bytes", "2 artifacts removed"))
        left = [entry.turn_id for entry in await spool.entries()]
        read = text_of(await client.call_tool("artifact_head", {"call_id": kept, "n": 1}))
        tasks.cancel_scope.cancel()

        assert left == [kept]
        assert "of b" in read


async def test_artifacts_of_a_live_session_are_kept_and_reported() -> None:
    spool = Spool.memory()
    scene = Scene(spool)
    async with Client(scene.server.sdk) as client, anyio.create_task_group() as tasks:
        ids = [await call(client, f"number {number}") for number in range(3)]
        tasks.start_soon(_limit, scene, spool, 5_000)
        await scene.received.until(lambda: scene.received.warned_of("clients may still read"))
        read = [text_of(await client.call_tool("artifact_head", {"call_id": each, "n": 1})) for each in ids]
        tasks.cancel_scope.cancel()

        assert ["number" in each for each in read] == [True] * 3
        assert len(await spool.entries()) == 3


async def test_the_artifact_of_a_call_that_runs_is_kept() -> None:
    written, done = anyio.Event(), anyio.Event()
    spool = Spool.memory()

    @tool
    async def slow() -> str:
        """Take a while."""
        written.set()
        await done.wait()
        return "slow\n" + "x" * 9_990

    registry = ToolRegistry([slow])
    server = ToolServer(Executor(registry, spool=spool, budget=Budget(chars=1_000)), registry, is_fenced=False)
    async with Client(server.sdk) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "slow")
        with anyio.fail_after(30):
            await written.wait()
        running: Any = server.find_readable_calls()
        done.set()

        assert len(running) == 1


async def test_a_spool_that_fails_is_reported_once_and_looked_at_again() -> None:
    class Failing:
        def __init__(self) -> None:
            self.looks, self.was_looked_at_again = 0, anyio.Event()

        async def entries(self) -> Any:
            self.looks += 1
            if self.looks == 3:
                self.was_looked_at_again.set()
            raise OSError("no such disk")

    store: Any = Failing()
    scene = Scene(Spool.memory())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_limit, scene, Spool(store), 5_000)
        with anyio.fail_after(30):
            await store.was_looked_at_again.wait()
        tasks.cancel_scope.cancel()

    assert len(scene.received.warnings) == 1


async def _limit(scene: Scene, spool: Spool, max_bytes: int) -> None:
    await limit_spool(scene.server, spool, max_bytes=max_bytes, events=scene.received.events, pause_seconds=0.01)
