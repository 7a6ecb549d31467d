"""Settings of single tools."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp import ToolSettings
from spindle.mcp.tool_settings import EVERY_TOOL, get_tool_settings, list_unknown

SETTINGS = st.builds(
    ToolSettings,
    requires_approval=st.none() | st.booleans(),
    timeout_seconds=st.none() | st.floats(0.1, 100),
    max_result_chars=st.none() | st.integers(1, 1000),
    hidden=st.none() | st.booleans(),
)


@given(named=SETTINGS, every=SETTINGS)
def test_each_value_is_the_tools_own_or_that_of_every_tool(named: ToolSettings, every: ToolSettings) -> None:
    found = get_tool_settings({"a": named, EVERY_TOOL: every}, "a")

    for each in fields(ToolSettings):
        own, other = getattr(named, each.name), getattr(every, each.name)
        assert getattr(found, each.name) == (other if own is None else own)
    assert get_tool_settings({"a": named, EVERY_TOOL: every}, "b") == every
    assert get_tool_settings({"a": named}, "b") == ToolSettings()


def test_a_tool_that_calls_itself_star_gains_nothing() -> None:
    settings = {EVERY_TOOL: ToolSettings(hidden=True)}

    assert get_tool_settings(settings, "*").hidden


def test_names_that_no_tool_has_are_unknown() -> None:
    assert list_unknown({"a": ToolSettings(), "b": ToolSettings(), EVERY_TOOL: ToolSettings()}, ["a"]) == ["b"]


@pytest.mark.parametrize(
    "given",
    [{"timeout_seconds": 0}, {"timeout_seconds": True}, {"max_result_chars": 0}, {"hidden": "yes"}],
    ids=str,
)
def test_an_invalid_setting_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        ToolSettings(**given)  # pyright: ignore[reportArgumentType]
