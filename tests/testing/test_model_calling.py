"""One call of one tool, in one line."""

from typing import Any

import anyio
import pytest

from spindle import Backends, Capabilities, DispatchContext, Err, Events, Ok, ToolContext, tool
from spindle.capabilities import StorageBackend
from spindle.errors import InvalidContextError, InvalidToolError, UsageError
from spindle.testing import RecordingSink, call

pytestmark = pytest.mark.anyio


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
    """Greet somebody."""
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
async def test_arguments_come_in_a_mapping_as_keywords_or_as_text(args: Any, more: dict[str, Any]) -> None:
    outcome = await call(add, args, **more)

    assert isinstance(outcome.result, Ok)
    assert (outcome.name, outcome.result.value) == ("add", "5")
    assert outcome.args == {"a": 1, "b": 4}


async def test_an_argument_with_a_name_of_ours_goes_into_the_mapping() -> None:
    outcome = await call(named, {"args": "x"}, ctx_="y")

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == "xy"


async def test_without_arguments_each_has_its_default() -> None:
    assert (await call(greet)).to_record().results == "Hello, you"


async def test_the_schema_guards_the_tool() -> None:
    outcome = await call(add, a="many")

    assert isinstance(outcome.result, Err)
    assert (outcome.result.code, outcome.attempts) == ("input_invalid", 0)


async def test_the_deadline_holds() -> None:
    with anyio.fail_after(30):
        outcome = await call(never)

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "timed_out"


async def test_a_capability_needs_a_backend() -> None:
    refused = await call(keep)
    served = await call(keep, backends=Backends(storage=StorageBackend.memory()))

    assert isinstance(refused.result, Err)
    assert refused.result.code == "not_available"
    assert isinstance(served.result, Ok)
    assert served.result.value == "kept"


async def test_the_call_is_made_in_the_context_that_is_given() -> None:
    events = Events()
    sink = RecordingSink(events)

    outcome = await call(where, ctx=ToolContext("ada", events=events))

    assert isinstance(outcome.result, Ok)
    assert outcome.result.value == "ada"
    assert [told.message for told in sink.of("tool_progress")] == ["looking"]


async def test_a_turns_context_does_too() -> None:
    assert (await call(where, ctx=DispatchContext())).ok


@pytest.mark.parametrize(
    ("args", "field"), [pytest.param({"a": 1}, "a", id="twice"), pytest.param('{"b": 1}', "args", id="beside-text")]
)
async def test_arguments_that_contradict_each_other_are_refused(args: Any, field: str) -> None:
    with pytest.raises(UsageError) as caught:
        await call(add, args, a=2)

    assert caught.value.field == field


async def test_what_is_no_tool_or_no_context_is_refused() -> None:
    nothing: Any = object()

    with pytest.raises(InvalidToolError):
        await call(nothing)
    with pytest.raises(InvalidContextError):
        await call(add, a=1, ctx=nothing)
