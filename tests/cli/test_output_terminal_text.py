"""Text that cannot do anything to a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.cli.output import escape_controls, measure_width, pad_right, truncate_line, wrap_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext äöü 漢字 🙂", "plain\n\ttext äöü 漢字 🙂"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("over\rwritten", "over␍written"),
        ("dos\r\nline", "dos\nline"),
        ("back\b\b", "back␈␈"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f", "␡"),
        ("abc\u202egpj", "abc\\u202egpj"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone \ud800", "lone \\ud800"),
    ],
)
def test_what_could_command_a_terminal_is_shown(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


@given(st.text())
def test_no_control_character_but_newline_and_tab_is_left(text: str) -> None:
    shown = escape_controls(text)

    assert not [char for char in shown if (ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0]
    assert escape_controls(shown) == shown


@given(st.text(alphabet=st.sampled_from("ab 漢é́🙂"), max_size=40), st.integers(2, 20))
def test_a_cut_line_fits(text: str, columns: int) -> None:
    short = truncate_line(text, columns)

    assert measure_width(short) <= columns
    assert short == text or short.endswith("…")


@given(st.text("ab \n", max_size=80), st.integers(1, 30))
def test_wrapped_lines_fit_and_no_word_is_lost(text: str, columns: int) -> None:
    lines = wrap_lines(text, columns).split("\n")

    assert all(len(line) <= columns for line in lines if " " in line.strip())
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_wrapped_line_keeps_its_indentation() -> None:
    assert wrap_lines("one two three\n  - four five", 10) == "one two\nthree\n  - four\n  five"
    assert wrap_lines("one two three", None) == "one two three"


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert measure_width("漢字ab") == 6
    assert measure_width("e\u0301") == 1
    assert pad_right("漢", 4) == "漢  "
