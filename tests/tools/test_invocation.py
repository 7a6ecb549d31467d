"""How one call runs: the order of its steps, its events and its errors."""

from datetime import datetime
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from pydantic import BaseModel, model_validator

from spindle import Err, Events, Tool, ToolContext, tool
from spindle.errors import InvalidContextError, InvalidToolArgsError, NotCanonicalError, ToolDownstreamError
from spindle.events import ToolExecutionEnd, ToolExecutionStart
from spindle.tools.identity import checksum

pytestmark = pytest.mark.anyio


def recording(*names: str) -> tuple[Events, list[Any]]:
    events, seen = Events(), list[Any]()
    for name in names or ("tool_execution_start", "tool_execution_end", "warning"):
        events.on(name, seen.append)
    return events, seen


@tool
async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def test_a_handler_that_changes_its_arguments_affects_no_other_call() -> None:
    def spoil(args: Any, _ctx: Any, _meta: Any) -> str:
        args["list"].append("mine")
        args["new"] = 1
        return "done"

    it = Tool(name="spoil", description="Spoils.", input_schema={"type": "object"}, handler=spoil)
    asked: dict[str, Any] = {"list": []}

    assert await it.executor(ToolContext())(asked) == "done"
    assert asked == {"list": []}


async def test_a_call_gives_the_handlers_value_untouched() -> None:
    thing = object()

    @tool
    def give() -> Any:
        """Give the thing."""
        return thing

    assert await give.executor(ToolContext())({}) is thing


@pytest.mark.parametrize("args", [{"n": 4}, '{"n": 4}', b'{"n": 4}', {"n": "4"}])
async def test_arguments_arrive_as_a_mapping_or_as_json(args: Any) -> None:
    assert await double.executor(ToolContext())(args) == 8


async def test_making_an_executor_has_no_side_effect_and_it_can_be_used_again() -> None:
    events, seen = recording()
    execute = double.executor(ToolContext(events=events))

    assert seen == []
    assert [await execute({"n": n}) for n in range(3)] == [0, 2, 4]
    assert len(seen) == 6


async def test_a_classic_handler_gets_arguments_context_and_meta() -> None:
    got: list[Any] = []
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    it = Tool(
        name="t",
        description="d",
        input_schema=schema,
        handler=lambda *given: got.extend(given),
        meta={"deep": {"er": 1}},
    )
    ctx = ToolContext(session_id="s9")

    await it.executor(ctx)({"a": 1})

    assert got[0] == {"a": 1}
    assert got[1] is ctx
    assert got[2].get("deep.er") == 1


async def test_events_carry_the_facts_of_the_call() -> None:
    events, seen = recording()
    ctx = ToolContext(turn_id="turn-7", events=events, tool_call_id="call-1")

    await double.executor(ctx)({"n": "4"})

    start, end = seen
    assert isinstance(start, ToolExecutionStart)
    assert isinstance(end, ToolExecutionEnd)
    assert (start.tool_name, start.turn_id, start.tool_call_id) == ("double", "turn-7", "call-1")
    assert start.args == {"n": 4}
    assert start.checksum == end.checksum == checksum("double", {"n": "4"})
    assert isinstance(start.started_at, datetime)
    assert start.started_at.tzinfo is not None
    assert end.started_at == start.started_at <= end.ended_at
    assert end.duration_ms >= 0
    assert end.is_error is False


async def test_the_checksum_is_that_of_the_raw_arguments_however_they_arrive() -> None:
    events, seen = recording("tool_execution_start")
    execute = double.executor(ToolContext(events=events))

    for args in ({"n": 4}, '{ "n" : 4 }', b'{"n":4}'):
        await execute(args)

    assert {each.checksum for each in seen} == {checksum("double", {"n": 4})}


async def test_the_checksum_is_that_of_the_arguments_before_a_validator_changes_them() -> None:
    class Query(BaseModel):
        n: int = 0

        @model_validator(mode="before")
        @classmethod
        def change(cls, given: dict[str, Any]) -> dict[str, Any]:
            given["n"] = 7
            return given

    events, seen = recording("tool_execution_start")

    def answer(args: Any, _ctx: Any, _meta: Any) -> int:
        return args.n

    ask = Tool(name="ask", description="Asks.", input_schema=Query, handler=answer)
    given: list[Any] = [{}, "{}"]
    for args in given:
        assert await ask.executor(ToolContext(events=events))(args) == 7
    assert {each.checksum for each in seen} == {checksum("ask", {})}


async def test_refused_arguments_run_nothing_and_emit_nothing() -> None:
    events, seen = recording()
    ran: list[int] = []

    @tool
    def note(n: int) -> None:
        """Note a number."""
        ran.append(n)

    execute = note.executor(ToolContext(events=events))
    refused: list[Any] = [
        {"n": "many"}, {}, {"n": 1, "m": 2}, '{"n": 1', '{"n": 1} trailing', "[1]", '{"n": NaN}', '{"n": 1, "n": 2}',
        '{"a":' * 201 + "1" + "}" * 201, "", None, b"\xff", '{"n": true}', [1], 5,
    ]  # fmt: skip
    for args in refused:
        with pytest.raises(InvalidToolArgsError) as caught:
            await execute(args)
        assert (caught.value.code, caught.value.status, caught.value.fatal) == ("E_INVALID_TOOL_ARGS", 422, False)
        assert caught.value.tool == "note"

    assert (ran, seen) == ([], [])


