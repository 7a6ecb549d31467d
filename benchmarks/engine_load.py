"""Runs as a program: calls through a transport, and the same number of the engine's own jobs, in turn.

python -m benchmarks.engine_load ENGINE WORKERS

It starts a server and two sets of worker processes, and prints the seconds of one call of each round as JSON: `bare`
those of the engine's own jobs, `spindle` those of the calls.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.engine_worker import BARE, tools
from benchmarks.harness import REPORTED_ROUNDS
from spindle import Call, Executor, Spool, ToolContext, ToolRegistry
from spindle.engines import EngineSettings, open_transport
from spindle.testing.engine_suite import WorkerProcess
from tests.engines.temporal_server import running_temporal
from tests.journal.postgres_server import running_server

ROOT = Path(__file__).resolve().parents[1]
CALLS, AT_ONCE = 100, 25
MAX_SECONDS = 240
ids = count()


@contextmanager
def running_engine(engine: str, folder: Path) -> Generator[str]:
    """The address of a server of our own."""
    if engine == "temporal":
        with running_temporal(folder) as server:
            yield server.url
    else:
        with running_server() as database:
            yield "dbos+" + database.dsn().partition("?")[0]


@asynccontextmanager
async def running_workers(url: str, folder: Path, number: int) -> AsyncGenerator[None]:
    """Run as many workers of the engine's own as of ours; those that wait for work cost little."""
    config = folder / "spindle.toml"
    config.write_text(
        f'[tools]\nmodules = ["benchmarks.engine_worker:tools"]\npython_path = [{json.dumps(str(ROOT))}]\n'
        f"[engine]\nurl = {json.dumps(url)}\nconcurrency = {AT_ONCE}\n"
    )
    ours = [sys.executable, "-m", "spindle.cli.main", "worker", "--config", str(config), "--state", str(folder)]
    bare = [sys.executable, "-m", "benchmarks.engine_worker", url, str(AT_ONCE)]
    running: list[WorkerProcess] = []
    try:
        for each in range(number):
            log = folder / f"bare{each}.log"
            running.append(await WorkerProcess.start(bare, log=log, ready="ready"))
            running.append(await WorkerProcess.start(ours, log=folder / f"ours{each}.log"))
        yield
    finally:
        for worker in running:
            await worker.kill()


@asynccontextmanager
async def open_executor(url: str, folder: Path) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """A function that executes a batch on our workers."""
    spool = Spool.files(folder / "spool")
    async with open_transport(EngineSettings(url=url), spool=spool) as transport:
        executor = Executor(ToolRegistry(tools), transport=transport, spool=spool, concurrency=AT_ONCE)

        async def execute() -> None:
            calls = [Call(f"c{next(ids)}", "do_nothing", {"n": number}) for number in range(CALLS)]
            outcomes = await executor.execute_parallel(calls, ToolContext("bench", turn_id="turn"))
            failed = [outcome.result for outcome in outcomes if not outcome.ok]
            assert not failed, failed[0]

        yield execute


@asynccontextmanager
async def open_bare(url: str) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """A function that runs as many jobs of the engine's own as a batch has calls, as many at once."""
    run_one = await connect_to_temporal(url) if url.startswith("temporal:") else connect_to_dbos(url)

    async def run_all() -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def run(number: int) -> None:
            async with slots:
                await run_one({"n": number})

        await asyncio.gather(*map(run, range(CALLS)))

    yield run_all


async def connect_to_temporal(url: str) -> Callable[[dict[str, Any]], Awaitable[None]]:
    from temporalio.client import Client

    client = await Client.connect(url.partition("://")[2])

    # As a call has them: a job that is lost on the way to its worker is handed out again after the second one.
    limits: dict[str, Any] = {
        "start_to_close_timeout": timedelta(seconds=60),
        "heartbeat_timeout": timedelta(seconds=15),
    }

    async def run(message: dict[str, Any]) -> None:
        handle = await client.start_activity(BARE, message, id=f"bare {next(ids)}", task_queue=BARE, **limits)
        await handle.result()

    return run


def connect_to_dbos(url: str) -> Callable[[dict[str, Any]], Awaitable[None]]:
    import dbos

    client = dbos.DBOSClient(
        system_database_url=url.removeprefix("dbos+"),
        serializer=dbos.DBOSPortableJSONSerializer(),
        application_name="spindle",
    )

    async def run(message: dict[str, Any]) -> None:
        options: dbos.EnqueueOptions = {
            "workflow_name": BARE,
            "queue_name": BARE,
            "workflow_id": f"bare {next(ids)}",
            "app_version": BARE,
        }
        handle: dbos.WorkflowHandleAsync[Any] = await client.enqueue_async(options, message)
        await handle.get_result(polling_interval_sec=0.1)

    return run


async def measure(engine: str, workers: int) -> dict[str, list[float]]:
    """Measure both sides in turn, after one round that warms up."""
    seconds: dict[str, list[float]] = {"bare": [], "spindle": []}
    async with AsyncExitStack() as stack, asyncio.timeout(MAX_SECONDS):  # what was started is ended then, too
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spindle-bench-")))
        url = stack.enter_context(running_engine(engine, folder))
        await stack.enter_async_context(running_workers(url, folder, workers))
        works = {
            "bare": await stack.enter_async_context(open_bare(url)),
            "spindle": await stack.enter_async_context(open_executor(url, folder)),
        }
        for round_number in range(REPORTED_ROUNDS + 1):
            for side, work in works.items():
                began = time.perf_counter()
                await work()
                if round_number:
                    seconds[side].append((time.perf_counter() - began) / CALLS)
    return seconds


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))))
