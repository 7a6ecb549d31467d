"""A batch of a turn that is given up: what has ended keeps its answer, the rest is cancelled."""

from typing import Any

import anyio
import pytest

from spindle import CallOutcome, DispatchContext, Err, Executor, Journal, ToolRegistry
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


async def test_what_a_call_raises_because_it_is_cancelled_is_not_why_it_failed() -> None:
    begun, told = anyio.Event(), list[bool]()

    async def hang(_args: Any, ctx: Any, _meta: Any) -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            told.append(ctx.cancelled)
            raise RuntimeError("cleaning up") from None
        return "never"

    (outcome,) = await stopped(Executor(ToolRegistry([make("hang", hang)])), DispatchContext(), ["hang"], begun)

    assert err(outcome).code == "cancelled"
    assert told == [True]


async def test_nothing_runs_in_a_turn_that_was_aborted_before() -> None:
    tool, runs = counting()
    ctx = DispatchContext()
    ctx.abort()

    (outcome,) = await Executor(ToolRegistry([tool])).execute_parallel([call("count")], ctx)

    assert err(outcome).code == "cancelled"
    assert runs == []
