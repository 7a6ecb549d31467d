"""What is counted, under the names and in the buckets of the conventions."""

import gc
import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from spindle import Budget, Executor, ToolContext, ToolRegistry
from spindle.telemetry.metrics import observe_threads
from tests.execution.calling import call, execute, giving, make, raising
from tests.telemetry.collecting import Collected

pytestmark = pytest.mark.anyio


async def test_durations_are_in_seconds_in_the_buckets_of_the_conventions(sdk: Collected) -> None:
    await execute([giving("")], [call("give")], interceptors=[sdk.telemetry()])

    (point,) = sdk.points("gen_ai.execute_tool.duration")
    assert (point.count, point.attributes) == (
        1,
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "give", "gen_ai.tool.type": "function"},
    )
    assert 0 < point.sum < 5
    assert point.explicit_bounds == tuple(0.01 * 2**power for power in range(14))


async def test_outcomes_are_counted_by_code(sdk: Collected) -> None:
    tools = [giving("fine"), raising(ValueError())]
    calls = [call("give"), call("give", call_id="c2"), call("fail")]

    await execute(tools, calls, interceptors=[sdk.telemetry()])

    counted = sdk.counted("spindle.tool.outcomes", "gen_ai.tool.name", "spindle.outcome.code")
    assert counted == {("give", "ok"): 2, ("fail", "execution_failed"): 1}
    errors = {point.attributes.get("error.type") for point in sdk.points("gen_ai.execute_tool.duration")}
    assert errors == {None, "execution_failed"}


async def test_names_no_tool_has_are_counted_together(sdk: Collected) -> None:
    calls = [call(f"made_up_{number}", call_id=f"c{number}") for number in range(50)]

    await execute([], calls, interceptors=[sdk.telemetry()])

    counted = sdk.counted("spindle.tool.outcomes", "gen_ai.tool.name", "spindle.outcome.code")
    assert counted == {("_OTHER", "not_available"): 50}


async def test_bytes_in_and_out_and_trims_are_counted(sdk: Collected) -> None:
    calls = [call("give", '{"a":1}'), call("give", '{"a":2}', "c2")]

    await execute([giving("x" * 1_000)], calls, budget=Budget(chars=1_200), interceptors=[sdk.telemetry()])

    assert sdk.counted("spindle.tool.arguments.size", "gen_ai.tool.name") == {("give",): 14}
    assert sdk.counted("spindle.tool.result.size", "gen_ai.tool.name") == {("give",): 2_000}
    assert sdk.counted("spindle.tool.result.trims", "gen_ai.tool.name") == {("give",): 2}


async def test_threads_left_behind_can_be_read(sdk: Collected) -> None:
    begun, let_go = threading.Event(), threading.Event()

    def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        begun.set()
        let_go.wait(30)

    executor = Executor(ToolRegistry([make("hang", hang)]))
    observe_threads(executor, meter_provider=sdk.meters)
    try:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as caller:
                caller.start_soon(executor.execute_parallel, [call("hang")], ToolContext())
                await anyio.to_thread.run_sync(begun.wait)
                caller.cancel_scope.cancel()
        assert sdk.counted("spindle.executor.abandoned_threads") == {(): 1}
    finally:
        let_go.set()


async def test_reading_threads_does_not_keep_an_executor_alive(sdk: Collected) -> None:
    observe_threads(Executor(ToolRegistry()), meter_provider=sdk.meters)
    gc.collect()

    assert sdk.counted("spindle.executor.abandoned_threads") == {}
