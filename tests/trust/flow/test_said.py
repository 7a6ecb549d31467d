"""What a person has said, understood."""

import pytest

from spindle.trust.flow.said import Moment, Said
from spindle.trust.flow.text_index import TextIndex


def hear(text: str) -> Said:
    said = Said()
    said.add(text)
    return said


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("pay 250 dollars", 250),
        ("pay $1,000.50.", 1000.5),
        ("two hundred and fifty", 250),
        ("twenty-five", 25),
        ("20k please", 20_000),
        ("3 million", 3_000_000),
        ("set it to -5", -5),
        ("12kg", 12),
        ("amount=77", 77),
        ("(42)", 42),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_numbers_are_understood(text: str, number: float) -> None:
    assert hear(text).has_number(number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("see https://x.example/5000", 5000),
        ("mail 5000@x.example", 5000),
        ("invoice INV-5000-1", 5000),
        ("order #5000", 5000),
        ("account 12-5000-33", 5000),
        ("on 2026-05-16", 16),
        ("on May 16th at 10", 16),
        ("at 10:30", 10),
        ("the 4th", 4),
        ("20k", 20),
        ("two hundred and fifty", 2),
        ("id 5f3a", 5),
        ("9007199254740992", 9007199254740993),
        ("50-100", 50),
        ("nothing", float("nan")),
    ],
)
def test_digits_of_something_else_do_not_count_as_a_number(text: str, number: float) -> None:
    assert not hear(text).has_number(number)


@pytest.mark.parametrize(
    ("text", "moment", "is_said"),
    [
        ("on May 16th at 10", "2026-05-16 10:00", True),
        ("on 16 May 2026 at 10am", "2026-05-16T10:00:00Z", True),
        ("on 16 May 2025", "2026-05-16", False),
        ("see https://x.example/2026-05-16", "2026-05-16", False),
        ("at noon", "12:00", True),
        ("on May 16th", "2026-05-16 10:00", False),
    ],
)
def test_moments_are_understood(text: str, moment: str, is_said: bool) -> None:
    read = Moment.read(moment)
    assert read is not None
    assert hear(text).has_moment(read) is is_said


def test_an_end_follows_from_a_start_and_a_duration() -> None:
    start, end, late = map(Moment.read, ("2026-05-16 10:00", "2026-05-16 11:00", "2026-05-16 12:00"))
    assert start is not None
    assert end is not None
    assert late is not None
    said = hear("on May 16th at 10 for one hour")
    assert said.has_moment(end, (start, end))
    assert not said.has_moment(late, (start, late))


def test_another_time_zone_is_not_a_moment() -> None:
    assert Moment.read("2026-05-16T10:00+09:00") is None


def test_a_switch_after_a_negation_was_not_said() -> None:

    for text, is_said in (
        ("make it public", True),
        ("do not make it public", False),
        ("don't ever make it public", False),
    ):
        index = TextIndex[int]()
        index.add(text, 1)
        assert hear(text).has_flag("public", index) is is_said
