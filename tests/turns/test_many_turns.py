"""A thousand turns at once over one runner: nothing leaks between them, and nothing stays."""

import gc
import tracemalloc
from typing import Any

import anyio
import pytest

from spindle import Call, ToolContext, TurnRunner, tool
from spindle.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

TURNS = 1_000


def tools() -> list[Any]:
    def make(number: int) -> Any:
        @tool(name=f"tool_{number}")
        async def echo(text: str, ctx: ToolContext) -> str:
            """Echo."""
            return f"{text} {ctx.stash.get('number')}"

        return echo

    return [make(number) for number in range(200)]


def ask(ctx: Any) -> list[Call]:
    number = ctx.stash.get("number")
    ctx.tools.unregister(f"tool_{(number + 1) % 200}")
    return [Call("c1", f"tool_{number % 200}", {"text": f"{number}"})]


def tell(ctx: Any) -> str:
    assert len(ctx.tools) == 199
    return str(ctx.tool_calls[0].results)


async def run_many(runner: TurnRunner, turns: int = TURNS) -> dict[int, str]:
    texts: dict[int, str] = {}

    async def one(number: int) -> None:
        texts[number] = (await runner.run(stash={"number": number})).text

    with anyio.fail_after(50):
        async with anyio.create_task_group() as group:
            for number in range(turns):
                group.start_soon(one, number)
    return texts


async def test_a_thousand_turns_share_a_baseline_and_nothing_else() -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(ask, tell), tools=tools())

    assert await run_many(runner) == {number: f"{number} {number}" for number in range(TURNS)}


async def test_memory_returns_to_its_base() -> None:
    model = ScriptedModel(ask, tell)
    runner = TurnRunner(executor_callback=model, tools=tools())
    await run_many(runner, 200)
    model.seen.clear()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await run_many(runner, 200)
        model.seen.clear()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert (after - before) / 200 < 200, "each turn leaves something behind"
