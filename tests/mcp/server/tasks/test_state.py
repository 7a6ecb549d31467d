"""The state of a task: which transitions it makes, and that it ends exactly once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp.server.tasks.state import (
    ENDS,
    MAX_MESSAGE_CHARS,
    TaskState,
    create_task_id,
    dump_state,
    load_state,
)


def new_state(**more: Any) -> TaskState:
    known: dict[str, Any] = {"id": "t", "owner": "o", "session": "s", "call_id": "c", "tool": "x", "process": "p"}
    known |= {"created_at": 1_000_000, "updated_at": 1_000_000, "ttl_ms": 60_000}
    return TaskState(**(known | more))


messages = st.text(max_size=2 * MAX_MESSAGE_CHARS)
steps = st.one_of(
    st.tuples(st.just("ask"), st.dictionaries(st.sampled_from("abc"), st.just({"method": "elicitation/create"}))),
    st.tuples(st.just("answer"), st.frozensets(st.sampled_from("abc"))),
    st.tuples(st.just("wait"), messages),
    st.tuples(st.just("take_over"), st.sampled_from(["p", "q"])),
    st.tuples(st.just("end"), st.sampled_from(sorted(ENDS))),
)


def make(state: TaskState, step: tuple[str, Any], now: int) -> TaskState | None:
    name, value = step
    match name:
        case "ask":
            return state.ask(value, now=now)
        case "answer":
            return state.answer(value, now=now)
        case "wait":
            return state.wait(value, now=now)
        case "take_over":
            return state.take_over(value)
        case _:
            return state.end(value, now=now, message="m" * 2 * MAX_MESSAGE_CHARS)


@given(st.lists(steps, max_size=12))
def test_a_task_ends_at_most_once_and_nothing_follows_its_end(made: list[tuple[str, Any]]) -> None:
    state, ends = new_state(), 0
    for now, step in enumerate(made, 2_000_000):
        following = make(state, step, now)
        assert (following is None) is state.is_ended
        if following is None:
            continue
        ends += following.is_ended
        assert (following.status == "input_required") is bool(following.requests)
        assert following.asked >= state.asked
        assert len(following.message or "") <= MAX_MESSAGE_CHARS
        assert (following.id, following.owner, following.expires_at) == (state.id, state.owner, state.expires_at)
        state = following
    assert ends == state.is_ended


@given(st.lists(steps, max_size=8))
def test_a_state_is_read_back_from_its_record(made: list[tuple[str, Any]]) -> None:
    state = new_state()
    for now, step in enumerate(made, 2_000_000):
        state = make(state, step, now) or state
    assert load_state(state.id, state.status, state.created_at, dump_state(state)) == state


def test_ids_are_long_and_never_the_same() -> None:
    ids = {create_task_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(len(each) >= 32 for each in ids)
