"""Exact replacement, and what is said when it is not exact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.kit.files import apply_patch


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=3), st.text("abc", max_size=3))
def test_a_patch_replaces_every_occurrence_or_nothing(text: str, old: str, new: str) -> None:
    count = text.count(old)

    done = apply_patch(text, old, new, max(count, 1))

    assert done.text == (text.replace(old, new) if count and old != new else None)
    assert apply_patch(text, old, new, count + 1 if count else 2).text is None


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("x\na\na\n", "a", "found 2 times, not 1: at 2, 3"),
        ("x\n", "y", "not found"),
        ("if x:\n    y = 1\n", "if x:\n  y = 1", "line 1, but with different spaces"),
        ("\n\nHello there\n", "hello THERE", "line 3, but with different upper and lower case"),
        ("a\ndef f():\n    return 1\n", "def f():\n    return 2", "first line occurs at 2"),
        ("same", "same", "the same text"),
    ],
)
def test_a_patch_that_does_not_fit_says_where_to_look(text: str, old: str, said: str) -> None:
    done = apply_patch(text, old, "same" if text == "same" else "new", 1)

    assert done.text is None
    assert said in done.message


def test_many_places_are_listed_in_part() -> None:
    assert "and 80 more" in apply_patch("a\n" * 100, "a", "b", 1).message


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\r\nb\r\n", "a\nb", "c\nd", "c\r\nd\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "c", "c\r\n"),
        ("a\r\nb\r\n", "b", "c\nd", "a\r\nc\r\nd\r\n"),
        ("a\nb\r\n", "a\nb", "c", "c\r\n"),
    ],
)
def test_a_file_keeps_its_line_ends(text: str, old: str, new: str, result: str) -> None:
    assert apply_patch(text, old, new, 1).text == result
