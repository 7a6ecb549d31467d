"""A turn is a span, with its dispatch, its iterations and its calls inside, in whatever way it ends."""

from contextlib import aclosing
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from spindle import Call, DispatchContext, DispatchRunner, Events, TurnRunner, tool
from spindle.telemetry.instrumentation import trace_turns
from spindle.testing import ScriptedModel
from tests.telemetry.collecting import Collected, attributes, parent_id, span_id

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Echo a text."""
    return text


def runner_of(sdk: Collected, *script: Any, **settings: Any) -> TurnRunner:
    runner = TurnRunner(
        executor_callback=ScriptedModel(*script), tools=[echo], interceptors=[sdk.telemetry()], **settings
    )
    trace_turns(runner, agent_name="Helper", tracer_provider=sdk.tracers, meter_provider=sdk.meters)
    return runner


async def test_everything_in_a_turn_is_in_its_place(sdk: Collected) -> None:
    runner = runner_of(sdk, Call("c1", "echo", {"text": "a"}), "done")

    with sdk.tracers.get_tracer("test").start_as_current_span("request") as request:
        report = await runner.run()
        assert trace.get_current_span() is request

    turn, dispatch, called = sdk.named("invoke_agent Helper"), sdk.named("spindle.dispatch"), sdk.of_call("c1")
    first, second = sorted(
        (span for span in sdk.spans if span.name == "spindle.iteration"), key=lambda span: span.start_time or 0
    )
    assert report.status == "ok"
    assert parent_id(turn) == span_id(sdk.named("request"))
    assert parent_id(dispatch) == span_id(turn)
    assert parent_id(first) == parent_id(second) == span_id(dispatch)
    assert parent_id(called) == span_id(first)
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Helper",
        "spindle.turn.id": report.turn_id,
        "spindle.turn.status": "ok",
    }
    assert attributes(dispatch)["spindle.iterations"] == 2
    assert [attributes(each)["spindle.iteration.number"] for each in (first, second)] == [0, 1]
    assert attributes(called)["spindle.turn.id"] == report.turn_id


async def test_spans_of_the_callback_are_inside_its_iteration(sdk: Collected) -> None:
    async def ask(_ctx: Any) -> str:
        with sdk.tracers.get_tracer("a model's client").start_as_current_span("chat"):
            return "done"

    runner = TurnRunner(executor_callback=ask)
    trace_turns(runner, tracer_provider=sdk.tracers)
    await runner.run()

    assert parent_id(sdk.named("chat")) == span_id(sdk.named("spindle.iteration"))
    assert sdk.named("invoke_agent")


async def test_a_turn_that_fails_leaves_no_span_open_and_says_why_without_words(sdk: Collected) -> None:
    async def fail(_ctx: Any) -> str:
        raise ValueError("a private word")

    runner = TurnRunner(executor_callback=fail)
    trace_turns(runner, tracer_provider=sdk.tracers, meter_provider=sdk.meters)
    report = await runner.run()

    assert report.status == "error"
    assert [span.name for span in sdk.spans] == ["spindle.iteration", "spindle.dispatch", "invoke_agent"]
    assert {span.status.status_code for span in sdk.spans} == {StatusCode.ERROR}
    assert {attributes(span)["error.type"] for span in sdk.spans} == {getattr(report.error, "code", None)}
    assert "private" not in "".join(span.to_json() for span in sdk.spans)
    assert trace.get_current_span() is trace.INVALID_SPAN
    (point,) = sdk.points("gen_ai.invoke_agent.duration")
    assert point.attributes == {"error.type": getattr(report.error, "code", None)}


async def test_a_turn_over_its_limit_is_an_error(sdk: Collected) -> None:
    runner = runner_of(sdk, *(Call(f"c{n}", "echo", {"text": str(n)}) for n in range(3)), max_iterations=1)

    await runner.run()

    turn = sdk.named("invoke_agent Helper")
    assert attributes(turn)["spindle.turn.status"] == "limit"
    assert turn.status.status_code == StatusCode.ERROR


async def test_a_turn_whose_caller_leaves_is_ended(sdk: Collected) -> None:
    async def ask(_ctx: Any) -> str:
        scope.cancel()
        await anyio.sleep_forever()
        return ""

    runner = TurnRunner(executor_callback=ask)
    trace_turns(runner, tracer_provider=sdk.tracers)
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        await runner.run()

    assert [span.name for span in sdk.spans] == ["spindle.iteration", "spindle.dispatch", "invoke_agent"]
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_streamed_turn_is_traced_too(sdk: Collected) -> None:
    runner = runner_of(sdk, Call("c1", "echo", {"text": "a"}), "done")

    with anyio.fail_after(30):
        async with aclosing(runner.stream()) as events:
            assert [event.name async for event in events][-1] == "report"

    turn = sdk.named("invoke_agent Helper")
    assert sdk.of_call("c1").context is not None
    assert {span.context.trace_id for span in sdk.spans if span.context} == {
        turn.context.trace_id if turn.context else 0
    }


async def test_turns_side_by_side_do_not_mix(sdk: Collected) -> None:
    both, arrived = anyio.Event(), 0

    async def ask(ctx: Any) -> Any:
        nonlocal arrived
        arrived += 1
        if arrived == 3:
            both.set()
        await both.wait()
        return "done" if ctx.iteration else [Call(ctx.turn_id, "echo", {"text": "a"})]

    runner = TurnRunner(executor_callback=ask, tools=[echo], interceptors=[sdk.telemetry()])
    trace_turns(runner, tracer_provider=sdk.tracers)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(runner.run)

    turns = [span for span in sdk.spans if span.name == "invoke_agent"]
    assert len(turns) == 3
    for turn in turns:
        called = sdk.of_call(attributes(turn)["spindle.turn.id"])
        assert turn.context is not None
        assert called.context is not None
        assert called.context.trace_id == turn.context.trace_id
    assert len({span.context.trace_id for span in turns if span.context}) == 3


async def test_a_dispatch_without_a_turn_has_its_span(sdk: Collected) -> None:
    events = Events()
    trace_turns(events, tracer_provider=sdk.tracers)

    await DispatchRunner.dispatch(raw=DispatchContext(events=events), executor_callback=ScriptedModel("done"))

    assert [span.name for span in sdk.spans] == ["spindle.iteration", "spindle.dispatch"]


async def test_nothing_is_recorded_without_an_sdk_or_after_the_stop(sdk: Collected) -> None:
    runner = TurnRunner(executor_callback=ScriptedModel("done", "done"))
    trace_turns(runner)
    stop = trace_turns(runner, tracer_provider=sdk.tracers)
    stop()

    assert (await runner.run()).status == "ok"
    assert sdk.spans == []


async def test_a_given_provider_is_recorded_and_durations_have_the_conventions_buckets(sdk: Collected) -> None:
    runner = TurnRunner(executor_callback=ScriptedModel("done"))
    trace_turns(runner, provider_name="openai", tracer_provider=sdk.tracers, meter_provider=sdk.meters)
    await runner.run()

    assert attributes(sdk.named("invoke_agent"))["gen_ai.provider.name"] == "openai"
    (point,) = sdk.points("gen_ai.invoke_agent.duration")
    assert point.explicit_bounds == pytest.approx([0.1 * 2**power for power in range(13)])
