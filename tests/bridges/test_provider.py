"""What the caller wishes the model to call."""

import pytest

from spindle import tool
from spindle.bridges.anthropic import definitions
from spindle.bridges.provider import ToolChoice, resolve_tool_choice
from spindle.errors import UnknownToolError


@tool(name="a.b")
async def dotted() -> None:
    """Do nothing."""


REPORTED = definitions([dotted])


@pytest.mark.parametrize("trip", [0, 3])
def test_a_choice_that_forces_nothing_holds_on_every_trip(trip: int) -> None:
    assert resolve_tool_choice("auto", REPORTED, iteration=trip) == ToolChoice("auto")
    assert resolve_tool_choice("none", REPORTED, iteration=trip) == ToolChoice("none")
    assert resolve_tool_choice(None, REPORTED, iteration=trip) is None


@pytest.mark.parametrize("wish", ["required", "any", "a.b"])
def test_a_choice_that_forces_a_call_holds_on_the_first_trip_only(wish: str) -> None:
    first = ToolChoice("tool", "a_b_2e7336dc") if wish == "a.b" else ToolChoice("required")

    assert resolve_tool_choice(wish, REPORTED, iteration=0) == first
    assert resolve_tool_choice(wish, REPORTED, iteration=1) == ToolChoice("auto")


def test_a_name_that_no_tool_has_is_refused() -> None:
    with pytest.raises(UnknownToolError):
        resolve_tool_choice("a_b", REPORTED, iteration=0)


def test_without_tools_there_is_nothing_to_choose() -> None:
    assert resolve_tool_choice("required", definitions([]), iteration=0) is None
