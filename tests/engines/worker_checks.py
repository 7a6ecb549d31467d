"""What every worker process does besides the scenarios of the suite; the tests of both engines run these checks."""

import json
import random
import signal
from collections.abc import Awaitable, Callable

import anyio
import httpx2

from spindle import Call, Executor, ToolContext
from spindle.mcp import McpServers, ServerSpec
from spindle.testing.engine_suite import Case, SuiteReply, TurnCase, TurnReply
from tests.engines.harnesses import EngineProcesses


async def finish_running_calls_after_sigterm(engine: EngineProcesses) -> None:
    case, replies = Case(harness=engine), list[SuiteReply]()
    worker = await engine.start_worker(drain_seconds=60)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_collect, case, case.call("hold", "slow"), replies)
        await case.wait_for("slow")
        worker.send(signal.SIGTERM)
        await worker.wait_for_log("Stopping after SIGTERM")
        case.release()
        assert await worker.wait() == 0, worker.read_log()
    assert [(reply.code, reply.text) for reply in replies] == [("ok", "held slow")]
    assert case.count("slow") == 1


async def hand_over_calls_that_do_not_end_in_time(engine: EngineProcesses) -> None:
    case, replies = Case(harness=engine), list[SuiteReply]()
    worker = await engine.start_worker(drain_seconds=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_collect, case, case.call("hold", "once"), replies)
        tasks.start_soon(_collect, case, case.call("hold_again", "twice"), replies)
        await case.wait_for("once")
        await case.wait_for("twice")
        await worker.stop(signal.SIGTERM)
        case.release()
        await engine.start_worker()
    assert sorted(reply.code for reply in replies) == ["interrupted", "ok"]
    assert (case.count("once"), case.count("twice")) == (1, 2)


async def hand_over_turns_when_stopped(engine: EngineProcesses) -> None:
    """Stop a worker with a turn that waits and one inside of a call: another worker goes on, the call is cancelled."""
    case, replies = TurnCase(harness=engine, turns=engine), list[TurnReply]()
    worker = await engine.start_worker(drain_seconds=1)
    ended = asked = await case.run("waiting", [case.call("pay", "bill")], "paid")
    assert asked.state is not None

    async def run() -> None:
        replies.append(await case.run("running", [case.call("hold_again", "moved")], "x" * 200_000))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await case.wait_for("moved")
        assert await worker.stop(signal.SIGTERM) == 0, worker.read_log()
        case.release()
        await engine.start_worker()
        ended = await engine.resume_turn(asked.state, {each["id"]: True for each in asked.state["pending"]})
    assert (ended.status, ended.text, case.count("bill")) == ("ok", "paid", 1)
    found = [(reply.status, len(reply.text), reply.calls) for reply in replies]
    assert found == [("ok", 200_000, (("hold_again-moved", "cancelled"),))], found


async def serve_health_and_metrics(engine: EngineProcesses) -> None:
    case = Case(harness=engine)
    worker = await engine.start_worker(options=["--health-port", "0"])
    (line,) = [each for each in worker.read_log().splitlines() if each.startswith("Status: ")]
    url = line.removeprefix("Status: ").strip()
    await case.ask(case.call("note", "a"))
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
        health = await client.get(url)
        metrics = await client.get(url.replace("/health", "/metrics"))
    assert (health.status_code, json.loads(health.text)["status"]) == (200, "ok")
    assert 'spindle_worker_calls_total{code="ok"} 1' in metrics.text


async def refuse_the_late_result_of_a_paused_worker(engine: EngineProcesses) -> None:
    """Pause a worker until another one has taken over: the record stays, and the paused one works on."""
    case, replies = Case(harness=engine), list[SuiteReply]()
    paused = await engine.start_worker()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_collect, case, case.call("hold", "once"), replies)
        await case.wait_for("once")
        paused.send(signal.SIGSTOP)
        await engine.start_worker()
    assert [reply.code for reply in replies] == ["interrupted"]
    await engine.workers[-1].kill()
    paused.send(signal.SIGCONT)
    await case.wait_for("once", "cancelled")
    case.release()
    (later,) = await case.ask(case.call("note", "later"))
    (again,) = await case.ask(case.call("hold", "once"))
    assert (later.code, again.code) == ("ok", "interrupted")
    assert case.effects()[-1] == ("start", "later", paused.pid)
    assert case.count("once") == 1


async def survive_random_kills(engine: EngineProcesses) -> None:
    """Kill a random worker again and again: every call has one outcome, and only repeatable bodies run twice."""
    chance, case = random.Random(17), Case(harness=engine)
    names = [f"n{number}" for number in range(40)]
    calls = [case.call("work" if number % 2 else "work_again", name) for number, name in enumerate(names)]
    workers = [await engine.start_worker(concurrency=2) for _ in range(2)]
    replies: list[SuiteReply] = []
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            replies.extend(await case.ask(*calls))

        tasks.start_soon(ask)
        for _ in range(4):
            await anyio.sleep(chance.uniform(0.3, 1.5))
            victim = workers.pop(chance.randrange(2))
            await victim.kill()
            workers.append(await engine.start_worker(concurrency=2))
    again = await case.ask(*calls)
    for number, (name, reply) in enumerate(zip(names, replies, strict=True)):
        is_repeatable = number % 2 == 0
        assert reply.code == "ok" or (reply.code == "interrupted" and not is_repeatable), (name, reply)
        assert case.count(name) <= 1 or is_repeatable, (name, case.effects())
        assert case.count(name) >= 1 or reply.code == "interrupted"
    assert again == replies


async def run_calls_of_the_command(engine: EngineProcesses) -> None:
    case = Case(harness=engine)
    worker = await engine.start_worker()
    done = await anyio.run_process(
        [*engine.command("call", "note"), f"folder={engine.folder}", "name=typed", "--output", "raw"], check=False
    )
    assert (done.returncode, done.stdout.decode().strip()) == (0, "noted typed"), done.stderr.decode()
    assert case.effects() == [("start", "typed", worker.pid)]


async def run_calls_of_the_gateway(engine: EngineProcesses) -> None:
    case = Case(harness=engine)
    worker = await engine.start_worker()
    command, *args = engine.command("serve", "--stdio", "--engine", engine.settings.url)
    spec = ServerSpec(name="gateway", command=command, args=tuple(args), start_timeout_seconds=90, sandbox="none")
    async with McpServers([spec]) as servers:
        await servers.ready()
        executor = Executor(servers.registry)
        call = Call("c1", "mcp__gateway__note", {"folder": str(engine.folder), "name": "served"})
        (outcome,) = await executor.execute_parallel([call], ToolContext("s1"))
    assert outcome.ok, outcome
    assert case.effects() == [("start", "served", worker.pid)]


async def _collect(case: Case, call: Call, replies: list[SuiteReply]) -> None:
    replies.extend(await case.ask(call))


CHECKS: dict[str, Callable[[EngineProcesses], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        finish_running_calls_after_sigterm,
        hand_over_calls_that_do_not_end_in_time,
        hand_over_turns_when_stopped,
        serve_health_and_metrics,
        refuse_the_late_result_of_a_paused_worker,
        survive_random_kills,
        run_calls_of_the_command,
        run_calls_of_the_gateway,
    )
}
