"""`TurnRunner.stream` and async observers: events arrive while the turn is running."""

import threading
import tracemalloc
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread
import pytest

from spindle import Call, TurnReport, TurnRunner, tool
from spindle.testing import ScriptedModel
from spindle.turns import StreamedEvent

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Echo a text."""
    return text


async def test_stream_yields_a_delta_while_the_callback_is_still_running() -> None:
    seen = anyio.Event()

    async def callback(ctx: Any, helpers: Any) -> str:
        helpers.report_message("m", "first ")
        await seen.wait()  # never set if events were kept until the callback returns
        helpers.report_message("m", "second", True)
        return "first second"

    deltas: list[str] = []
    with anyio.fail_after(30):
        async for event in TurnRunner(executor_callback=callback).stream():
            if event.name == "message":
                deltas.append(event.payload.delta)
                seen.set()

    assert deltas == ["first ", "second"]


async def test_async_observer_is_awaited_while_the_callback_is_still_running() -> None:
    seen, order = anyio.Event(), list[str]()

    async def observe(payload: Any) -> None:
        await anyio.lowlevel.checkpoint()
        order.append(payload.delta)
        seen.set()

    async def callback(ctx: Any, helpers: Any) -> str:
        helpers.report_message("m", "1")
        await seen.wait()
        order.append("callback went on")
        helpers.report_message("m", "2", True)
        return "12"

    runner = TurnRunner(executor_callback=callback)
    runner.on("message", observe)
    with anyio.fail_after(30):
        await runner.run()

    assert order == ["1", "callback went on", "2"]


async def test_slow_reader_gets_merged_text_and_every_other_event() -> None:
    finished = anyio.Event()

    async def callback(ctx: Any, helpers: Any) -> str:
        for number in range(1000):
            helpers.report_message("m", f"{number} ")
            helpers.report_thought("t", ".")
            helpers.report_tool_call("c", tool="echo", args='{"text": "' + "x" * number)
        for number in range(20):
            helpers.log.info(f"line {number}")
        helpers.report_message("m", "end", True)
        finished.set()
        return "done"

    events: list[StreamedEvent] = []
    with anyio.fail_after(30):
        async with aclosing(TurnRunner(executor_callback=callback).stream()) as stream:
            async for event in stream:
                await finished.wait()
                events.append(event)

    messages = [event.payload for event in events if event.name == "message"]
    assert "".join(each.delta for each in messages) == "".join(f"{number} " for number in range(1000)) + "end"
    assert messages[-1].full == "".join(each.delta for each in messages)
    assert len(messages) <= 4
    assert len([event for event in events if event.name == "tool_call"]) <= 3
    assert [e.payload.message for e in events if e.name == "log"] == [f"line {number}" for number in range(20)]
    assert isinstance(events[-1].payload, TurnReport)


async def test_reader_that_does_not_read_never_holds_up_the_turn() -> None:
    ended = anyio.Event()
    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "echo", {"text": "a"}), "done"), tools=[echo])
    runner.on("turn_end", lambda _payload: ended.set())

    with anyio.fail_after(30):
        async with aclosing(runner.stream()) as stream:
            await anext(stream)
            await ended.wait()
            rest = [event.name async for event in stream]

    assert rest[-1] == "report"
    assert "tool_execution_end" in rest


async def test_cancelling_the_reader_aborts_the_turn() -> None:
    async def forever(ctx: Any) -> None:
        await anyio.sleep_forever()

    runner = TurnRunner(executor_callback=forever, abort_grace_seconds=0.01)
    statuses: list[str] = []
    runner.on("turn_end", lambda payload: statuses.append(payload.status))

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with aclosing(runner.stream()) as stream:
            async for event in stream:
                if event.name == "iteration_start":
                    scope.cancel()

    assert statuses == ["aborted"]


async def test_observer_may_run_a_turn_of_the_same_runner() -> None:
    runner = TurnRunner(executor_callback=ScriptedModel("one"))
    texts: list[str] = []

    async def follow_up(payload: Any) -> None:
        if not texts:
            texts.append("started")
            texts.append((await runner.run()).text)

    runner.on("message", follow_up)
    with anyio.fail_after(30):
        report = await runner.run()

    assert report.text == "one"
    assert texts == ["started", "one"]


@pytest.mark.slow
@pytest.mark.one_loop
async def test_text_between_other_events_keeps_its_order_in_bounded_memory() -> None:
    finished, held = anyio.Event(), list[int]()

    async def callback(ctx: Any, helpers: Any) -> str:
        tracemalloc.start()
        for number in range(1000):
            helpers.report_message("m", "x" * 100)
            helpers.report_tool_call("c", tool="echo", args="y" * 100 * number)
            helpers.log.info(f"line {number}")
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        finished.set()
        return "done"

    events: list[StreamedEvent] = []
    with anyio.fail_after(60):
        async with aclosing(TurnRunner(executor_callback=callback).stream()) as stream:
            async for event in stream:
                await finished.wait()
                events.append(event)

    shown = [event for event in events if event.name in {"message", "log"}]
    assert [event.name for event in shown] == ["message", "log"] * 1000
    assert [len(event.payload.full) for event in shown if event.name == "message"] == list(range(100, 100_100, 100))
    assert {event.payload.delta for event in shown if event.name == "message"} == {"x" * 100}
    assert [len(e.payload.args) for e in events if e.name == "tool_call"][-1] == 99_900
    assert held[0] < 10_000_000  # 100 KB of text; with every text so far kept, it was 100 MB


async def test_a_reused_message_id_starts_a_new_text() -> None:
    finished = anyio.Event()

    async def callback(ctx: Any, helpers: Any) -> Any:
        helpers.report_message("m", f"answer {ctx.iteration}", True)
        if ctx.iteration == 0:
            return [Call("c1", "echo", {"text": "a"})]
        finished.set()
        return "done"

    texts: list[tuple[str, str]] = []
    with anyio.fail_after(30):
        async with aclosing(TurnRunner(executor_callback=callback, tools=[echo]).stream()) as stream:
            async for event in stream:
                await finished.wait()
                if event.name == "message":
                    texts.append((event.payload.delta, event.payload.full))

    assert texts == [("answer 0", "answer 0"), ("answer 1", "answer 1")]


async def test_reports_from_a_worker_thread_wake_the_reader() -> None:
    seen = threading.Event()

    async def callback(ctx: Any, helpers: Any) -> str:
        def work() -> bool:
            helpers.report_message("m", "from a thread", True)
            return seen.wait(20)

        return str(await anyio.to_thread.run_sync(work))

    events: list[StreamedEvent] = []
    with anyio.fail_after(60):
        async for event in TurnRunner(executor_callback=callback).stream():
            events.append(event)
            if event.name == "message":
                seen.set()

    assert events[-1].payload.text == "True"


async def test_cancelled_reader_is_not_held_by_a_callback_that_ignores_the_abort() -> None:
    async def forever(ctx: Any) -> None:
        await anyio.sleep_forever()

    runner = TurnRunner(executor_callback=forever, abort_grace_seconds=3600)
    statuses: list[str] = []
    runner.on("turn_end", lambda payload: statuses.append(payload.status))

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with aclosing(runner.stream()) as stream:
            async for event in stream:
                if event.name == "iteration_start":
                    scope.cancel()

    assert statuses == ["aborted"]


async def test_error_of_the_reader_aborts_the_turn_and_is_raised() -> None:
    async def forever(ctx: Any) -> None:
        await anyio.sleep_forever()

    runner = TurnRunner(executor_callback=forever, abort_grace_seconds=0)
    statuses: list[str] = []
    runner.on("turn_end", lambda payload: statuses.append(payload.status))

    async def read() -> None:
        async with aclosing(runner.stream()) as stream:
            async for event in stream:
                if event.name == "iteration_start":
                    raise ZeroDivisionError

    with anyio.fail_after(30), pytest.raises(ZeroDivisionError):
        await read()

    assert statuses == ["aborted"]


async def test_leaving_after_the_report_does_not_abort_the_finished_turn() -> None:
    contexts: list[Any] = []

    async def callback(ctx: Any) -> str:
        contexts.append(ctx)
        return "done"

    with anyio.fail_after(30):
        async with aclosing(TurnRunner(executor_callback=callback).stream()) as stream:
            async for event in stream:
                if event.name == "report":
                    break

    assert not contexts[0].aborted
