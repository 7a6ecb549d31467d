"""A batch through the executor, against `asyncio.gather` of the bare handlers in the same run."""

import asyncio
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from benchmarks.harness import Benchmark
from spindle import Call, Executor, ToolContext, ToolRegistry, tool

ARGS = b'{"customer":"alice","limit":5,"tags":["new","paid"]}'


class Arguments(BaseModel):
    customer: str
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    tags: list[str] = []


async def bare(args: Arguments) -> str:
    return args.customer


@tool
async def search_orders(
    customer: str,
    limit: Annotated[int, Field(ge=1, le=100)] = 10,  # noqa: ARG001
    tags: list[str] = [],  # noqa: ARG001, B006
) -> str:
    """Find a customer's orders."""
    return customer


@tool
async def nap(n: int) -> int:
    """Sleep for ten milliseconds."""
    await asyncio.sleep(0.01)
    return n


validate_json = TypeAdapter(Arguments).validator.validate_json
executor = Executor(ToolRegistry([search_orders, nap]))
wide = Executor(ToolRegistry([nap]), concurrency=1_000)
ctx = ToolContext(session_id="bench")


def batch_of(count: int, name: str = "search_orders") -> list[Call]:
    return [Call(f"c{i}", name, ARGS if name == "search_orders" else f'{{"n":{i}}}') for i in range(count)]


async def single_floor() -> str:
    return await bare(validate_json(ARGS))


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
