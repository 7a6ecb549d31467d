"""Turns on an engine without a server: what crosses to it, and what a worker does with an iteration."""

import json
from typing import Any

import anyio
import pytest

from spindle import Call, Journal, Spool, TurnRunner, tool
from spindle.engines import EngineSettings, EngineTurn, EngineTurns, WorkerStats
from spindle.engines.turns import TurnIterations
from spindle.errors import EngineUnavailableError, UsageError
from spindle.testing import ScriptedModel
from spindle.turns import TurnRest

pytestmark = pytest.mark.anyio

SETTINGS = EngineSettings(url="temporal://127.0.0.1:1", connect_seconds=0.05)


class MemoryTurns:
    """A `TurnClient` whose only worker runs in its own event loop, as long as the turn does not wait."""

    def __init__(self, runners: dict[str, TurnRunner]) -> None:
        self.stats = WorkerStats()
        self.iterations = TurnIterations(runners, self.stats)
        self.turns: dict[str, EngineTurn] = {}
        self.sent: list[Any] = []
        self.failures = 0
        """How many requests fail from now on, because the engine cannot be reached."""
        self.refusal: Exception | None = None

    def _check(self) -> None:
        if self.failures:
            self.failures -= 1
            raise EngineUnavailableError("down")

    async def connect(self) -> None:
        self._check()

    async def start_turn(self, turn: EngineTurn) -> None:
        self._check()
        if self.refusal is not None:
            raise self.refusal
        self.sent.append(json.loads(json.dumps(turn.message)))
        self.turns.setdefault(turn.id, turn)

    async def wait_turn(self, run_id: str, after: int) -> TurnRest:
        self._check()
        while True:
            found = await self.iterations.advance(self.turns[run_id].message, anyio.Event())
            if found["status"] != "running":
                return found["status"]

    async def answer_turn(self, run_id: str, step: int) -> None:
        self.sent.append(step)

    async def cancel_turn(self, run_id: str) -> None:
        self.sent.append("cancel")

    async def start(self, call: Any) -> None:
        raise NotImplementedError

    async def wait(self, call_id: str) -> Any:
        raise NotImplementedError

    async def cancel(self, call_id: str) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.turns.clear()


@tool(requires_approval=True, secret_fields=["card"])
async def pay(amount: int, card: str) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def build_runner(shared: dict[str, Any], *script: Any, **settings: Any) -> TurnRunner:
    return TurnRunner(executor_callback=ScriptedModel(*script), tools=[pay], on_wait="suspend", **shared, **settings)


@pytest.fixture
def shared() -> dict[str, Any]:
    return {"journal": Journal.memory(), "spool": Spool.memory(), "state_key": "a key"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the client runs in a thread with asyncio, and so does this worker


async def test_only_ids_and_steps_cross_to_the_engine(shared: dict[str, Any]) -> None:
    script = (Call("c1", "pay", {"amount": 5, "card": "4111-secret"}), "Thank you.")
    client = MemoryTurns({"shop": build_runner(shared, *script)})
    engine = EngineTurns(client, SETTINGS, "shop")
    runner = build_runner(shared, *script, engine=engine)
    report = await runner.run(messages=["a long secret story"], turn_id="t1")
    assert report.status == "suspended"
    assert report.state is not None
    (question,) = report.state["pending"]
    ended = await runner.resume(report.state, {question["id"]: True})
    assert (ended.status, ended.text) == ("ok", "Thank you.")
    message = {"format": 1, "runner": "shop", "turn_id": "t1"}
    assert client.sent == [message, message, report.state["step"] + 1]
    assert [turn.queue for turn in client.turns.values()] == ["spindle-turns-shop"]
    assert client.stats.iterations == {"suspended": 1, "running": 1, "ended": 1}
    await engine.close()


@pytest.mark.slow
async def test_an_engine_that_restarts_is_asked_again(shared: dict[str, Any]) -> None:
    client = MemoryTurns({"shop": build_runner(shared, "Hello.")})
    engine = EngineTurns(client, EngineSettings(url=SETTINGS.url), "shop")
    client.failures = 3
    report = await build_runner(shared, engine=engine).run(messages=["hi"])
    assert (report.status, report.text) == ("ok", "Hello.")
    await engine.close()


async def test_an_engine_that_refuses_a_turn_is_reported(shared: dict[str, Any]) -> None:
    client = MemoryTurns({})
    client.refusal = ValueError("no such namespace")
    engine = EngineTurns(client, SETTINGS, "shop")
    report = await build_runner(shared, engine=engine).run(messages=["hi"])
    assert (report.status, type(report.error)) == ("error", EngineUnavailableError)
    await engine.close()


async def test_a_worker_with_another_state_key_loses_the_turn_without_running_it(shared: dict[str, Any]) -> None:
    model = ScriptedModel("Hello.")
    parts: dict[str, Any] = {**shared, "state_key": "another key"}
    other = TurnRunner(executor_callback=model, **parts)
    client = MemoryTurns({"shop": other})
    engine = EngineTurns(client, SETTINGS, "shop")
    report = await build_runner(shared, engine=engine).run(messages=["hi"])
    assert report.status == "error"
    assert not client.stats.iterations
    await engine.close()


@pytest.mark.parametrize("message", [{"format": 1, "runner": "other", "turn_id": "t"}, {"format": 2, "runner": "shop"}])
async def test_a_message_for_another_worker_is_refused(message: dict[str, Any], shared: dict[str, Any]) -> None:
    iterations = TurnIterations({"shop": build_runner(shared)}, WorkerStats())
    with pytest.raises(UsageError):
        await iterations.advance(message, anyio.Event())
