import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.cli.output import format_age, format_bytes, format_duration, one_line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000_000_4, "0 µs"), (0.000_214, "214 µs"), (0.0213, "21.3 ms"), (0.5, "0.50 s"), (3.0049, "3.00 s")],
)
def test_a_duration_is_told_in_a_unit_that_reads_well(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.text(), st.integers(min_value=2, max_value=200))
def test_one_line_is_one_line_and_no_longer_than_asked(text: str, most: int) -> None:
    line = one_line(text, most)

    assert len(line) <= most
    assert len(line.splitlines()) <= 1


def test_what_was_cut_says_so() -> None:
    assert one_line("a short\n  text", 20) == "a short text"
    assert one_line("word " * 100_000, 12) == "word word w…"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (600 * 1024, "600 KiB"), (1 << 50, "1024 TiB")]
)
def test_a_size_is_told_in_the_unit_in_which_it_reads_best(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 s"), (59, "59 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")]
)
def test_an_age_is_told_roughly(seconds: float, text: str) -> None:
    assert format_age(1000 - seconds, 1000) == text
