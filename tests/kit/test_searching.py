"""Lines that hold a match, against Python's own idea of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts import compile_pattern
from spindle.kit.search import MAX_LINE_CHARS, find_matches


@given(st.text("ab\n", max_size=40), st.sampled_from(["a", "b", "ab", "^a", "b$", "a.b", "a*", r"\Aa", r"b\z", "^$"]))
def test_each_line_is_found_once_with_its_number(text: str, pattern: str) -> None:
    import re

    python = re.compile(pattern.replace(r"\z", r"\Z"))
    lines = text.split("\n")
    expected = [number for number, line in enumerate(lines, 1) if python.search(line)]
    if text.endswith("\n") or not text:
        expected = [number for number in expected if number != len(lines)]

    assert [line for line, _ in find_matches(compile_pattern(pattern), text.encode())] == expected


@pytest.mark.parametrize("at", [0, 50, 5_000, 9_990])
def test_a_long_line_is_shown_round_its_match(at: int) -> None:
    line = "ü" * at + "needle" + "ü" * (10_000 - at)

    ((number, shown),) = find_matches(compile_pattern("needle"), line.encode())

    assert number == 1
    assert "needle" in shown
    assert len(shown) <= MAX_LINE_CHARS + 2
