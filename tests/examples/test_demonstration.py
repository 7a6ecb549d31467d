from collections.abc import Callable
from functools import cache

import anyio
import pytest

from examples.hostile_calls.cases import CASES, DEADLINE_SECONDS, LOG_CHARS, LOG_FAULT
from examples.hostile_calls.demonstration import (
    SIBLING,
    DemoCall,
    Demonstration,
    demonstrate,
    every_call,
    read_back,
    register_clash,
    run_calls,
    shop,
    six_calls,
)
from spindle import Call, Err, Ok, ToolRegistry

REFUSED = {"truncated JSON", "wrong type"}
RAN_BADLY = {"raising sibling": "execution_failed", "hanging sync tool": "timed_out"}


@cache
def demonstrated(calls: Callable[[], list[DemoCall]], backend: str) -> Demonstration:
    """Run it once on each event loop; the tests look at different sides of it."""
    return anyio.run(demonstrate, calls(), backend=backend)


@pytest.mark.parametrize("calls", [six_calls, every_call])
def test_each_call_gets_its_own_answer_in_order(calls: Callable[[], list[DemoCall]], anyio_backend: str) -> None:
    demo = demonstrated(calls, anyio_backend)

    asked = calls()

    assert [answer.asked for answer in demo.answers] == asked
    assert [answer.outcome.tool_call_id for answer in demo.answers] == [each.call.tool_call_id for each in asked]


def test_the_hostile_calls_harm_no_other_call(anyio_backend: str) -> None:
    demo = demonstrated(six_calls, anyio_backend)

    codes = {
        answer.asked.title: answer.outcome.result.code
        for answer in demo.answers
        if isinstance(answer.outcome.result, Err)
    }
    assert codes == dict.fromkeys(REFUSED, "input_invalid") | RAN_BADLY
    assert all(answer.outcome.ok for answer in demo.answers if answer.asked.title == SIBLING)
    assert {answer.asked.title for answer in demo.answers if not answer.ran} == REFUSED


def test_events_and_tools_agree_on_what_ran(anyio_backend: str) -> None:
    demo = demonstrated(six_calls, anyio_backend)

    by_events = sorted(answer.asked.call.name for answer in demo.answers if answer.ran)
    assert sorted(text.split("(")[0] for text in demo.entered) == by_events


def test_the_hanging_tool_is_abandoned_at_its_deadline_and_delays_no_call(anyio_backend: str) -> None:
    demo = demonstrated(six_calls, anyio_backend)

    took = {answer.asked.call.name: answer.outcome.duration_ms / 1000 for answer in demo.answers}
    assert max(took, key=lambda name: took[name]) == "print_label"
    assert took["print_label"] >= DEADLINE_SECONDS


def test_the_only_thing_done_in_the_world_is_the_one_good_refund(anyio_backend: str) -> None:
    demo = demonstrated(every_call, anyio_backend)

    assert [text for text in demo.entered if text.startswith(("refund", "delete_files", "impostor"))] == [
        "refund('A-7', 250)"
    ]


def test_every_other_call_that_looks_nearly_right_is_refused_with_its_code(anyio_backend: str) -> None:
    demo = demonstrated(every_call, anyio_backend)
    known = {case.title for case in CASES}

    codes = {
        answer.asked.title: answer.outcome.result.code
        for answer in demo.answers
        if isinstance(answer.outcome.result, Err) and answer.asked.title not in known
    }
    assert codes.pop("unknown tool") == "not_available"
    assert len(codes) == 9
    assert set(codes.values()) == {"input_invalid"}


def test_the_words_of_a_handlers_exception_do_not_reach_the_model(anyio_backend: str) -> None:
    demo = demonstrated(six_calls, anyio_backend)

    failed = next(answer.outcome.result for answer in demo.answers if answer.asked.title == "raising sibling")
    assert isinstance(failed, Err)
    assert "warehouse-3" not in failed.error


def test_the_large_result_is_shown_in_part_and_the_rest_is_found_by_forged_tools(anyio_backend: str) -> None:
    demo = demonstrated(six_calls, anyio_backend)

    large = next(answer.outcome.result for answer in demo.answers if answer.asked.title == "1 MB result")
    assert isinstance(large, Ok)
    assert len(large.value) < LOG_CHARS / 10
    assert LOG_FAULT not in large.value
    assert [answer.asked.call.name for answer in demo.read_back] == [
        "artifact_line_count", "artifact_grep", "artifact_cat",
    ]  # fmt: skip
    results = [answer.outcome.result for answer in demo.read_back]
    assert all(isinstance(result, Ok) for result in results)
    found, around = (result.value for result in results[1:] if isinstance(result, Ok))
    assert LOG_FAULT in found
    assert LOG_FAULT in around.splitlines()[1]


@pytest.mark.anyio
async def test_without_truncation_there_is_nothing_to_read_back() -> None:
    registry = ToolRegistry(tool for tool in shop(list[str]().append) if tool.name == "count_words")
    good = DemoCall(title="good", call=Call("c1", "count_words", '{"text": "a b"}'))

    (answer,) = await run_calls(registry, [good])

    assert await read_back([answer.outcome]) == []


def test_a_second_tool_of_the_same_name_is_refused_and_replaces_nothing() -> None:
    registry = shop(list[str]().append)
    before = registry.get("refund")

    refused = register_clash(registry, list[str]().append)

    assert refused is not None
    assert refused.tool == "refund"
    assert registry.get("refund") is before
