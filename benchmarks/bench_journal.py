"""A journalled batch of 200 calls against the same batch without a journal, in the same run."""

import asyncio
import atexit
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bench_tool import GOOD, search_orders
from benchmarks.harness import Benchmark
from spindle import Call, Executor, Journal, ToolContext, ToolRegistry, tool

CALLS = 200
ids = count()
folder = TemporaryDirectory(prefix="spindle-bench-")
atexit.register(folder.cleanup)


@tool
async def look_up(n: int) -> str:
    """Take as long as a quick network request: ten milliseconds."""
    await asyncio.sleep(0.01)
    return f"number {n}"


registry = ToolRegistry([search_orders, look_up])
plain = Executor(registry)
on_disk = Executor(registry, journal=Journal.sqlite(Path(folder.name) / "journal.db"))
in_memory = Executor(registry, journal=Journal.memory())
ctx = ToolContext(session_id="bench", turn_id="turn")


def trivial() -> list[Call]:
    """New calls each time: what is in the journal already would not run again."""
    return [Call(f"c{next(ids)}", "search_orders", GOOD) for _ in range(CALLS)]


def requests() -> list[Call]:
    return [Call(f"c{next(ids)}", "look_up", f'{{"n":{number}}}') for number in range(CALLS)]


def executed_by(executor: Executor) -> Any:
    async def work(calls: list[Call]) -> None:
        await executor.execute_parallel(calls, ctx)

    return work


NOTE = (
    "A call without a journal has 1,400 bytecodes, a journal adds 1,850: a fifth for checksum and key, a third to "
    "build intent, outcome and their rows as frozen values, a tenth to see that they are small enough to serialize "
    "here, the rest for the states of the batch. SQLite adds 20 µs on the writer's thread, for one insert and one "
    "update, which alone is most of the room that the aim leaves beside 23 µs without a journal. Not tried: rows "
    "without the published values in between; one row for short calls that may be repeated."
)

BENCHMARKS = [
    Benchmark(
        name="200 calls of 10 ms with a SQLite journal / without",
        floor=executed_by(plain),
        subject=executed_by(on_disk),
        setup=requests,
        aim=1.3,
        note="Intents are synced to disk before the first call runs, and outcomes are written before the batch ends: "
        "two waits for the disk, beside 40 ms of calls.",
    ),
    Benchmark(
        name="200 calls that do nothing, with a SQLite journal / without",
        floor=executed_by(plain),
        subject=executed_by(on_disk),
        setup=trivial,
        clock="cpu",
        aim=2,
        note=NOTE,
    ),
    Benchmark(
        name="200 calls that do nothing, with a journal in memory / without",
        floor=executed_by(plain),
        subject=executed_by(in_memory),
        setup=trivial,
        clock="cpu",
        aim=1.5,
        note=NOTE,
    ),
]
