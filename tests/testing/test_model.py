"""A model that plays a script."""

from typing import Any

import pytest

from spindle import Call, TurnRunner, tool
from spindle.errors import ExecutorCallbackError
from spindle.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Echo a text."""
    return text


def say(text: str) -> Call:
    return Call(text, "echo", {"text": text})


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(([say("a"), say("b")], "done"), id="steps"),
        pytest.param(([[say("a"), say("b")], "done"],), id="one-list"),
    ],
)
async def test_the_steps_are_arguments_or_one_list(script: tuple[Any, ...]) -> None:
    model = ScriptedModel(*script)

    report = await TurnRunner(executor_callback=model, tools=[echo]).run()

    assert (report.text, [call.id for call in report.tool_calls]) == ("done", ["a", "b"])
    assert model.seen == [["echo"], ["echo"]]


async def test_one_list_of_calls_is_one_step() -> None:
    report = await TurnRunner(executor_callback=ScriptedModel([say("a")]), tools=[echo]).run()

    assert [call.id for call in report.tool_calls] == ["a"]
    assert isinstance(report.error, ExecutorCallbackError)  # the script is over
