"""The messages that a model reads, case by case: a change of their words must be seen, and judged, in a review.

Each message names the tool or the argument, says what was expected, and says what to do next.
"""

from typing import Annotated, Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field

from spindle import Backends, Budget, Call, Capabilities, Err, Executor, Ok, ToolContext, ToolFilter, ToolRegistry, tool

pytestmark = pytest.mark.anyio


class Address(BaseModel):
    """Where to deliver."""

    street: str
    code: Annotated[str, Field(pattern=r"^\d{5}$")]


@tool
def order(
    customer: str,
    count: Annotated[int, Field(ge=1, le=100)] = 1,
    size: Literal["small", "large"] = "small",
    address: Address | None = None,
) -> str:
    """Order something."""
    return "x" * 300


@tool
def fail() -> str:
    """Fail."""
    raise ConnectionError("the password is hunter2")


@tool(timeout_seconds=0.01)
async def hang() -> None:
    """Hang."""
    await anyio.sleep_forever()


@tool
def secret_order() -> str:
    """Order without a trace."""
    return ""


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(capabilities=Capabilities(network=["shop.example"]))
def fetch() -> str:
    """Fetch."""
    return ""


@tool(is_available=lambda: False)
def off() -> str:
    """Be off."""
    return ""


REGISTRY = ToolRegistry([order, fail, hang, pay, fetch, off, secret_order])

CASES: dict[str, Call] = {
    "unknown tool": Call("c", "translate"),
    "near name": Call("c", "oder"),
    "filtered": Call("c", "secret_order"),
    "unavailable": Call("c", "off"),
    "no backend": Call("c", "fetch"),
    "no arguments": Call("c", "order"),
    "unknown argument": Call("c", "order", {"customer": "a", "cuont": 2}),
    "wrong type": Call("c", "order", {"customer": "a", "count": "many"}),
    "out of range": Call("c", "order", {"customer": "a", "count": 1000}),
    "not an option": Call("c", "order", {"customer": "a", "size": "medium"}),
    "nested": Call("c", "order", {"customer": "a", "address": {"street": 5, "code": "12"}}),
    "truncated JSON": Call("c", "order", '{"customer": "a", "count'),
    "a list": Call("c", "order", "[1]"),
    "duplicate key": Call("c", "order", '{"customer": "a", "customer": "b"}'),
    "failing handler": Call("c", "fail"),
    "timeout": Call("c", "hang"),
    "no approver": Call("c", "pay", {"cents": 1}),
}

REFUSED = "The arguments for order were refused and nothing was run:\n- {}\nCorrect this and call order again."

EXPECTED: dict[str, str] = {
    "unknown tool": "There is no tool 'translate'; the tools are: 'order', 'fail', 'hang', 'pay' or 'fetch'.",
    "near name": "There is no tool 'oder'; did you mean 'order'?",
    "filtered": (
        "The tool 'secret_order' cannot be used: it is switched off here. Go on with the tools you were given."
    ),
    "unavailable": "The tool 'off' is not available at the moment.",
    "no backend": "The tool 'fetch' requires network, but this executor has no backend for it.",
    "no arguments": REFUSED.format("customer: missing; expected a value, for it is required"),
    "unknown argument": REFUSED.format(
        "cuont: unknown argument; expected only 'customer', 'count', 'size' or 'address'; did you mean 'count'?"
    ),
    "wrong type": REFUSED.format("count: expected a whole number, received text"),
    "out of range": REFUSED.format("count: expected a number of at most 100, received a whole number"),
    "not an option": REFUSED.format("size: expected 'small' or 'large', received text"),
    "nested": REFUSED.format(
        "address.street: expected text, received a whole number\n"
        r"- address.code: expected text that matches the pattern ^\d{5}$, received text"
    ),
    "truncated JSON": REFUSED.format(
        "expected one JSON object with the tool's arguments, received JSON that ends too early (line 1, column 24); "
        "send all of it; a shorter call is less likely to be cut off"
    ),
    "a list": REFUSED.format(
        "expected one JSON object with the tool's arguments, received a list; "
        "wrap it in an object and name each argument"
    ),
    "duplicate key": REFUSED.format(
        "expected one JSON object with the tool's arguments, received JSON that has a key twice (line 1, column 30); "
        "name each argument once"
    ),
    "failing handler": (
        "The tool 'fail' failed while running. Its error was recorded; try something else, or ask the user."
    ),
    "timeout": "The tool 'hang' took too long and was cancelled. Ask for less, or try something else.",
    "no approver": "The tool 'pay' needs a person's approval, and no approver is configured. It was not run.",
}


async def answer(call: Call, **settings: Any) -> Ok | Err:
    executor = Executor(REGISTRY, backends=Backends(), **settings)
    shown = ToolFilter(exclude_tools=["secret_order"])
    [outcome] = await executor.execute_parallel([call], ToolContext(session_id="s"), shown)
    return outcome.result


@pytest.mark.parametrize("case", CASES)
async def test_a_refusal_or_failure_has_the_words_that_were_agreed(case: str) -> None:
    result = await answer(CASES[case])

    assert isinstance(result, Err)
    assert result.error == EXPECTED[case]
    assert result.by == "spindle"
    assert "hunter2" not in result.error


async def test_a_denied_call_gives_the_reason() -> None:
    def approve(_request: object) -> str:
        return "not on a Sunday"

    result = await answer(CASES["no approver"], approve=approve)

    assert isinstance(result, Err)
    assert result.error == "The tool 'pay' was not approved, so it was not run. The reason: not on a Sunday"


async def test_a_truncated_result_names_its_readers() -> None:
    result = await answer(Call("c", "order", {"customer": "a"}), budget=Budget(chars=40))

    assert isinstance(result, Ok)
    assert result.value.splitlines()[1:] == [
        "[truncated — 300 chars total]",
        '[the whole result is kept: call artifact_head, artifact_tail, artifact_grep or artifact_cat with call_id "c"]',
    ]
