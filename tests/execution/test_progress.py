"""Progress of a call: emitted while it runs, with its id, in order, wherever the handler runs."""

import threading
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from spindle import Events, ToolContext
from spindle.events import ToolProgress
from tests.execution.calling import call, execute, execute_one, make, ok

pytestmark = pytest.mark.anyio


def listening() -> tuple[ToolContext, list[ToolProgress]]:
    reported: list[ToolProgress] = []
    events = Events()
    events.on("tool_progress", reported.append)
    return ToolContext("s1", turn_id="t1", events=events), reported


async def _async_steps(args: Any, ctx: ToolContext, _meta: Any) -> str:
    for step in range(args["steps"]):
        ctx.progress(f"step {step}", percent=step, audience="user")
        await anyio.lowlevel.checkpoint()
    return "done"


def _sync_steps(args: Any, ctx: ToolContext, _meta: Any) -> str:
    for step in range(args["steps"]):
        ctx.progress(f"step {step}", percent=step, audience="user")
    return "done"


@pytest.mark.parametrize("handler", [_async_steps, _sync_steps])
async def test_each_call_reports_its_own_progress_in_order(handler: Any) -> None:
    ctx, reported = listening()
    ids = [f"call_{n}" for n in range(8)]

    await execute([make("steps", handler)], [call("steps", {"steps": 30}, call_id=each) for each in ids], ctx=ctx)

    assert {(each.tool_name, each.turn_id, each.audience) for each in reported} == {("steps", "t1", "user")}
    for each in ids:
        assert [event.message for event in reported if event.tool_call_id == each] == [f"step {n}" for n in range(30)]


@pytest.mark.parametrize("is_sync", [False, True])
async def test_progress_is_emitted_while_the_call_runs(is_sync: bool) -> None:
    received, received_in_thread = anyio.Event(), threading.Event()
    events = Events()

    def observe(_event: Any) -> None:
        received.set()
        received_in_thread.set()

    events.on("tool_progress", observe)

    async def work(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress("begun")
        await received.wait()
        return "heard"

    def work_in_a_thread(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.progress("begun")
        return "heard" if received_in_thread.wait(30) else "not heard"

    with anyio.fail_after(30):
        tool = make("work", work_in_a_thread if is_sync else work)
        outcome = await execute_one(tool, ctx=ToolContext(events=events))

    assert ok(outcome).value == "heard"


@pytest.mark.parametrize("handler", [_async_steps, _sync_steps])
async def test_async_observers_have_received_everything_when_the_batch_ends(handler: Any) -> None:
    reported: list[str] = []
    events = Events()

    async def observe(event: ToolProgress) -> None:
        await anyio.lowlevel.checkpoint()
        reported.append(event.message)

    events.on("tool_progress", observe)

    await execute_one(make("steps", handler), {"steps": 5}, ctx=ToolContext(events=events))

    assert reported == [f"step {n}" for n in range(5)]


async def test_an_observer_that_fails_harms_no_call() -> None:
    warnings: list[Any] = []
    events = Events()
    events.on("warning", warnings.append)
    events.on("tool_progress", lambda _event: 1 / 0)

    outcome = await execute_one(make("steps", _sync_steps), {"steps": 2}, ctx=ToolContext(events=events))

    assert ok(outcome).value == "done"
    assert [warned.source for warned in warnings] == ["observer", "observer"]


@pytest.mark.slow
async def test_an_abandoned_handler_emits_no_more_progress() -> None:
    release, ended = threading.Event(), threading.Event()
    ctx, reported = listening()

    def work(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        ctx.progress("in time")
        release.wait(30)
        ctx.progress("too late")
        ended.set()

    await execute_one(make("work", work, timeout_seconds=0.5), ctx=ctx)
    release.set()
    await anyio.to_thread.run_sync(ended.wait, 30)
    await anyio.lowlevel.checkpoint()

    assert [event.message for event in reported] == ["in time"]
