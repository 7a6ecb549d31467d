from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.queries import UNDEFINED, Bounds, render_answer, render_result, render_rows
from spindle.artifacts.readers import Match


@dataclass(frozen=True)
class Point:
    x: int


def rest(shown: int) -> str:
    return f"from {shown}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (UNDEFINED, "(undefined)"),
        (None, "null"),
        ("as is\n", "as is\n"),
        ("", ""),
        ([], "(empty list)"),
        ((), "(empty list)"),
        (["a", "b"], "a\nb"),
        (5, "5"),
        (2.5, "2.5"),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        ({"a": 1}, '{\n  "a": 1\n}'),
        ([1, "a"], '[\n  1,\n  "a"\n]'),
        ([Match(3, "x"), Match(9, "y: z")], "3: x\n9: y: z"),
        ([Point(1)], '[\n  {\n    "x": 1\n  }\n]'),
        ({"é": date(2024, 1, 2)}, '{\n  "é": "2024-01-02"\n}'),
        ([datetime(2024, 1, 2, 3, tzinfo=UTC)], '[\n  "2024-01-02T03:00:00+00:00"\n]'),
        ([b"raw", {2, 1}], '[\n  "raw",\n  [\n    1,\n    2\n  ]\n]'),
    ],
)
def test_each_kind_of_result_has_its_text(value: Any, text: str) -> None:
    assert render_result(value) == text


def test_rows_are_one_a_line() -> None:
    assert render_rows([{"a": 1}, {"a": None}]) == '{"a": 1}\n{"a": null}'
    assert render_rows([]) == "(empty list)"


def test_an_answer_that_fits_is_whole() -> None:
    assert render_answer(["a", "b"], Bounds(), rest=rest) == "a\nb"
    assert render_answer("text", Bounds(max_chars=4), rest=rest) == "text"
    assert render_answer([], Bounds(max_items=1), rest=rest) == "(empty list)"


def test_a_list_is_cut_between_items_and_says_where_to_go_on() -> None:
    text = render_answer([f"line {n}" for n in range(10)], Bounds(max_items=3), rest=rest)

    assert text.splitlines()[:3] == ["line 0", "line 1", "line 2"]
    assert text.splitlines()[3:] == ["[3 items shown, more follow; from 3]"]


def test_a_list_is_cut_by_characters_too() -> None:
    text = render_answer(["x" * 40, "y" * 40, "z" * 40], Bounds(max_chars=100), rest=rest)

    assert "y" in text
    assert "z" not in text
    assert "from 2" in text


def test_an_item_that_is_too_long_alone_is_shown_in_part() -> None:
    text = render_answer(["x" * 500, "y"], Bounds(max_chars=100), rest=rest)

    assert text.startswith("x" * 100 + "\n[")
    assert "from 1" in text


def test_from_the_end_the_last_items_stay_and_the_note_says_what_came_before() -> None:
    def ending(items: list[str], bounds: Bounds) -> str:
        return render_answer(items, bounds, rest=rest, from_end=True)

    assert ending(["a", "b", "c"], Bounds(max_items=2)) == "b\nc\n[2 items shown, more come before; from 2]"
    assert ending(["aaa", "bbb", "ccc"], Bounds(max_chars=8)).startswith("bbb\nccc\n[2 items")
    assert ending(["a", "xxEND"], Bounds(max_chars=3)).startswith("END\n[3 characters shown, more come before")
    assert ending(["a", "b"], Bounds()) == "a\nb"
    assert ending([], Bounds()) == "(empty list)"


def test_half_a_surrogate_pair_does_not_spoil_an_answer() -> None:
    assert render_answer(["\ud800"], Bounds(), rest=rest).encode()


@given(
    st.lists(st.one_of(st.text(), st.integers(), st.dictionaries(st.text(), st.text()))),
    st.integers(1, 50),
    st.integers(10, 500),
)
def test_an_answer_stays_within_its_bounds_but_for_the_note(items: list[Any], max_items: int, max_chars: int) -> None:
    text = render_answer(items, Bounds(max_items=max_items, max_chars=max_chars), rest=rest)

    assert len(text) <= max_chars + 200
