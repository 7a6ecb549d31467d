"""Problems of arguments and the message that a model receives."""

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import CallError, InvalidToolArgsError
from spindle.tools.schema.base import (
    Problem,
    build_refusal,
    describe_kind,
    format_location,
    format_problems,
    merge_by_path,
)

Again: TypeAlias = Callable[[InvalidToolArgsError], InvalidToolArgsError]
PROBLEM = Problem(path="limit", expected="a whole number", received="text")


def pickled(error: InvalidToolArgsError) -> InvalidToolArgsError:
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a whole number"),
        (1.5, "a number"),
        ("x", "text"),
        (b"x", "bytes"),
        ([], "a list"),
        ((), "a list"),
        ({}, "an object"),
        (Decimal(1), "a Python Decimal"),
    ],
)
def test_describe_kind_names_the_kind_without_the_value(value: object, kind: str) -> None:
    assert describe_kind(value) == kind


@pytest.mark.parametrize(
    ("loc", "path"),
    [
        ((), ""),
        (("filters", "dates", 2, "start"), "filters.dates[2].start"),
        ((0, "a"), "[0].a"),
        (("a.b", "c d"), "['a.b']['c d']"),
        (("größe",), "größe"),
    ],
)
def test_format_location_uses_dots_and_brackets(loc: tuple[str | int, ...], path: str) -> None:
    assert format_location(loc) == path


@given(st.lists(st.text() | st.integers(min_value=0)))
def test_format_location_is_printable_and_bounded(loc: list[str | int]) -> None:
    path = format_location(loc)

    assert path.isprintable()
    assert len(path) <= 200


def test_hostile_names_are_shortened_and_made_printable() -> None:
    path = format_location(["\x1b[2J\u202e\ud800" + "k" * 10_000])

    assert path.isprintable()
    assert len(path) < 100


def test_merge_by_path_joins_problems_of_one_path() -> None:
    other = Problem(path="limit", expected="null", received="text", hint="nearest: 'x'")
    elsewhere = Problem(path="offset", expected="null", received="text")

    assert merge_by_path([PROBLEM, other, elsewhere, PROBLEM]) == [
        Problem(path="limit", expected="a whole number or null", received="text", hint="nearest: 'x'"),
        elsewhere,
    ]


def test_message_names_the_tool_each_problem_and_what_to_do() -> None:
    unknown = Problem(path="lmit", expected="only 'limit'", received="unknown argument", hint="did you mean 'limit'?")

    lines = format_problems([PROBLEM, unknown], "search").splitlines()

    assert len(lines) == 4
    assert "search" in lines[0]
    assert lines[1] == "- limit: expected a whole number, received text"
    assert lines[2] == "- lmit: unknown argument; expected only 'limit'; did you mean 'limit'?"
    assert "search" in lines[3]


def test_message_shows_twenty_problems_and_counts_the_rest() -> None:
    text = format_problems([PROBLEM] * 123, "search")

    assert text.count("limit") == 20
    assert "103 more" in text


def test_message_is_bounded_and_printable_for_any_names() -> None:
    hostile = Problem(path="a", expected="x" * 100_000, received="text")

    text = format_problems([hostile] * 50, "\x1b" * 10_000)

    assert len(text) < 20_000
    assert text.replace("\n", "").isprintable()


def test_refusal_computes_its_problems_on_first_access() -> None:
    looks: list[int] = []

    def problems() -> list[Problem]:
        looks.append(1)
        return [PROBLEM]

    error = build_refusal("search", problems)
    assert (error.tool, error.code, error.status, error.fatal, looks) == (
        "search",
        "E_INVALID_TOOL_ARGS",
        422,
        False,
        [],
    )

    assert error.field == "limit"
    assert error.problems == (PROBLEM,)
    assert str(error) == error.message == format_problems([PROBLEM], "search")
    assert looks == [1]


def test_refusal_of_the_arguments_as_a_whole_has_no_field() -> None:
    assert build_refusal("search", [Problem(path="", expected="an object", received="text")]).field is None
    assert build_refusal("search", []).field is None


@pytest.mark.parametrize("again", [copy.copy, pickled])
def test_refusal_with_lazy_problems_copies_and_pickles(
    again: Callable[[InvalidToolArgsError], InvalidToolArgsError],
) -> None:
    error = build_refusal("search", lambda: [PROBLEM])
    error.add_note("seen")

    twin = again(error)

    assert isinstance(twin, InvalidToolArgsError)
    assert isinstance(twin, CallError)
    assert (twin.tool, twin.field, twin.problems, str(twin)) == ("search", "limit", (PROBLEM,), str(error))
    assert twin.__notes__ == ["seen"]


def test_refusal_has_no_unknown_attributes() -> None:
    assert not hasattr(build_refusal("search", [PROBLEM]), "nothing")


def test_refusal_accepts_a_plain_message() -> None:
    error = InvalidToolArgsError("the dates are the wrong way round", tool="search")

    assert (str(error), error.problems, error.field) == ("the dates are the wrong way round", (), None)
    assert "dates" in repr(error)
