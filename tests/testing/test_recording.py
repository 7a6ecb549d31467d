"""A sink that records the events of observers."""

from typing import Any

import anyio
import pytest

from spindle import Call, DispatchContext, Events, Executor, ToolContext, ToolRegistry, TurnRunner, tool
from spindle.errors import UnknownEventError, UsageError
from spindle.testing import RecordedEvent, RecordingSink, ScriptedModel

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str, ctx: ToolContext) -> str:
    """Echo a text."""
    ctx.progress(text)
    return text


@pytest.mark.parametrize("kind", [ToolContext, DispatchContext], ids=["tool", "dispatch"])
async def test_sink_records_executor_events_in_order(kind: type[Any]) -> None:
    ctx = kind()
    sink = RecordingSink(ctx)

    await Executor(ToolRegistry([echo])).execute_parallel([Call("c1", "echo", {"text": "hi"})], ctx)

    assert [event.kind for event in sink.recorded] == ["tool_execution_start", "tool_progress", "tool_execution_end"]
    assert [each.message for each in sink.of("tool_progress")] == ["hi"]
    assert sink.of("log") == []


async def test_sink_records_the_events_of_a_turn_runner() -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "echo", {"text": "hi"}), "done"), tools=[echo])
    sink = RecordingSink(runner)

    await runner.run()

    assert (sink.recorded[0].kind, sink.recorded[-1].kind) == ("turn_start", "turn_end")
    assert [each.status for each in sink.of("turn_end")] == ["ok"]


async def test_wait_for_returns_after_the_last_expected_event() -> None:
    events = Events()
    sink = RecordingSink(events)
    events.notify("log", 1)
    found: list[list[Any]] = []

    async def wait() -> None:
        found.append(await sink.wait_for("log", 3))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        events.notify("log", 2)
        events.notify("warning", "another kind")
        await anyio.wait_all_tasks_blocked()
        assert found == []
        events.notify("log", 3)
        events.notify("log", 4)

    assert found == [[1, 2, 3], [1, 2, 3]]


async def test_wait_for_counts_earlier_events() -> None:
    events = Events()
    sink = RecordingSink(events)
    events.notify("log", 1)

    assert await sink.wait_for("log", timeout_seconds=0) == [1]


async def test_wait_for_timeout_lists_the_recorded_events() -> None:
    events = Events()
    sink = RecordingSink(events)
    events.notify("warning", "w")

    with pytest.raises(TimeoutError, match="1 of 'warning'"):
        await sink.wait_for("log", timeout_seconds=0.01)


def test_detached_sink_keeps_its_events() -> None:
    first, second = Events(), Events()
    sink = RecordingSink(first)
    stop = sink.attach(second)

    first.notify("log", 1)
    second.notify("log", 2)
    stop()
    second.notify("log", 3)
    first.notify("log", 4)

    assert sink.recorded == [RecordedEvent("log", 1), RecordedEvent("log", 2), RecordedEvent("log", 4)]
    assert not second.has_observer("log")


async def test_sink_rejects_invalid_arguments() -> None:
    sink = RecordingSink()
    nothing: Any = object()

    with pytest.raises(UnknownEventError):
        sink.of("logs")
    with pytest.raises(UnknownEventError):
        await sink.wait_for("logs")
    with pytest.raises(UsageError):
        await sink.wait_for("log", 0)
    with pytest.raises(UsageError):
        RecordingSink(nothing)
