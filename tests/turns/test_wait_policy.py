"""What a turn does where no answer can arrive: `TurnRunner(on_wait=…)`, without suspending."""

from typing import Any, cast

import anyio
import pytest

from spindle import Call, Gate, Journal, ToolContext, TurnRunner, tool
from spindle.errors import InvalidTurnRunnerConfigError
from spindle.testing import ScriptedModel
from spindle.turns import GateInfo

pytestmark = pytest.mark.anyio


@tool(requires_approval=True, secret_fields=["card"])
async def pay(amount: int, card: str = "") -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool
async def choose(*, ctx: ToolContext) -> str:
    """Choose a colour."""
    return await ctx.wait_for(Gate("colour?", timeout_seconds=60, id="colour"))


def runner(*script: Any, **settings: Any) -> TurnRunner:
    return TurnRunner(executor_callback=ScriptedModel(*script), tools=[pay, choose], **settings)


PAY = Call("c1", "pay", {"amount": 5, "card": "card 4111"})


@pytest.mark.parametrize("on_wait", [None, "answer"])
@pytest.mark.parametrize("has_journal", [True, False])
async def test_the_model_sees_that_approval_is_needed(on_wait: Any, *, has_journal: bool) -> None:
    report = await runner([PAY], "done", on_wait=on_wait, journal=Journal.memory() if has_journal else None).run()

    assert (report.status, [record.code for record in report.tool_calls]) == ("ok", ["needs_approval"])


@pytest.mark.parametrize("answer", [True, False, "too much"])
async def test_with_wait_an_approval_is_a_gate(answer: Any) -> None:
    own = runner([PAY], "done", on_wait="wait")
    seen: list[GateInfo] = []

    def settle(gate: GateInfo) -> None:
        seen.append(gate)
        own.gates.resolve(gate.id, answer)

    own.on("turn_gate_open", settle)
    with anyio.fail_after(30):
        report = await own.run()

    [record] = report.tool_calls
    assert record.code == (None if answer is True else "denied")
    assert answer in (True, False) or answer in record.results
    assert seen[0].payload["tool"] == "pay"
    assert "card 4111" not in repr(seen[0])  # digits alone may be in an id or a time


async def test_an_approval_that_waits_ends_with_the_turn() -> None:
    own = runner([PAY], "done", on_wait="wait")
    stop = anyio.Event()
    own.on("turn_gate_open", lambda _gate: stop.set())

    with anyio.fail_after(30):
        report = await own.run(cancel=stop)

    assert report.status == "aborted"
    assert own.gates.pending() == []


async def test_with_answer_a_gate_without_an_observer_ends_its_call() -> None:
    with anyio.fail_after(30):
        report = await runner([Call("c1", "choose")], "done", on_wait="answer").run()

    assert [(record.code, record.is_error) for record in report.tool_calls] == [("needs_approval", True)]


@pytest.mark.parametrize("on_wait", [None, "answer", "wait"])
async def test_a_gate_with_an_observer_waits(on_wait: Any) -> None:
    own = runner([Call("c1", "choose")], "done", on_wait=on_wait)
    own.on("turn_gate_open", lambda gate: own.gates.resolve(gate.id, "red"))

    with anyio.fail_after(30):
        report = await own.run()

    assert [record.results for record in report.tool_calls] == ["red"]


async def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(InvalidTurnRunnerConfigError) as caught:
        runner("done", on_wait=cast("Any", "later"))

    assert caught.value.field == "on_wait"
