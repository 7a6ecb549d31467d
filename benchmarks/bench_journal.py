"""A journalled batch of 200 calls against the same batch without a journal, in the same run."""

import asyncio
import atexit
import os
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bench_tool import GOOD, search_orders
from benchmarks.durable_stores import find_missing_postgres, start_postgres
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


@cache
def in_postgres() -> Executor:
    return Executor(registry, journal=Journal.postgres(start_postgres()))


async def execute_in_postgres(calls: list[Call]) -> None:
    await in_postgres().execute_parallel(calls, ctx)


def trivial() -> list[Call]:
    """New calls each time: what is in the journal already would not run again."""
    return [Call(f"c{next(ids)}", "search_orders", GOOD) for _ in range(CALLS)]


def one() -> list[Call]:
    return [Call(f"c{next(ids)}", "search_orders", GOOD)]


def sync_disk(_: object) -> None:
    """Append a little to a file beside the journal and wait for the disk: what any durable record costs at least."""
    handle = os.open(Path(folder.name) / "synced", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, b"x" * 200)
        os.fsync(handle)
    finally:
        os.close(handle)


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
        name="200 calls of 10 ms each, with a PostgreSQL journal / without",
        floor=executed_by(plain),
        subject=execute_in_postgres,
        setup=requests,
        missing=find_missing_postgres,
    ),
    Benchmark(
        name="one call that does nothing, with a SQLite journal / one sync of the disk",
        floor=sync_disk,
        subject=executed_by(on_disk),
        setup=one,
    ),
    Benchmark(
        name="one call that does nothing, with a PostgreSQL journal / one sync of the disk",
        floor=sync_disk,
        subject=execute_in_postgres,
        setup=one,
        missing=find_missing_postgres,
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
        name="200 calls that do nothing, with a PostgreSQL journal / without",
        floor=executed_by(plain),
        subject=execute_in_postgres,
        setup=trivial,
        clock="cpu",
        missing=find_missing_postgres,
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
