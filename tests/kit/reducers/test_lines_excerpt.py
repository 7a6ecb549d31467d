from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.kit.reducers.lines import HEAD_LINES, MAX_CHARS, TAIL_LINES, truncate_middle

long_texts = st.lists(st.text(max_size=300) | st.integers(0, 9000).map("x".__mul__), max_size=200).map("\n".join)


def test_a_text_up_to_the_limit_is_the_same_object() -> None:
    text = "x" * MAX_CHARS

    assert truncate_middle(text) is text


def test_a_long_text_is_its_head_and_its_tail_with_a_true_word_about_the_middle(shell: Callable[..., Any]) -> None:
    ran = shell("seq 5000")

    lines = ran.reduced.split("\n")
    assert lines[:HEAD_LINES] == [str(n) for n in range(1, 41)]
    assert lines[-TAIL_LINES:] == [str(n) for n in range(4981, 5001)]
    middle = "".join(f"{n}\n" for n in range(41, 4981))
    assert lines[HEAD_LINES] == f"... [left out: lines 41-4980 of 5000, {len(middle)} characters] ..."
    assert len(lines) == HEAD_LINES + 1 + TAIL_LINES


def test_a_failed_command_keeps_more_of_its_end(shell: Callable[..., Any]) -> None:
    ran = shell("seq 5000; exit 3")

    lines = ran.reduced.split("\n")
    assert (lines[:TAIL_LINES][-1], lines[-HEAD_LINES:][0]) == ("20", "4961")


def test_head_and_tail_never_overlap() -> None:
    for count in range(50, 70):
        lines = [f"line {n} " + "x" * 400 for n in range(count)]
        seen = [
            line.split(" ")[1] for line in truncate_middle("\n".join(lines)).split("\n") if line.startswith("line ")
        ]
        assert len(seen) == len(set(seen))
        assert len(seen) == min(count, HEAD_LINES + TAIL_LINES)


@pytest.mark.parametrize("length", [MAX_CHARS + 1, MAX_CHARS + 30, 9_000, 1_000_000])
def test_a_single_long_line_is_cut_in_its_middle(length: int) -> None:
    text = "start " + "x" * (length - 10) + " end"

    short = truncate_middle(text)

    assert len(short) <= len(text)
    assert short.startswith("start ")
    assert short.endswith(" end")
    if length >= 9_000:
        assert len(short) < MAX_CHARS + 100
        assert f"[left out: {len(text) - (MAX_CHARS - 1)} characters]" in short


def test_short_lines_beside_a_long_one_stay_whole() -> None:
    text = "\n".join(["first", "x" * 50_000, "last"])

    first, cut, last = truncate_middle(text).split("\n")

    assert (first, last) == ("first", "last")
    assert len(cut) < MAX_CHARS + 100


@given(long_texts, st.booleans())
def test_an_excerpt_is_never_longer_and_always_the_same(text: str, failed: bool) -> None:
    short = truncate_middle(text, failed=failed)

    assert len(short) <= len(text)
    assert short == truncate_middle(text, failed=failed)
    if len(text) > MAX_CHARS + 3000:
        assert len(short) <= MAX_CHARS + 62 * 60
