"""A question to the user: asked, answered, declined, given up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle import Call, TurnRunner
from spindle.errors import InvalidGateResolutionError
from spindle.kit.questions import ask_user
from tests.kit.calling import Workshop

pytestmark = pytest.mark.anyio


async def turn(settle: Callable[[Any, str], None], **args: Any) -> tuple[bool, Any, list[Any]]:
    """Ask in a turn; gives whether it was an error, the text the model gets, and the gates that opened."""
    seen: list[Any] = []

    async def model(ctx: Any) -> Any:
        return "done" if ctx.tool_calls else [Call("c1", "ask_user", args)]

    runner = TurnRunner(executor_callback=model, tools=[ask_user])

    def opened(gate: Any) -> None:
        seen.append(gate)
        settle(runner.gates, gate.id)

    runner.on("turn_gate_open", opened)
    report = await runner.run(messages=["go"])
    record = report.tool_calls[0]
    return record.is_error, record.results, seen


async def test_the_answer_is_the_result() -> None:
    is_error, text, (gate,) = await turn(
        lambda gates, gate_id: gates.resolve(gate_id, "blue"), question="Which colour?"
    )

    assert (is_error, text) == (False, "blue")
    assert gate.reason == "ask_user"
    assert gate.payload == {"question": "Which colour?", "options": None}


async def test_an_answer_that_is_not_an_option_leaves_the_question_open() -> None:
    refused: list[Exception] = []

    def settle(gates: Any, id: str) -> None:
        try:
            gates.resolve(id, "green")
        except InvalidGateResolutionError as error:
            refused.append(error)
        gates.resolve(id, "red")

    is_error, text, (gate,) = await turn(settle, question="Which?", options=["red", "blue"])

    assert (is_error, text, len(refused)) == (False, "red", 1)
    assert gate.payload["options"] == ["red", "blue"]


async def test_a_declined_question_is_an_error_that_says_so() -> None:
    is_error, text, _ = await turn(
        lambda gates, gate_id: gates.reject(gate_id, PermissionError("secret reason")), question="Why?"
    )

    assert is_error
    assert "declined" in text
    assert "secret reason" not in text


async def test_a_question_that_is_given_up_is_an_error() -> None:
    is_error, text, _ = await turn(lambda gates, gate_id: gates.abort(gate_id), question="Why?")

    assert is_error
    assert "withdrawn" in text


async def test_a_question_outside_a_turn_is_refused(tmp_path: Path) -> None:
    error = await Workshop(tmp_path).err("ask_user", question="Is anybody there?")

    assert error.code == "not_available"


async def test_a_question_without_words_or_options_is_refused(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)

    assert (await workshop.err("ask_user", question="")).code == "input_invalid"
    assert (await workshop.err("ask_user", question="x", options=[])).code == "input_invalid"
