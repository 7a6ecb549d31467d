"""What the transport of every engine promises, on an engine in memory."""

import json
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import (
    Backends,
    Call,
    CallOutcome,
    Capabilities,
    Err,
    Executor,
    Journal,
    JsonArtifact,
    Media,
    Ok,
    Spool,
    Tool,
    ToolContext,
    ToolRegistry,
    tool,
)
from spindle.engines import CallRunner, EngineSettings, EngineTransport
from spindle.execution import StateKey
from tests.engines.memory_engine import MemoryEngine

pytestmark = pytest.mark.anyio

SETTINGS = EngineSettings(url="temporal://127.0.0.1:1", connect_seconds=0.2)
KEY = StateKey("a state key")


class Stand:
    """A caller and a worker with an engine in memory between them."""

    def __init__(self, tools: list[Tool], worker_tools: list[Tool] | None = None, **options: Any) -> None:
        self.spool = Spool.memory()
        self.runner = CallRunner(
            ToolRegistry(worker_tools or tools),
            spool=self.spool,
            state_key=options.get("worker_key", KEY),
            backends=options.get("backends", Backends()),
        )
        self.engine = MemoryEngine(self.runner)
        self.transport = EngineTransport(
            self.engine, options.get("settings", SETTINGS), spool=self.spool, state_key=options.get("key", KEY)
        )
        given = {"backends": options.get("backends", Backends()), "spool": self.spool}
        self.executor = Executor(ToolRegistry(tools), transport=self.transport, **given, **options.get("executor", {}))

    async def run(self, name: str, args: dict[str, Any] | None = None, call_id: str = "c1") -> CallOutcome:
        with anyio.fail_after(30):
            (outcome,) = await self.executor.execute_parallel([Call(call_id, name, args or {})], ToolContext("s1"))
        return outcome

    def stored(self) -> str:
        """Everything that the engine has seen: the messages of calls and of results."""
        return json.dumps([call.message for call in self.engine.calls.values()] + self.engine.results)


@asynccontextmanager
async def stand(*tools: Tool, **options: Any) -> AsyncGenerator[Stand]:
    made = Stand(list(tools), **options)
    try:
        yield made
    finally:
        await made.transport.close()


def counting(**options: Any) -> tuple[Tool, list[str]]:
    runs: list[str] = []

    @tool(**options)
    async def work(name: str = "x") -> str:
        """Work."""
        runs.append(name)
        return f"worked on {name}"

    return work, runs


async def test_a_call_runs_on_the_worker_and_its_result_comes_back() -> None:
    @tool
    async def add(a: int, b: int) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    async with stand(add) as made:
        outcome = await made.run("add", {"a": 1, "b": 2})

    assert outcome.result == Ok('{"sum":3}', structured={"sum": 3})
    assert made.runner.stats.outcomes == {"ok": 1}
    assert made.engine.is_closed


async def test_the_same_call_again_is_answered_from_the_engines_record() -> None:
    work, runs = counting()
    async with stand(work) as made:
        first, second = await made.run("work"), await made.run("work")

    assert first.result == second.result == Ok("worked on x")
    assert runs == ["x"]


async def test_a_read_only_call_runs_again() -> None:
    work, runs = counting(read_only=True)
    async with stand(work) as made:
        await made.run("work")
        await made.run("work")

    assert runs == ["x", "x"]


async def test_a_failing_idempotent_call_is_retried_under_another_id() -> None:
    runs: list[int] = []

    @tool(idempotent=True)
    async def flaky() -> str:
        """Fail once."""
        runs.append(1)
        if len(runs) == 1:
            raise OSError("not now")
        return "done"

    async with stand(flaky) as made:
        outcome = await made.run("flaky")

    assert outcome.result == Ok("done")
    assert (outcome.attempts, len(made.engine.calls)) == (2, 2)


async def test_an_error_says_who_wrote_it() -> None:
    @tool
    async def refuse() -> Any:
        """Refuse."""
        return Err("stale_write", "changed meanwhile", field="path")

    work, _ = counting()
    other = Tool(name="work", description="Other.", input_schema={"type": "object"}, handler=lambda *_: "")
    async with stand(refuse, work, worker_tools=[refuse, other]) as made:
        own, theirs = await made.run("refuse"), await made.run("work")

    assert isinstance(own.result, Err)
    assert isinstance(theirs.result, Err)
    assert (own.result.code, own.result.field, own.result.by) == ("stale_write", "path", "tool")
    assert (theirs.result.code, theirs.result.by) == ("not_available", "spindle")


