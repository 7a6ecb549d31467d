"""Edited arguments of a call that waits: masked secrets stay what they are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import InvalidRequestError
from spindle.execution.ticket_edits import change_arguments, replace_arguments

MASK = "***"


class Office:
    """An office that knows the real arguments."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def read_arguments(self, _ticket: Any) -> Any:
        return self._real


class Ticket:
    """A ticket with masked arguments."""

    answer = None

    def __init__(self, masked: Any) -> None:
        self.facts = {"args": masked}


def edit(real: Any, masked: Any, edited: Any) -> Any:
    office: Any = Office(real)
    ticket: Any = Ticket(masked)
    return replace_arguments(office, ticket, edited)


def test_a_masked_value_that_stays_in_its_place_is_the_real_one() -> None:
    real = {"a": {"key": "s3cret", "n": 1}, "b": ["s3cret", 2]}
    masked = {"a": {"key": MASK, "n": 1}, "b": [MASK, 2]}

    assert edit(real, masked, masked) == real
    assert edit(real, masked, {"a": {"key": MASK, "n": 5}, "b": [MASK, 3]}) == {
        "a": {"key": "s3cret", "n": 5},
        "b": ["s3cret", 3],
    }
    assert edit(real, masked, {"a": {"key": "new", "n": 1}}) == {"a": {"key": "new", "n": 1}}


@pytest.mark.parametrize(
    "edited",
    [
        {"other": MASK},
        {"b": [2, MASK]},
        {"a": {"n": MASK}},
        {"b": [MASK]},
        {"a": {"key": f"Bearer {MASK}"}},
        {MASK: 1},
    ],
)
def test_a_masked_value_that_was_moved_is_refused(edited: Any) -> None:
    real = {"a": {"key": "s3cret", "n": 1}, "b": ["s3cret", 2]}
    masked = {"a": {"key": MASK, "n": 1}, "b": [MASK, 2]}

    with pytest.raises(InvalidRequestError) as caught:
        edit(real, masked, edited)
    assert caught.value.field == "args"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
)
def test_without_secrets_the_edited_arguments_are_taken_as_they_are(real: Any, edited: Any) -> None:
    assert edit(real, real, edited) == edited


@pytest.mark.parametrize(
    ("real", "edited"), [(1, True), (0, False), (2.0, 2), (2, 2.0), (0.0, -0.0), (2**53 + 1, 2**53), (1.0, True)]
)
def test_a_value_that_equals_the_old_one_only_for_python_is_a_change(real: Any, edited: Any) -> None:
    kept = {"key": "s3cret", "n": real, "list": [{"n": real}]}
    changed = {"key": MASK, "n": edited, "list": [{"n": edited}]}

    assert repr(edit(kept, kept | {"key": MASK}, changed)) == repr(changed | {"key": "s3cret"})


def test_a_text_with_stars_of_a_call_without_secrets_is_only_a_text() -> None:
    assert edit({"text": "a"}, {"text": "a"}, {"text": f"{MASK} a {MASK}"}) == {"text": f"{MASK} a {MASK}"}


def test_a_change_with_a_masked_value_is_refused() -> None:
    office: Any = Office({"key": "s3cret", "n": 1})
    ticket: Any = Ticket({"key": MASK, "n": 1})

    assert change_arguments(office, ticket, {"n": 2}) == {"key": "s3cret", "n": 2}
    with pytest.raises(InvalidRequestError):
        change_arguments(office, ticket, {"key": MASK})
