"""A model that plays a script."""

from typing import Any

import anyio
import pytest

from spindle import Backends, Call, Capabilities, DispatchContext, Err, Events, Ok, ToolContext, TurnRunner, tool
from spindle.capabilities import StorageBackend
from spindle.errors import InvalidContextError, InvalidToolError, UsageError
from spindle.testing import RecordingSink, ScriptedModel, call

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
async def test_script_is_given_as_arguments_or_one_list(script: tuple[Any, ...]) -> None:
    model = ScriptedModel(*script)

    report = await TurnRunner(executor_callback=model, tools=[echo]).run()

    assert (report.text, [call.id for call in report.tool_calls]) == ("done", ["a", "b"])
    assert model.seen == [["echo"], ["echo"]]


async def test_one_list_of_calls_is_one_step() -> None:
    report = await TurnRunner(executor_callback=ScriptedModel([say("a")]), tools=[echo]).run()

    assert [call.id for call in report.tool_calls] == ["a"]
    assert isinstance(report.error, UsageError)  # the script is over


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def named(args: str, ctx_: str = "") -> str:
    """Take an argument with a name of our own."""
    return args + ctx_


@tool
async def greet(name: str = "you") -> str:
    """Greet a person."""
    return f"Hello, {name}"


@tool(timeout_seconds=0.01)
async def never() -> None:
    """Never answer."""
    await anyio.sleep_forever()


@tool
async def where(ctx: ToolContext) -> str:
    """Say whose call it is."""
    ctx.progress("looking")
    return ctx.session_id


@tool(capabilities=Capabilities(storage="session"))
async def keep(ctx: ToolContext) -> str:
    """Keep a word."""
    await ctx.storage.set("word", "kept")
    return str(await ctx.storage.get("word"))


@pytest.mark.parametrize(
    ("args", "more"),
    [
        pytest.param({"a": 1, "b": 4}, {}, id="mapping"),
        pytest.param(None, {"a": 1, "b": 4}, id="keywords"),
        pytest.param({"a": 1}, {"b": 4}, id="both"),
        pytest.param('{"a": 1, "b": 4}', {}, id="json"),
    ],
)
async def test_call_takes_arguments_as_mapping_keywords_or_text(args: Any, more: dict[str, Any]) -> None:
    outcome = await call(add, args, **more)

    assert isinstance(outcome.result, Ok)
    assert (outcome.name, outcome.result.value) == ("add", "5")
    assert outcome.args == {"a": 1, "b": 4}


async def test_argument_named_like_a_parameter_of_call_goes_into_the_mapping() -> None:
    outcome = await call(named, {"args": "x"}, ctx_="y")

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == "xy"


async def test_call_without_arguments_uses_the_defaults() -> None:
    assert (await call(greet)).to_record().results == "Hello, you"


async def test_call_with_invalid_arguments_is_rejected() -> None:
    outcome = await call(add, a="many")

    assert isinstance(outcome.result, Err)
    assert (outcome.result.code, outcome.attempts) == ("input_invalid", 0)


async def test_call_is_limited_by_the_timeout_of_the_tool() -> None:
    with anyio.fail_after(30):
        outcome = await call(never)

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "timed_out"


async def test_call_of_a_tool_without_its_backend_is_rejected() -> None:
    refused = await call(keep)
    served = await call(keep, backends=Backends(storage=StorageBackend.memory()))

    assert isinstance(refused.result, Err)
    assert refused.result.code == "not_available"
    assert isinstance(served.result, Ok)
    assert served.result.value == "kept"


async def test_call_uses_the_given_tool_context() -> None:
    events = Events()
    sink = RecordingSink(events)

    outcome = await call(where, ctx=ToolContext("ada", events=events))

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == "ada"
    assert [reported.message for reported in sink.of("tool_progress")] == ["looking"]


async def test_call_uses_the_given_dispatch_context() -> None:
    assert (await call(where, ctx=DispatchContext())).ok


@pytest.mark.parametrize(
    ("args", "field"), [pytest.param({"a": 1}, "a", id="twice"), pytest.param('{"b": 1}', "args", id="beside-text")]
)
async def test_call_rejects_duplicate_arguments(args: Any, field: str) -> None:
    with pytest.raises(UsageError) as caught:
        await call(add, args, a=2)

    assert caught.value.field == field


async def test_call_rejects_invalid_tools_and_contexts() -> None:
    nothing: Any = object()

    with pytest.raises(InvalidToolError):
        await call(nothing)
    with pytest.raises(InvalidContextError):
        await call(add, a=1, ctx=nothing)
