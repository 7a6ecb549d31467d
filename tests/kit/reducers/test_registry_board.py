import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.kit.reducers.registry import summarise_board


def ticket(number: int, status: str | None = "todo", updated_at: Any = None) -> dict[str, Any]:
    return {"id": f"T{number}", "title": f"title {number}", "status": status, "updated_at": updated_at}


def board(*tickets: Any) -> str | None:
    return summarise_board(json.dumps(tickets))


def test_more_than_ten_tickets_are_counted_and_the_five_that_moved_last_are_named() -> None:
    tickets = [ticket(n, ("todo", "doing", "done", "cancelled")[n % 4], 1_700_000_000 + n) for n in range(12)]

    assert board(*tickets) == (
        "Counts by status: todo=3, doing=3, done=3, cancelled=3. "
        "Top 5 open: T9: title 9; T8: title 8; T5: title 5; T4: title 4; T1: title 1"
    )


def test_ten_tickets_are_left_alone() -> None:
    assert board(*[ticket(n) for n in range(10)]) is None


def test_statuses_come_in_the_order_of_first_sight_and_a_missing_one_is_unknown() -> None:
    tickets = [ticket(0, "zeta"), {"id": 1, "title": "t"}, ticket(2, None), *[ticket(n, "alpha") for n in range(3, 12)]]

    assert (board(*tickets) or "").startswith("Counts by status: zeta=1, unknown=2, alpha=9. ")


def test_moments_may_be_numbers_or_iso_texts_and_those_without_come_last() -> None:
    moments = {
        1: "2026-01-01T00:00:00Z",
        2: 1_767_225_601,  # a second later
        3: "2026-01-01T02:00:02+02:00",
        4: 1_767_225_603_000,  # in milliseconds
        5: "2026-01-01T00:00:04",
        6: "some day",
        7: None,
    }
    tickets = [ticket(number, "todo", moment) for number, moment in moments.items()]
    tickets += [ticket(number, "done") for number in range(20, 30)]

    assert (board(*tickets) or "").endswith(
        "Top 5 open: T5: title 5; T4: title 4; T3: title 3; T2: title 2; T1: title 1"
    )


def test_tickets_of_one_moment_keep_their_order() -> None:
    assert (board(*[ticket(n, "todo", 7) for n in range(11)]) or "").endswith(
        "Top 5 open: T0: title 0; T1: title 1; T2: title 2; T3: title 3; T4: title 4"
    )


def test_without_open_tickets_none_is_named() -> None:
    assert board(*[ticket(n, "done") for n in range(11)]) == "Counts by status: done=11. Top 0 open: "


def test_missing_fields_of_a_ticket_are_shown_as_missing() -> None:
    assert (board(*[{"status": "todo"}] * 11) or "").endswith("Top 5 open: " + "; ".join(["?: (no title)"] * 5))


many = [ticket(n) for n in range(11)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "{}",
        "null",
        '"text"',
        "7",
        json.dumps({"items": many}),
        json.dumps([*many, None]),
        json.dumps([*many, "text"]),
        json.dumps([*many, {"status": 3}]),
        json.dumps([*many, {"title": ["x"]}]),
        json.dumps([*many, {"id": {}}]),
        "[" * 100_000,
    ],
)
def test_another_shape_is_left_alone(text: str) -> None:
    assert summarise_board(text) is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
tickets = st.fixed_dictionaries(
    {}, optional={"id": values, "title": st.text(), "status": st.none() | st.text(), "updated_at": values}
)


@given(st.lists(tickets | values, min_size=8, max_size=16))
def test_no_board_is_too_strange(items: list[Any]) -> None:
    assert board(*items) == board(*items)
