"""A batch: the work of its calls, and what it answers in a turn that is given up."""

import gc
import sys
from collections import Counter
from types import FrameType
from typing import Any

import anyio
import pytest

from spindle import Call, CallOutcome, DispatchContext, Err, Executor, Journal, ToolContext, ToolRegistry
from tests.execution.calling import call, counting, err, giving, make, ok

pytestmark = pytest.mark.anyio


async def stopped(executor: Executor, ctx: DispatchContext, names: list[str], begun: anyio.Event) -> list[CallOutcome]:
    """Run calls side by side, and abort when the last one hangs."""
    outcomes: list[CallOutcome] = []

    async def run() -> None:
        outcomes.extend(await executor.execute_parallel([call(name, call_id=name) for name in names], ctx))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            ctx.abort()
    return outcomes


async def test_calls_that_had_ended_keep_their_answers_when_the_turn_is_aborted() -> None:
    begun = anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> str:
        begun.set()
        await anyio.sleep_forever()
        return "never"

    journal = Journal.memory()
    tools = [giving("sent", "send"), giving(Err("stale_write", "It was changed."), "write"), make("hang", hang)]
    executor = Executor(ToolRegistry(tools), journal=journal)

    sent, wrote, unknown, hung = await stopped(executor, DispatchContext(), ["send", "write", "none", "hang"], begun)

    assert ok(sent).value == "sent"
    assert [err(wrote).code, err(unknown).code, err(hung).code] == ["stale_write", "not_available", "cancelled"]
    codes = {entry.tool: entry.code for entry in await journal.list()}
    assert codes == {"send": None, "write": "stale_write", "none": "not_available", "hang": "cancelled"}


async def test_an_exception_caused_by_cancellation_is_not_the_reported_failure() -> None:
    begun, reported = anyio.Event(), list[bool]()

    async def hang(_args: Any, ctx: Any, _meta: Any) -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            reported.append(ctx.cancelled)
            raise RuntimeError("cleaning up") from None
        return "never"

    (outcome,) = await stopped(Executor(ToolRegistry([make("hang", hang)])), DispatchContext(), ["hang"], begun)

    assert err(outcome).code == "cancelled"
    assert reported == [True]


async def test_nothing_runs_in_a_turn_that_was_aborted_before() -> None:
    tool, runs = counting()
    ctx = DispatchContext()
    ctx.abort()

    (outcome,) = await Executor(ToolRegistry([tool])).execute_parallel([call("count")], ctx)

    assert err(outcome).code == "cancelled"
    assert runs == []


async def count_functions(executor: Executor, calls: list[Call]) -> Counter[str]:
    """Run a batch and count the Python functions that are called meanwhile, by their names."""
    called: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            called[frame.f_code.co_qualname] += 1

    context = ToolContext("s1")
    await executor.execute_parallel(calls, context)  # the first time, some things are built that are kept
    gc.disable()  # what a collection finalises belongs to other tests
    sys.setprofile(note)
    try:
        await executor.execute_parallel(calls, context)
    finally:
        sys.setprofile(None)
        gc.enable()
    return called


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio has no way to run the first step of a task at once
async def test_a_lone_call_that_does_not_wait_needs_no_new_task_scope_or_timer() -> None:
    called = await count_functions(Executor(ToolRegistry([giving("fine")])), [Call("c1", "give", "{}")])

    assert called["_Supervisor._work"] == 1
    for name in ("CancelScope.__enter__", "BaseEventLoop.call_at", "BaseEventLoop.create_task", "_SpareTask.__init__"):
        assert called[name] == 0, name
    assert called.total() <= 100


def name_same(_args: Any) -> list[str]:
    return ["same"]


@pytest.mark.slow
@pytest.mark.one_loop
async def test_the_work_of_one_call_does_not_depend_on_the_size_of_its_batch() -> None:
    executor = Executor(ToolRegistry([giving("fine"), giving("fine", "locked", resources=name_same)]))

    for name in ("give", "locked"):
        few = await count_functions(executor, [Call(f"c{i}", name, "{}") for i in range(50)])
        many = await count_functions(executor, [Call(f"c{i}", name, "{}") for i in range(500)])

        assert many.total() < few.total() * 11, (many - few).most_common(5)
