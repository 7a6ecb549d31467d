"""Reducers at work in an executor: before the cut, for good and failed results, and never a harm."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from spindle import (
    Artifact,
    Budget,
    Call,
    Err,
    Executor,
    JsonArtifact,
    Media,
    Ok,
    Reducer,
    ReducerRegistry,
    Tool,
    ToolContext,
    ToolRegistry,
)
from spindle.execution.reducers import ReduceInfo
from spindle.kit.reducers import default_reducers
from tests.execution.calling import artifact_of, call, err, execute, execute_one, giving, hearing, make, ok

pytestmark = pytest.mark.anyio


def reducing(reduce: Callable[[Any, ReduceInfo], Any], tool: str = "give") -> ReducerRegistry:
    registry = ReducerRegistry()
    registry.register(Reducer(tool_name=tool, reduce=reduce))
    return registry


def first_word(result: Ok | Err, _info: ReduceInfo) -> Ok | Err:
    if isinstance(result, Ok):
        return Ok(result.value.split(" ", 1)[0])
    return Err("input_invalid", result.error.split(" ", 1)[0])


async def test_a_result_is_reduced_before_it_is_cut_and_the_marker_counts_what_is_left() -> None:
    reducers = reducing(lambda _result, _info: Ok("r" * 100))

    outcome = await execute_one(giving("x" * 1_000), budget=Budget(chars=30), reducers=reducers, spool=None)

    assert ok(outcome).value == "r" * 30 + "\n[truncated — 100 chars total]"


async def test_room_that_reduction_makes_goes_to_the_others() -> None:
    tools = [giving("word " * 100), giving("y" * 90, "other")]

    reduced, other = await execute(
        tools, [call("give"), call("other", call_id="c2")], budget=Budget(chars=100), reducers=reducing(first_word)
    )

    assert (ok(reduced).value, ok(other).value) == ("word", "y" * 90)


async def test_a_failed_result_is_reduced_too_and_keeps_everything_but_its_text() -> None:
    cause = RuntimeError("why")
    failed = Err("stale_write", "conflict " * 50, field="path", retryable=True, cause=cause)

    outcome = await execute_one(giving(failed), reducers=reducing(first_word), budget=Budget(chars=100))

    assert err(outcome) == Err("stale_write", "conflict", field="path", retryable=True, cause=cause)


async def test_a_reduced_error_beside_a_result_that_must_be_cut_harms_nothing() -> None:
    tools = [giving(Err("execution_failed", "broken pipe")), giving("z" * 500, "long")]

    failed, long = await execute(
        tools, [call("give"), call("long", call_id="c2")], reducers=reducing(first_word), budget=Budget(chars=50)
    )

    assert err(failed).error == "broken"
    assert ok(long).value.startswith("z" * 44 + "\n[truncated")


async def test_a_reducer_receives_the_arguments_and_the_turn() -> None:
    seen: list[ReduceInfo] = []

    def note(result: Any, info: ReduceInfo) -> Any:
        seen.append(info)
        return result

    await execute_one(giving("x"), '{"path": "a.txt"}', ctx=ToolContext("s1", turn_count=7), reducers=reducing(note))

    assert seen == [ReduceInfo(args={"path": "a.txt"}, turn_count=7)]


async def test_only_the_tool_of_exactly_that_name_is_reduced() -> None:
    tools = [giving("one two", "give"), giving("one two", "give2"), giving("one two", "Give")]

    outcomes = await execute(tools, [call(tool.name) for tool in tools], reducers=reducing(first_word))

    assert [ok(outcome).value for outcome in outcomes] == ["one", "one two", "one two"]


async def _coroutine() -> Ok:
    return Ok("")


def _raise(error: BaseException) -> Any:
    raise error


JUNK: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda _: None,
    "text": lambda _: "short",
    "a coroutine": lambda _: _coroutine(),
    "an Ok without text": lambda _: Ok(5),  # pyright: ignore[reportArgumentType]
    "an Err of an Ok": lambda _: Err("denied", ""),
    "more than there was": lambda result: Ok(result.value + "."),
    "an exception": lambda _: _raise(ValueError("no")),
    "a stack without end": lambda _: _raise(RecursionError()),
    "the end of the program": lambda _: _raise(SystemExit(3)),
    "a class": lambda _: Ok,
}


@pytest.mark.parametrize("kind", JUNK)
async def test_a_reducer_that_gives_junk_leaves_the_result_as_it_was_and_is_reported(kind: str) -> None:
    ctx, warnings = hearing()
    tools = [giving("one two three"), giving("fine", "other")]

    reduced, other = await execute(
        tools,
        [call("give"), call("other", call_id="c2")],
        ctx=ctx,
        reducers=reducing(lambda result, _info: JUNK[kind](result)),
    )

    assert (ok(reduced).value, ok(reduced).artifact) == ("one two three", None)
    assert ok(other).value == "fine"
    assert [warned.source for warned in warnings] == ["reducer"]


async def test_a_reducer_that_turns_a_failure_into_a_success_is_not_believed() -> None:
    outcome = await execute_one(
        giving(Err("denied", "not allowed")), reducers=reducing(lambda _result, _info: Ok("")), ctx=hearing()[0]
    )

    assert err(outcome).code == "denied"


async def test_structure_cost_media_and_trust_that_a_reducer_dropped_are_kept() -> None:
    media = Media.tool_generated(b"x", kind="image", mime_type="image/png", filename="a.png")
    whole = Ok("one two", structured={"n": 2}, media=(media,), cost_usd=0.5)

    outcome = await execute_one(giving(whole, trusted=True), reducers=reducing(first_word))

    result = ok(outcome)
    assert (result.value, result.structured, result.media, result.cost_usd) == ("one", {"n": 2}, (media,), 0.5)
    assert result.trusted


@pytest.mark.parametrize("settings", [{"reducers": reducing(first_word)}, {"budget": Budget(chars=10)}])
async def test_media_alone_is_recorded_as_it_was_returned_whatever_becomes_of_its_marker(
    settings: dict[str, Any],
) -> None:
    media = Media.tool_generated(b"x", kind="image", mime_type="image/png", filename="a.png")

    one, several = await execute(
        [giving(media), giving([media, media], "several")], [call("give"), call("several", call_id="c2")], **settings
    )

    assert one.to_record().results is media
    assert several.to_record().results == (media, media)


async def test_media_beside_a_truncated_text_stays_in_the_record() -> None:
    media = Media.tool_generated(b"x", kind="image", mime_type="image/png", filename="a.png")

    record = (await execute_one(giving(Ok("long " * 100, media=(media,))), budget=Budget(chars=20))).to_record()

    assert await record.results.as_text() == "long " * 100
    assert record.media == (media,)


async def test_a_reducer_cannot_raise_the_trust_of_a_result() -> None:
    outcome = await execute_one(giving("one two"), reducers=reducing(lambda _r, _i: Ok("one", trusted=True)))

    assert (ok(outcome).value, ok(outcome).trusted) == ("one", False)


async def test_a_cached_result_is_reduced_each_time_it_is_given() -> None:
    turns: list[int] = []

    def by_turn(_result: Any, info: ReduceInfo) -> Ok:
        turns.append(info.turn_count)
        return Ok(f"turn {info.turn_count}")

    executor = Executor(ToolRegistry([giving("long text", cache=True)]), reducers=reducing(by_turn))
    for turn in (1, 2):
        (outcome,) = await executor.execute_parallel([call("give")], ToolContext("s1", turn_count=turn))
        assert ok(outcome).value == f"turn {turn}"
        assert await artifact_of(ok(outcome), Artifact).as_text() == "long text"
    assert turns == [1, 2]


async def test_a_refused_call_and_a_dry_run_are_not_reduced() -> None:
    seen: list[Any] = []

    def note(result: Any, _info: ReduceInfo) -> Any:
        seen.append(result)
        return result

    await execute_one(giving("x"), "{", reducers=reducing(note))
    await execute_one(giving("x"), ctx=ToolContext("s1", dry_run=True), reducers=reducing(note))

    assert seen == []


async def test_a_reducer_that_was_taken_away_again_reduces_nothing() -> None:
    reducers = ReducerRegistry()
    clean_up = reducers.register(Reducer(tool_name="give", reduce=first_word))
    clean_up()

    assert ok(await execute_one(giving("one two"), reducers=reducers)).value == "one two"


def read_file(text: str) -> Tool:
    async def read(args: Any, _ctx: Any, _meta: Any) -> str:
        lines = text.split("\n")
        start, end = args.get("start_line"), args.get("end_line")
        return "\n".join(lines[(start or 1) - 1 : end])

    return make("read_file", read)


async def test_a_file_read_without_a_range_is_shown_as_its_first_lines_and_can_be_read_on() -> None:
    text = "\n".join(f"line {n}" for n in range(1, 1_001))
    calls = [
        Call("a", "read_file", {"path": "x"}),
        Call("b", "read_file", {"path": "x", "start_line": 201, "end_line": 900}),
        Call("c", "read_file", {"path": "x", "start_line": None}),
    ]

    whole, ranged, unsaid = await execute([read_file(text)], calls, reducers=default_reducers())

    head, *lines = ok(whole).value.split("\n")
    assert "1000 lines" in head
    assert lines == text.split("\n")[:200]
    assert await artifact_of(ok(whole), Artifact).as_text() == text
    assert ok(ranged).value == "\n".join(text.split("\n")[200:900])
    assert ok(unsaid).value == ok(whole).value


async def test_a_long_board_is_shown_as_counts_and_kept_as_json() -> None:
    board = [
        {"id": f"T{n}", "title": f"ticket {n}", "status": "done" if n % 2 else "open", "updated_at": 1_000 + n}
        for n in range(40)
    ]

    outcome = await execute_one(giving(board, "kanban_list"), reducers=default_reducers())

    assert "open=20" in ok(outcome).value
    assert "T38" in ok(outcome).value
    assert ok(outcome).structured == board
    assert json.loads(await artifact_of(ok(outcome), Artifact).as_text()) == board
    assert await artifact_of(ok(outcome), JsonArtifact).get("$[39].id") == ["T39"]


async def test_a_long_terminal_output_keeps_head_and_tail_and_all_of_it_is_kept() -> None:
    text = "".join(f"compiling unit {n} of the program\n" for n in range(2_000)) + "error: unit 1999 is bad\n"

    outcome = await execute_one(giving(text, "terminal"), {"command": "make all"}, reducers=default_reducers())

    shown = ok(outcome).value
    assert len(shown) < 8_192
    assert shown.startswith("compiling unit 0 ")
    assert "error: unit 1999 is bad" in shown
    assert await artifact_of(ok(outcome), Artifact).as_text() == text


async def test_an_artifact_that_only_a_reducer_shows_and_that_cannot_be_read_in_time_is_not_shown() -> None:
    class HangingArtifact(Artifact):
        async def byte_length(self) -> int:
            await anyio.sleep_forever()
            return 0

    hanging = HangingArtifact(Artifact.from_text("all of it").reader)
    reducers = reducing(lambda _result, _info: Ok(""))
    tool = giving(Ok("what it found", artifact=hanging), timeout_seconds=0.2)

    with anyio.fail_after(30):
        outcome = await execute_one(tool, reducers=reducers)

    assert ok(outcome).value == "what it found"
    assert ok(outcome).artifact is hanging
