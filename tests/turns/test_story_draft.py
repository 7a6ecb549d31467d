"""A story stays within its bounds, whatever a model and its tools write."""

import json

from hypothesis import given
from hypothesis import strategies as st

from spindle import Call, TurnContext
from spindle.calls import ToolCallRecord
from spindle.turns.story_draft import MAX_ITERATIONS, MAX_RECORD_BYTES, StoryDraft, add_usage, describe_answer

NAMES = st.sampled_from(["c", "ü" * 500, "\ud800" * 300, "\0", "😀" * 400, ""])


def build_record(name: str) -> ToolCallRecord:
    named = name or "c"
    return ToolCallRecord(named, named, {}, checksum="x", is_complete=True, is_error=False, results=name)


@given(st.lists(st.tuples(NAMES, st.integers(0, 60)), max_size=12), st.integers(0, 120))
def test_any_turn_fits_into_a_record(steps: list[tuple[str, int]], gates: int) -> None:
    draft = StoryDraft(TurnContext(id="t", messages=["😀" * 5_000]), 0)
    for number, (name, calls) in enumerate(steps):
        iteration = draft.begin_iteration(number, None)
        iteration |= {"text": draft.shorten(name * 50), "thoughts": draft.shorten("t" * 9_000)}
        draft.add_calls(iteration, [Call(name, name, {"a": each}) for each in range(calls)])
        draft.settle_call(iteration, build_record(name))
        for gate in range(gates):
            draft.put_gate(f"{number} {gate}", kind="gate", reason=draft.shorten(name * 20))
        data = draft.write()
        assert len(data) <= MAX_RECORD_BYTES
        facts = json.loads(data)
        assert facts["iteration_count"] == number + 1
        assert len(facts["iterations"]) + facts["iterations_omitted"] == number + 1


def test_the_first_and_the_newest_iterations_are_kept() -> None:
    draft = StoryDraft(TurnContext(), 0)
    for number in range(MAX_ITERATIONS + 30):
        draft.begin_iteration(number, None)
    numbers = [each["number"] for each in draft.iterations]
    assert (len(numbers), numbers[0], numbers[-1]) == (MAX_ITERATIONS, 0, MAX_ITERATIONS + 29)
    assert numbers == sorted(numbers)
    assert draft.facts["iterations_omitted"] == 30


def test_an_iteration_whose_process_died_is_begun_again() -> None:
    draft = StoryDraft(TurnContext(), 0)
    draft.begin_iteration(0, None)["text"] = "lost"
    assert draft.begin_iteration(0, None)["text"] == ""
    assert len(draft.iterations) == 1
    kept = draft.begin_iteration(0, [])
    assert kept is draft.iterations[0]


def test_calls_that_share_an_id_are_settled_one_after_the_other() -> None:
    draft = StoryDraft(TurnContext(), 0)
    iteration = draft.begin_iteration(0, None)
    draft.add_calls(iteration, [Call("c", "c", {}), Call("c", "c", {})])
    draft.settle_call(iteration, build_record("c"))
    assert [each["is_done"] for each in iteration["calls"]] == [True, False]
    draft.settle_call(iteration, build_record("c"))
    draft.settle_call(iteration, build_record("c"))  # stored again when a turn is resumed
    assert [each["is_done"] for each in iteration["calls"]] == [True, True]


def test_answers_that_may_be_secret_are_described() -> None:
    given = [None, True, 3, float("inf"), "hunter2", {"password": "x"}, ["x"], object()]
    assert [describe_answer(each) for each in given] == [
        None, True, 3, "inf", "a text of 7 characters", "an object of 1 fields", "a list of 1 items", "a object",
    ]  # fmt: skip


def test_usage_counts_what_has_grown() -> None:
    now = {"input_tokens": 12, "cost_usd": 0.5, "model": "m", "bad": float("nan"), "flag": True}
    assert add_usage({"input_tokens": 1}, now, {"input_tokens": 10}) == {"input_tokens": 3, "cost_usd": 0.5}
    assert len(add_usage({}, {f"n{each}": 1 for each in range(99)}, {})) == 30
