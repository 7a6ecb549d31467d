"""A batch through the executor, against `asyncio.gather` of the bare handlers in the same run."""

import asyncio
import atexit
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bench_tool import GOOD, search_orders
from benchmarks.bench_tool import floor as single_floor
from benchmarks.harness import Benchmark
from spindle import Call, Executor, Spool, ToolContext, ToolRegistry, tool


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


def executed_in_tens(count: int) -> Any:
    calls = batch_of(count)

    async def ten_batches() -> None:
        for _ in range(10):
            await executor.execute_parallel(calls, ctx)

    return ten_batches


async def naps() -> None:
    await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(1_000)))


async def limited_naps() -> None:
    slots = asyncio.Semaphore(64)

    async def one() -> None:
        async with slots:
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(800)))


STORM = batch_of(800, "nap")


async def storm() -> None:
    await executor.execute_parallel(STORM, ctx)


@tool
def doze(n: int) -> int:
    """Block a thread for half a second."""
    time.sleep(0.5)
    return n


pool = ThreadPoolExecutor(64)
sleepy = Executor(ToolRegistry([doze]))
DOZES = batch_of(60, "doze")


async def pooled_dozes() -> None:
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(pool, time.sleep, 0.5) for _ in range(60)))


async def executed_dozes() -> None:
    await sleepy.execute_parallel(DOZES, ctx)


LARGE = "".join(f"{number:09d} a line of a large result\n" for number in range(280_000))
folder = TemporaryDirectory(prefix="spindle-bench-")
atexit.register(folder.cleanup)


@tool
async def large() -> str:
    """Give ten megabytes."""
    return LARGE


keeping = Executor(ToolRegistry([large]), spool=Spool.files(f"{folder.name}/spool"))


def write_large() -> None:
    with Path(folder.name, "plain").open("wb") as file:
        file.write(LARGE.encode())
        file.flush()
        os.fsync(file.fileno())


async def keep_large() -> None:
    await keeping.execute_parallel([Call("large", "large")], ctx)


NAPS = batch_of(1_000, "nap")


async def executed_naps() -> None:
    await wide.execute_parallel(NAPS, ctx)


BENCHMARKS = [
    Benchmark(
        name="a batch of one / one bare call",
        floor=single_floor,
        subject=executed(1),
        aim=12,
        clock="cpu",
        note="No single part stands out: 1,950 bytecodes in 53 frames. Admission has 24 % of them (two fifths of that "
        "to build the call's state and context), the layers around the handler 23 %, the supervised task and its "
        "worker 22 %, the batch 20 %, budget and outcome 9 %. The aim would leave about 900. On a busy machine the "
        "ratio is higher by half, because longer code suffers more from shared caches. Not tried: no task, slot and "
        "context of its own for a call that ends in its first step, which would give the guarantees of supervision a "
        "second path.",
    ),
    Benchmark(name="a batch of 200 / asyncio.gather of bare calls", floor=gathered(200), subject=executed(200), aim=5),
    Benchmark(
        name="a batch of 1,000 / asyncio.gather of bare calls", floor=gathered(1_000), subject=executed(1_000), aim=5
    ),
    Benchmark(
        name="a batch of 10,000 / ten batches of 1,000",
        floor=executed_in_tens(1_000),
        subject=executed(10_000),
        aim=1.2,
    ),
    Benchmark(name="1,000 naps of 10 ms, the cap lifted / asyncio.gather", floor=naps, subject=executed_naps),
    Benchmark(name="800 naps of 10 ms under a cap of 64 / a semaphore", floor=limited_naps, subject=storm),
    Benchmark(
        name="60 sync calls of 0.5 s / a thread pool of the same size",
        floor=pooled_dozes,
        subject=executed_dozes,
        aim=2.4,
    ),
    Benchmark(
        name="a 10 MB result spooled and shown in part / written to disk",
        floor=write_large,
        subject=keep_large,
        aim=3,
        note="Most of it is waiting: of 105 to 138 ms on a busy machine, 18 are CPU time (of the floor 6 of 41), "
        "23 to 40 the syncs of data, note and folder where the floor has one, 7 to 24 the ten pieces that are written "
        "and whose lines are counted (4 to 9). The rest are the changes between the event loop and threads, about "
        "one for each piece. Not tried: one piece for a text that is in memory.",
    ),
]
