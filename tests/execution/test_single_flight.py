"""Equal calls of tools that change nothing run once in a batch, and each has its own answer."""

from typing import Any

import pytest

from spindle import Events, Executor, Tool, ToolContext, ToolRegistry
from tests.execution.calling import call, err, execute, make, ok

pytestmark = pytest.mark.anyio


async def test_equal_calls_of_a_read_only_tool_run_once_and_all_are_answered() -> None:
    starts: list[Any] = []
    events = Events()
    events.on("tool_execution_start", starts.append)

    def tool(name: str, **options: Any) -> Tool:
        async def look(args: Any, ctx: ToolContext, _meta: Any) -> str:
            return f"{args} for {ctx.tool_call_id}"

        return make(name, look, **options)

    calls = [
        call("look", '{"a": 1, "b": 2}', call_id="1"),
        call("look", {"b": 2, "a": 1}, call_id="2"),
        call("look", {"a": 1}, call_id="3"),
        call("change", {"a": 1}, call_id="4"),
        call("change", {"a": 1}, call_id="5"),
        call("look2", {"a": 1}, call_id="6"),
    ]
    tools = [tool("look", read_only=True), tool("look2", read_only=True), tool("change", idempotent=True)]

    outcomes = await execute(tools, calls, ctx=ToolContext(events=events))

    assert sorted(start.tool_call_id for start in starts) == ["1", "3", "4", "5", "6"]
    assert [outcome.tool_call_id for outcome in outcomes] == ["1", "2", "3", "4", "5", "6"]
    assert ok(outcomes[0]).value == ok(outcomes[1]).value
    assert outcomes[0].checksum == outcomes[1].checksum
    assert [outcome.attempts for outcome in outcomes] == [1, 0, 1, 1, 1, 1]


async def test_equal_calls_share_a_failure_as_well() -> None:
    runs: list[int] = []

    async def fail(_args: Any, _ctx: Any, _meta: Any) -> str:
        runs.append(1)
        raise ValueError

    outcomes = await execute([make("fail", fail, read_only=True)], [call("fail", call_id=str(n)) for n in range(4)])

    assert [err(outcome).code for outcome in outcomes] == ["execution_failed"] * 4
    assert len(runs) == 1


async def test_equal_calls_of_different_batches_each_run() -> None:
    runs: list[int] = []

    async def look(_args: Any, _ctx: Any, _meta: Any) -> str:
        runs.append(1)
        return "seen"

    executor = Executor(ToolRegistry([make("look", look, read_only=True)]))
    for _ in range(2):
        await executor.execute_parallel([call("look")], ToolContext())

    assert len(runs) == 2
