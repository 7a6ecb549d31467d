"""Budgets: their two units, where a text is cut, and how the room of a batch is shared out."""

import json
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.errors import InvalidBudgetError, UsageError
from spindle.execution.budget import Budget, allot, fair_share, spool_note, truncation_marker

texts = st.text(alphabet=st.characters(), max_size=300)
"""Every code point, lone surrogates included."""

READERS = ["artifact_head", "artifact_tail", "artifact_grep", "artifact_cat"]


def test_a_budget_is_eighty_thousand_characters_unless_said() -> None:
    assert Budget() == Budget(chars=80_000) == Budget(80_000)
    assert (Budget().chars, Budget().tokens, Budget().unit, Budget().total) == (80_000, None, "chars", 80_000)


def test_a_budget_may_count_tokens_instead() -> None:
    budget = Budget(tokens=20_000)

    assert (budget.chars, budget.tokens, budget.unit, budget.total) == (None, 20_000, "tokens", 20_000)


def test_a_budget_is_a_value() -> None:
    budget = Budget(10)

    with pytest.raises(FrozenInstanceError):
        budget.chars = 20  # pyright: ignore[reportAttributeAccessIssue] - that is the point
    assert pickle.loads(pickle.dumps(budget)) == budget
    assert {budget, Budget(chars=10)} == {budget}


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, False, "80000", float("nan"), [1]])
@pytest.mark.parametrize("unit", ["chars", "tokens", "preview_chars"])
def test_a_budget_without_room_is_refused_by_name(bad: Any, unit: str) -> None:
    with pytest.raises(InvalidBudgetError) as caught:
        Budget(**{unit: bad})

    assert caught.value.field == unit
    assert isinstance(caught.value, UsageError)


def test_two_units_are_refused() -> None:
    with pytest.raises(InvalidBudgetError):
        Budget(chars=1, tokens=1)


def test_another_total_keeps_the_unit() -> None:
    assert Budget(5).with_total(7) == Budget(7)
    assert Budget(tokens=5).with_total(7) == Budget(tokens=7)


def test_another_total_keeps_the_preview() -> None:
    assert Budget(5, preview_chars=2).with_total(7) == Budget(7, preview_chars=2)
    assert Budget(tokens=5, preview_chars=2).with_total(7) == Budget(tokens=7, preview_chars=2)


@pytest.mark.parametrize("bad", [0, -3, None, 2.0])
def test_a_bad_new_total_is_refused_in_the_unit_it_is_for(bad: Any) -> None:
    with pytest.raises(InvalidBudgetError) as caught:
        Budget(tokens=5).with_total(bad)

    assert caught.value.field == "tokens"


def test_characters_are_code_points() -> None:
    assert Budget().size("añ𝄞👩‍👩‍👧") == 8


@given(st.text(), st.integers(-2, 400))
@settings(deadline=None)
def test_plain_text_is_truncated_at_exactly_the_limit(text: str, size: int) -> None:
    assert Budget().cut(text, size) == text[: max(size, 0)]


def test_a_surrogate_pair_is_never_split() -> None:
    text = "ab\ud83d\ude00c"

    assert Budget().cut(text, 3) == "ab"
    assert Budget().cut(text, 4) == "ab\ud83d\ude00"


@pytest.mark.parametrize("text", ["a\ud83db", "ab\ude00b", "\ude00\ud83d!"])
def test_half_a_pair_is_a_character_like_any_other(text: str) -> None:
    assert Budget().cut(text, 2) == text[:2]


def test_prose_takes_fewer_tokens_than_machine_text_of_the_same_length() -> None:
    prose = "the quick brown fox jumps over the lazy dog again " * 20
    machine = '{"id":17,"x":"3f9a"}' * 50
    budget = Budget(tokens=10)

    assert len(prose) == len(machine) == 1000
    assert (budget.size(prose), budget.size(machine)) == (286, 500)
    assert (len(budget.cut(prose, 100)), len(budget.cut(machine, 100))) == (350, 200)


def test_tokens_are_estimated_from_bytes() -> None:
    assert Budget(tokens=1).size("日本語" * 100) == 450
    assert Budget(tokens=1).cut("日本語" * 100, 4) == "日本"


@given(texts, st.integers(-2, 400), st.sampled_from([Budget(1), Budget(tokens=1)]))
@settings(deadline=None)
def test_a_cut_is_a_beginning_that_fits(text: str, size: int, budget: Budget) -> None:
    shown = budget.cut(text, size)

    assert text.startswith(shown)
    assert budget.size(shown) <= max(size, 0)
    assert shown == text or budget.size(text) > size