@pytest.mark.parametrize(
    ("options", "runs_again"), [({}, False), ({"idempotent": True}, True), ({"read_only": True}, True)]
)
async def test_after_a_dead_worker_only_a_repeatable_body_runs_again(options: Any, runs_again: bool) -> None:
    work, runs = counting(**options)
    async with stand(work) as made:
        made.engine.starts = 2
        outcome = await made.run("work")

    assert bool(runs) is runs_again
    code = outcome.result.code if isinstance(outcome.result, Err) else None
    assert code == (None if runs_again else "interrupted")


async def test_a_body_that_kills_its_workers_is_not_started_for_ever() -> None:
    work, runs = counting(idempotent=True)
    async with stand(work) as made:
        made.engine.starts = 4
        outcome = await made.run("work")

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "interrupted"
    assert not runs


async def test_after_a_dead_worker_a_tool_may_know_the_outcome() -> None:
    asked: list[str] = []

    def reconcile(key: str, _ctx: Any) -> Ok:
        asked.append(key)
        return Ok("it was sent")

    work, runs = counting(reconcile=reconcile)
    async with stand(work) as made:
        made.engine.starts = 2
        outcome = await made.run("work")

    assert outcome.result == Ok("it was sent")
    assert not runs
    assert len(asked) == 1


async def test_a_worker_with_another_tool_does_not_claim_that_a_started_call_never_ran() -> None:
    work, _ = counting()
    other = Tool(name="work", description="Other.", input_schema={"type": "object"}, handler=lambda *_: "")
    async with stand(work, worker_tools=[other]) as made:
        made.engine.starts = 2
        outcome = await made.run("work")

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "interrupted"


async def test_a_large_result_crosses_as_a_spool_reference() -> None:
    @tool
    async def long_text() -> str:
        """Return a long text."""
        return "line\n" * 50_000

    async with stand(long_text, executor={"journal": None}) as made:
        outcome = await made.run("long_text")
        assert isinstance(outcome.result, Ok)
        assert outcome.result.artifact is not None
        whole = await outcome.result.artifact.as_text()
        entries = [entry.id for entry in await made.spool.entries()]

    assert whole == "line\n" * 50_000
    assert any(name.startswith("spindle-") and name.endswith("/result") for name in entries)


async def test_large_arguments_cross_as_a_spool_reference() -> None:
    @tool
    async def measure(text: str) -> int:
        """Measure."""
        return len(text)

    async with stand(measure) as made:
        outcome = await made.run("measure", {"text": "x" * 100_000})
        stored = made.stored()

    assert outcome.result == Ok("100000", structured=100_000)
    assert len(stored) < 2_000


async def test_media_and_artifacts_cross() -> None:
    @tool
    async def draw() -> Any:
        """Draw."""
        return Media.tool_generated(b"\x89PNG", kind="image", mime_type="image/png", filename="a.png")

    @tool
    async def collect() -> Any:
        """Collect."""
        return JsonArtifact.from_text('{"a": [1, 2]}')

    async with stand(draw, collect) as made:
        drawn, collected = await made.run("draw"), await made.run("collect")
        assert isinstance(drawn.result, Ok)
        assert isinstance(collected.result, Ok)
        assert await drawn.result.media[0].as_bytes() == b"\x89PNG"
        assert drawn.result.media[0].trust_tier == "first-party"
        assert isinstance(collected.result.artifact, JsonArtifact)
        assert await collected.result.artifact.keys() == ["a"]


async def test_secret_arguments_are_sealed() -> None:
    @tool(secret_fields=["password"])
    async def log_in(user: str, password: str) -> str:
        """Log in."""
        return f"{user} with {password} of {len(password)}"

    async with stand(log_in) as made:
        outcome = await made.run("log_in", {"user": "ada", "password": "correct horse"})
        stored = made.stored()

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value.endswith("of 13")
    assert "correct horse" not in outcome.result.value
    assert "correct horse" not in stored


@pytest.mark.parametrize("keys", [{"key": None}, {"worker_key": None}, {"worker_key": StateKey("another key")}])
async def test_secret_arguments_without_the_same_key_are_refused(keys: Any) -> None:
    work, runs = counting(secret_fields=["name"])
    async with stand(work, **keys) as made:
        outcome = await made.run("work", {"name": "correct horse"})

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "not_available"
    assert not runs


