import re
from datetime import date

import pytest

from spindle.bridges import provider_limits
from spindle.bridges.dialects import ALL
from spindle.bridges.provider_limits import ProviderLimits

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
