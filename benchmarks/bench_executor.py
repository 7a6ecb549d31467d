"""A batch through the executor, against `asyncio.gather` of the bare handlers in the same run."""

import asyncio
from typing import Any

from benchmarks.bench_tool import GOOD, search_orders
from benchmarks.bench_tool import floor as single_floor
from benchmarks.harness import Benchmark
from spindle import Call, Executor, ToolContext, ToolRegistry, tool


@tool
async def nap(n: int) -> int:
    """Sleep for ten milliseconds."""
    await asyncio.sleep(0.01)
    return n


executor = Executor(ToolRegistry([search_orders, nap]))
wide = Executor(ToolRegistry([nap]), concurrency=1_000)
ctx = ToolContext(session_id="bench")


def batch_of(count: int, name: str = "search_orders") -> list[Call]:
    return [Call(f"c{i}", name, GOOD if name == "search_orders" else f'{{"n":{i}}}') for i in range(count)]


def gathered(count: int) -> Any:
    async def floor() -> None:
        await asyncio.gather(*(single_floor() for _ in range(count)))

    return floor


def executed(count: int) -> Any:
    calls = batch_of(count)

    async def subject() -> None:
        await executor.execute_parallel(calls, ctx)

    return subject


async def naps() -> None:
    await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(1_000)))


NAPS = batch_of(1_000, "nap")


async def executed_naps() -> None:
    await wide.execute_parallel(NAPS, ctx)


BENCHMARKS = [
    Benchmark(name="a batch of one / one bare call", floor=single_floor, subject=executed(1), aim=8),
    Benchmark(name="a batch of 200 / asyncio.gather of bare calls", floor=gathered(200), subject=executed(200), aim=6),
    Benchmark(
        name="a batch of 1,000 / asyncio.gather of bare calls", floor=gathered(1_000), subject=executed(1_000), aim=6
    ),
    Benchmark(name="1,000 naps of 10 ms, the cap lifted / asyncio.gather", floor=naps, subject=executed_naps),
]