async def test_secrets_of_the_worker_cross_by_name_only() -> None:
    @tool(capabilities=Capabilities(secrets=["SHOP_KEY"]))
    async def use_secret(*, ctx: ToolContext) -> str:
        """Show a secret, which must not happen."""
        secret = await ctx.secrets.get("SHOP_KEY")
        return f"the key is {secret.reveal()}"

    backends = Backends.local(".", secrets={"SHOP_KEY": "sk-very-secret-value"})
    async with stand(use_secret, backends=backends) as made:
        outcome = await made.run("use_secret")

    assert isinstance(outcome.result, Ok)
    assert "sk-very-secret-value" not in outcome.result.value
    assert "sk-very-secret-value" not in made.stored()


async def test_cancelling_the_caller_cancels_the_body() -> None:
    started, ended = threading.Event(), threading.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    async with stand(wait) as made:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.run, "wait")
                await anyio.to_thread.run_sync(started.wait)
                tasks.cancel_scope.cancel()
            await anyio.to_thread.run_sync(ended.wait)
        again = await made.run("wait")

    assert isinstance(again.result, Err)
    assert again.result.code == "cancelled"


async def test_a_call_outlives_an_engine_that_is_down_for_a_moment() -> None:
    work, runs = counting()
    async with stand(work) as made:
        await made.run("work", {"name": "first"}, "c0")
        made.engine.is_down = True
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.run, "work")
                await anyio.sleep(0.1)
                made.engine.is_down = False

    assert runs == ["first", "x"]


async def test_an_engine_that_was_never_reached_means_not_available() -> None:
    work, runs = counting()
    async with stand(work) as made:
        made.engine.is_down = True
        outcome = await made.run("work")

    assert isinstance(outcome.result, Err)
    assert (outcome.result.code, outcome.result.retryable) == ("not_available", True)
    assert not runs


async def test_a_call_that_the_engine_refuses_is_not_available() -> None:
    work, runs = counting()
    async with stand(work) as made:
        made.engine.refusal = ValueError("no such namespace")
        outcome = await made.run("work")

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "not_available"
    assert not runs
    assert not made.engine.cancelled


async def test_a_structured_result_that_is_not_json_crosses_as_text() -> None:
    @tool
    async def odd() -> Any:
        """Return something odd."""
        return Ok("the text", structured=object())  # pyright: ignore[reportArgumentType] - on purpose

    async with stand(odd) as made:
        outcome = await made.run("odd")

    assert outcome.result == Ok("the text")


async def test_tools_without_a_queue_and_tools_of_one_turn_run_here() -> None:
    here, runs_here = counting(name="here")
    short, runs_short = counting(name="short", ephemeral=True)
    there, runs_there = counting(name="there", toolset="remote")
    settings = EngineSettings(url=SETTINGS.url, task_queues={"remote": "remote-queue"}, default_queue=None)
    async with stand(here, short, there, settings=settings) as made:
        for name in ("here", "short", "there"):
            await made.run(name)
        queues = [call.queue for call in made.engine.calls.values()]

    assert (runs_here, runs_short, runs_there) == (["x"], ["x"], ["x"])
    assert queues == ["remote-queue"]


CRASH = """
import os, sys, anyio
from spindle import Call, Executor, Journal, ToolContext, ToolRegistry, tool

@tool
def work(name: str = "x") -> str:
    "Die."
    os._exit(3)

async def main():
    async with Journal.sqlite(sys.argv[1]) as journal:
        executor = Executor(ToolRegistry([work]), journal=journal)
        await executor.execute_parallel([Call("c1", "work", {})], ToolContext("s1"))

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("retention_seconds", "code"), [(3600.0, None), (0.001, "interrupted")])
async def test_a_caller_that_crashed_gets_the_recorded_result_from_the_engine(
    tmp_path: Path, retention_seconds: float, code: str | None
) -> None:
    path = tmp_path / "journal.sqlite"
    done = await anyio.run_process([sys.executable, "-c", CRASH, str(path)], check=False)
    assert done.returncode == 3
    work, runs = counting()
    settings = EngineSettings(url=SETTINGS.url, retention_seconds=retention_seconds)
    async with Journal.sqlite(path) as journal, stand(work, settings=settings) as made:
        recorded = await made.run("work")
        again = Executor(ToolRegistry([work]), transport=made.transport, journal=journal)
        (outcome,) = await again.execute_parallel([Call("c1", "work", {})], ToolContext("s1"))

    assert (outcome.result.code if isinstance(outcome.result, Err) else None) == code
    assert code is not None or outcome.result == recorded.result
    assert runs == ["x"]