async def test_arguments_without_canonical_json_are_refused_first() -> None:
    events, seen = recording()
    cycle: dict[str, Any] = {"n": 1}
    cycle["self"] = cycle

    for args in ({"n": float("nan")}, {"n": float("inf")}, {"n": object()}, cycle):
        with pytest.raises(NotCanonicalError):
            await double.executor(ToolContext(events=events))(args)

    assert seen == []


async def test_a_raising_handler_is_wrapped_and_the_end_event_says_so() -> None:
    events, seen = recording()
    original = RuntimeError("disk on fire")

    @tool
    async def burn() -> None:
        """Burn."""
        raise original

    with pytest.raises(ToolDownstreamError) as caught:
        await burn.executor(ToolContext(events=events))({})

    assert caught.value.__cause__ is original
    assert caught.value.tool == "burn"
    assert (caught.value.code, caught.value.status, caught.value.fatal) == ("E_TOOL_DOWNSTREAM_ERROR", 500, False)
    assert [type(each) for each in seen] == [ToolExecutionStart, ToolExecutionEnd]
    assert seen[1].is_error is True


@pytest.mark.parametrize("observed", [True, False])
async def test_a_tool_cannot_end_the_program(observed: bool) -> None:
    @tool
    def leave() -> None:
        """Leave."""
        raise SystemExit(3)

    events = recording()[0] if observed else Events()
    with pytest.raises(ToolDownstreamError) as caught:
        await leave.executor(ToolContext(events=events))({})

    assert isinstance(caught.value.__cause__, SystemExit)


async def test_an_err_is_given_back_and_counts_as_an_error() -> None:
    events, seen = recording()

    @tool
    def fail() -> Err:
        """Fail politely."""
        return Err("stale_write", "changed since you read it")

    assert await fail.executor(ToolContext(events=events))({}) == Err("stale_write", "changed since you read it")
    assert seen[1].is_error is True


async def test_cancellation_passes_through_and_the_end_event_is_still_emitted() -> None:
    events, seen = recording("tool_execution_end")
    late: list[Any] = []

    async def slowly(payload: Any) -> None:
        await checkpoint()
        late.append(payload)

    events.on("tool_execution_end", slowly)
    started = anyio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        started.set()
        await anyio.sleep_forever()

    async def run() -> None:
        await hang.executor(ToolContext(events=events))({})

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await started.wait()
            group.cancel_scope.cancel()

    assert [each.is_error for each in seen] == [True]
    assert late == seen


async def test_cancellation_is_not_wrapped_without_observers_either() -> None:
    @tool
    async def hang() -> None:
        """Hang."""
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await hang.executor(ToolContext())({})

    assert scope.cancelled_caught


async def test_checks_run_after_the_schema_with_the_context_and_before_any_event() -> None:
    events, seen = recording()
    asked: list[Any] = []

    async def check(args: Any, ctx: Any) -> None:
        asked.append((args, ctx))
        if args["n"] > 5:
            raise ValueError("too many")

    it = tool(checks=[check])(lambda_free)
    ctx = ToolContext(events=events)
    assert await it.executor(ctx)({"n": "5"}) == 5
    with pytest.raises(InvalidToolArgsError):
        await it.executor(ctx)({"n": 6})
    with pytest.raises(InvalidToolArgsError):
        await it.executor(ctx)({"n": "x"})

    assert asked == [({"n": 5}, ctx), ({"n": 6}, ctx)]
    assert len(seen) == 2


def lambda_free(n: int) -> int:
    """Give it back."""
    return n


async def test_a_failing_observer_changes_nothing_and_is_reported() -> None:
    events, seen = recording("warning")

    def broken(payload: Any) -> None:
        raise LookupError("my own bug")

    events.on("tool_execution_start", broken)

    assert await double.executor(ToolContext(events=events))({"n": 1}) == 2
    assert isinstance(seen[0].error, LookupError)


@pytest.mark.parametrize("ctx", [None, "s1", {"session_id": "s1"}, object()])
async def test_something_that_is_not_a_context_is_refused(ctx: Any) -> None:
    with pytest.raises(InvalidContextError):
        double.executor(ctx)


async def test_a_larger_context_gives_the_light_one() -> None:
    light = ToolContext(session_id="s5")

    class Larger:
        def tool_context(self) -> ToolContext:
            return light

    @tool
    def who(ctx: ToolContext) -> str:
        """Return the caller."""
        return ctx.session_id

    assert await who.executor(Larger())({}) == "s5"