@given(texts, st.integers(1, 400))
@settings(deadline=None)
def test_a_cut_by_tokens_wastes_at_most_what_prose_would_have_gained(text: str, size: int) -> None:
    budget = Budget(tokens=1)
    shown = budget.cut(text, size)

    if shown != text:
        after = text[: len(shown) + 2].encode("utf-8", "surrogatepass")
        assert len(after) > size * 2


@pytest.mark.parametrize(
    ("total", "calls", "share"),
    [
        (80_000, 3, 26_666),
        (80_000, 5, 16_000),
        (80_000, 7, 11_428),
        (80_000, 0, 80_000),
        (80_000, 1, 80_000),
        (2, 3, 0),
    ],
)
def test_a_fair_share_is_the_total_divided_by_the_calls(total: int, calls: int, share: int) -> None:
    assert fair_share(total, calls) == share


@pytest.mark.parametrize(
    ("total", "wants", "shares"),
    [
        (100, [], []),
        (100, [40, 60], [40, 60]),
        (100, [200], [100]),
        (100, [10, 200, 200], [10, 45, 45]),
        (100, [200, 30, 10, 200], [30, 30, 10, 30]),
        (90, [10, 35, 200], [10, 35, 45]),
        (80_000, [10**6] * 3, [26_666] * 3),
        (0, [5, 5], [0, 0]),
        (-5, [5, 0], [0, 0]),
    ],
)
def test_the_unused_share_of_small_results_goes_to_large_ones(total: int, wants: list[int], shares: list[int]) -> None:
    assert allot(total, wants) == shares


batches = st.lists(st.integers(0, 60) | st.integers(0, 10**7), max_size=40)


@given(st.integers(0, 200) | st.integers(0, 10**7), batches)
@settings(deadline=None)
def test_no_share_exceeds_its_need_and_the_sum_stays_within_the_total(total: int, wants: list[int]) -> None:
    shares = allot(total, wants)

    assert len(shares) == len(wants)
    assert all(0 <= share <= want for share, want in zip(shares, wants, strict=True))
    assert sum(shares) <= total
    assert shares == wants or sum(wants) > total


@given(st.integers(0, 200) | st.integers(0, 10**7), batches)
@settings(deadline=None)
def test_truncated_shares_are_equal_and_maximal(total: int, wants: list[int]) -> None:
    shares = allot(total, wants)
    cut = [share for share, want in zip(shares, wants, strict=True) if share < want]

    assert all(share == max(shares) for share in cut)
    assert not cut or total - sum(shares) < len(cut)
    assert not cut or min(cut) >= fair_share(total, len(wants))


@given(st.integers(0, 10**4), batches, st.randoms())
@settings(deadline=None)
def test_the_order_of_the_calls_makes_no_difference(total: int, wants: list[int], random: Any) -> None:
    order = list(range(len(wants)))
    random.shuffle(order)
    shares = allot(total, wants)

    assert allot(total, [wants[place] for place in order]) == [shares[place] for place in order]


def test_the_marker_says_how_long_the_whole_is() -> None:
    assert truncation_marker(1_000_000) == "\n[truncated \u2014 1000000 chars total]"


def test_the_second_line_names_the_artifact_and_its_readers() -> None:
    assert spool_note("c1", READERS) == (
        "\n[the whole result is kept: call artifact_head, artifact_tail, artifact_grep or artifact_cat"
        ' with call_id "c1"]'
    )
    assert spool_note("c1", ["artifact_cat"]) == '\n[the whole result is kept: call artifact_cat with call_id "c1"]'
    assert spool_note("c1", []) == '\n[the whole result is kept as artifact "c1"]'


@given(st.text(alphabet=st.characters(), max_size=119))
@settings(deadline=None)
def test_no_id_breaks_its_line_and_a_json_reader_gets_it_back(artifact_id: str) -> None:
    line = spool_note(artifact_id, ["artifact_cat"])
    quoted = line.removeprefix("\n[the whole result is kept: call artifact_cat with call_id ").removesuffix("]")

    assert len(line[1:].splitlines()) == 1
    assert line.count("[") == line.count("]") == 1
    assert line[1:].isprintable()
    assert json.loads(quoted).encode("utf-16", "surrogatepass") == artifact_id.encode("utf-16", "surrogatepass")


def test_an_endless_id_is_shown_in_part() -> None:
    line = spool_note('a"]\n' * 2_500, READERS)

    assert len(line) < 1_000
    assert line.endswith('…"]')
