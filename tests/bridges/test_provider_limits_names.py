import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.bridges.dialects import ALL
from spindle.bridges.provider_limits import GEMINI, MCP, OPENAI_CHAT, NameMap, fit_name, wire_name
from spindle.errors import NameClashError


@pytest.mark.parametrize("name", ["search", "search-orders_2", "A"])
def test_a_name_that_is_taken_stays(name: str) -> None:
    assert wire_name(name, OPENAI_CHAT) == name


def test_letters_that_are_refused_become_underscores() -> None:
    assert wire_name("math.add", OPENAI_CHAT) == "math_add"
    assert wire_name("math.add", GEMINI) == "math.add"
    assert wire_name("2nd", GEMINI) == "_2nd"
    assert wire_name("a/b", MCP) == "a_b"


def test_a_name_that_is_too_long_keeps_its_beginning_and_a_digest() -> None:
    first = wire_name("x" * 80 + "1", OPENAI_CHAT)
    second = wire_name("x" * 80 + "2", OPENAI_CHAT)

    assert len(first) == 64
    assert first.startswith("xxx")
    assert first != second


def test_names_of_which_nothing_is_left_are_told_apart() -> None:
    assert wire_name("搜索", OPENAI_CHAT) != wire_name("地图", OPENAI_CHAT)


@given(name=st.text(min_size=1), index=st.integers(0, len(ALL) - 1))
def test_every_name_becomes_one_that_the_provider_takes(name: str, index: int) -> None:
    limits = ALL[index].limits

    mapped = wire_name(name, limits)

    assert re.fullmatch(limits.name_pattern, mapped)
    assert wire_name(mapped, limits) == mapped
    assert wire_name(name, limits) == mapped


@given(name=st.text(min_size=1))
def test_every_property_gets_a_name_that_the_provider_takes(name: str) -> None:
    pattern = GEMINI.property_pattern
    assert pattern is not None
    assert re.fullmatch(pattern, fit_name(name, pattern, 64))


def test_a_map_leads_both_ways() -> None:
    names = NameMap.from_pairs([("math.add", "math_add"), ("search", "search")], dialect="openai_chat")

    assert names.to_wire("math.add") == "math_add"
    assert names.to_own("math_add") == "math.add"
    assert names.mapped == {"math.add": "math_add"}
    assert list(names) == ["math.add", "search"]
    assert len(names) == 2


def test_a_name_that_is_not_in_the_map_stays() -> None:
    names = NameMap.from_pairs([], dialect="openai_chat")

    assert names.to_own("invented") == names.to_wire("invented") == "invented"


def test_two_tools_of_one_wire_name_are_refused_and_both_are_named() -> None:
    with pytest.raises(NameClashError) as caught:
        NameMap.from_pairs([("math.add", "math_add"), ("math_add", "math_add")], dialect="openai_chat")

    assert caught.value.wire_name == "math_add"
    assert caught.value.tools == ("math.add", "math_add")
    assert caught.value.tool == "math_add"
