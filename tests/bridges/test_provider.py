"""What the caller wishes the model to call."""

import pytest

from spindle import tool
from spindle.bridges.anthropic import definitions
from spindle.bridges.provider import Choice, chosen
from spindle.errors import UnknownToolError


@tool(name="a.b")
async def dotted() -> None:
    """Do nothing."""


TOLD = definitions([dotted])


@pytest.mark.parametrize("trip", [0, 3])
def test_a_choice_that_forces_nothing_holds_on_every_trip(trip: int) -> None:
    assert chosen("auto", TOLD, trip=trip) == Choice("auto")
    assert chosen("none", TOLD, trip=trip) == Choice("none")
    assert chosen(None, TOLD, trip=trip) is None


@pytest.mark.parametrize("wish", ["required", "any", "a.b"])
def test_a_choice_that_forces_a_call_holds_on_the_first_trip_only(wish: str) -> None:
    first = Choice("tool", "a_b") if wish == "a.b" else Choice("required")

    assert chosen(wish, TOLD, trip=0) == first
    assert chosen(wish, TOLD, trip=1) == Choice("auto")


def test_a_name_that_no_tool_has_is_refused() -> None:
    with pytest.raises(UnknownToolError):
        chosen("a_b", TOLD, trip=0)


def test_without_tools_there_is_nothing_to_choose() -> None:
    assert chosen("required", definitions([]), trip=0) is None
