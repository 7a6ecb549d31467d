"""None"""

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.bridges import provider_limits
from spindle.bridges.dialects import ALL
from spindle.bridges.provider_limits import GEMINI, MCP, OPENAI_CHAT, NameMap, ProviderLimits, fit_name, wire_name
from spindle.errors import NameClashError

EVERY = {dialect.name: dialect.limits for dialect in ALL}


@pytest.mark.parametrize("dialect", list(EVERY))
def test_every_limit_has_a_source_and_a_date(dialect: str) -> None:
    sources = EVERY[dialect].sources

    assert sources
    for source in sources:
        assert source.url.startswith("https://")
        assert source.read_on <= date(2026, 11, 16)
        assert source.statement


@pytest.mark.parametrize("dialect", list(EVERY))
def test_a_name_of_the_greatest_length_fits_and_a_longer_one_does_not(dialect: str) -> None:
    each: ProviderLimits = EVERY[dialect]

    assert re.fullmatch(each.name_pattern, "a" * each.max_name_chars)
    assert not re.fullmatch(each.name_pattern, "a" * (each.max_name_chars + 1))
    assert not re.fullmatch(each.name_pattern, "")


def test_the_documented_name_lengths() -> None:
    assert {name: each.max_name_chars for name, each in EVERY.items()} == {
        "openai_chat": 64,
        "openai_responses": 64,
        "anthropic": 128,
        "gemini": 128,
        "bedrock": 64,
        "mcp": 128,
    }


def test_a_list_of_openai_tools_has_a_hard_limit_and_one_of_gemini_a_soft_one() -> None:
    assert (provider_limits.OPENAI_CHAT.max_tools, provider_limits.OPENAI_CHAT.tools_limit) == (128, "refuse")
    assert (provider_limits.GEMINI.max_tools, provider_limits.GEMINI.tools_limit) == (512, "warn")


# --- test_provider_limits_names.py


@pytest.mark.parametrize("name", ["search", "search-orders_2", "A"])
def test_a_name_that_is_taken_stays(name: str) -> None:
    assert wire_name(name, OPENAI_CHAT) == name


def test_an_altered_name_has_underscores_and_a_digest_of_the_own_name() -> None:
    assert re.fullmatch(r"math_add_[0-9a-f]{8}", wire_name("math.add", OPENAI_CHAT))
    assert wire_name("math.add", GEMINI) == "math.add"
    assert re.fullmatch(r"_2nd_[0-9a-f]{8}", wire_name("2nd", GEMINI))
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", wire_name("a/b", MCP))


def test_names_that_differ_only_in_refused_letters_stay_different() -> None:
    assert len({wire_name(name, OPENAI_CHAT) for name in ("x y", "x_y", "x.y", "x/y", "x\u00a0y", "x\ty")}) == 6


def test_a_name_that_is_too_long_keeps_its_beginning_and_a_digest() -> None:
    first = wire_name("x" * 80 + "1", OPENAI_CHAT)
    second = wire_name("x" * 80 + "2", OPENAI_CHAT)

    assert len(first) == 64
    assert first.startswith("xxx")
    assert first != second


def test_names_of_which_nothing_is_left_stay_distinct() -> None:
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
