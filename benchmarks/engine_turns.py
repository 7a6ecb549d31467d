"""Runs as a program: turns on a worker of an engine, and the same turns in this process, one after the other.

python -m benchmarks.engine_turns ENGINE

Both are saved in one SQLite journal. It prints the seconds of a turn of each round as JSON: `embedded` those of the
turns in this process, `engine` those on the worker.
"""

import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.engine_load import MAX_SECONDS, ROOT, running_engine
from benchmarks.harness import REPORTED_ROUNDS
from spindle import Call, DispatchContext, Journal, Reply, Spool, TurnRunner, tool
from spindle.engines import EngineSettings, open_turns
from spindle.testing.engine_suite import WorkerProcess

NAME = "bench"
TURNS = 5
STATE_KEY = "a state key for benchmarks"


@tool
async def note(number: int) -> str:
    """Note a number."""
    return str(number)


tools = [note]


async def ask(ctx: DispatchContext) -> Reply:
    """Request two calls one after the other, then answer."""
    calls = [Call(f"c{ctx.iteration}", "note", {"number": ctx.iteration})]
    return Reply("done") if ctx.iteration == 2 else Reply(calls=calls)


def build_runner(**shared: Any) -> TurnRunner:
    """Build the runner of the turns, for callers and the worker."""
    return TurnRunner(executor_callback=ask, **shared)


async def start_worker(url: str, folder: Path) -> WorkerProcess:
    config = folder / "spindle.toml"
    config.write_text(
        f'[tools]\nmodules = ["benchmarks.engine_turns:tools"]\npython_path = [{json.dumps(str(ROOT))}]\n'
        f'[engine]\nurl = {json.dumps(url)}\nturns = {{ {NAME} = "benchmarks.engine_turns:build_runner" }}\n'
        f"[journal]\npath = {json.dumps(str(folder / 'journal.sqlite'))}\n"
        f"[spool]\npath = {json.dumps(str(folder / 'spool'))}\n"
    )
    command = [sys.executable, "-m", "spindle.cli.main", "worker", "--config", str(config), "--state", str(folder)]
    return await WorkerProcess.start(command, log=folder / "worker.log", environ={"SPINDLE_STATE_KEY": STATE_KEY})


async def run_turns(runner: TurnRunner) -> float:
    """Run turns one after the other; return the seconds of one."""
    began = time.perf_counter()
    for _ in range(TURNS):
        report = await runner.run(messages=["go"])
        assert report.text == "done", report.error
    return (time.perf_counter() - began) / TURNS


async def measure(engine: str) -> dict[str, list[float]]:
    """Measure both sides in turn, after one round that warms up."""
    seconds: dict[str, list[float]] = {"embedded": [], "engine": []}
    async with AsyncExitStack() as stack, asyncio.timeout(MAX_SECONDS):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spindle-bench-")))
        url = stack.enter_context(running_engine(engine, folder))
        worker = await start_worker(url, folder)
        stack.push_async_callback(worker.kill)
        journal = await stack.enter_async_context(Journal.sqlite(folder / "journal.sqlite"))
        shared = {"tools": tools, "journal": journal, "spool": Spool.files(folder / "spool"), "state_key": STATE_KEY}
        turns = await stack.enter_async_context(open_turns(EngineSettings(url=url), NAME))
        runners = {"embedded": build_runner(**shared), "engine": build_runner(**shared, engine=turns)}
        for round_number in range(REPORTED_ROUNDS + 1):
            for side, runner in runners.items():
                taken = await run_turns(runner)
                if round_number:
                    seconds[side].append(taken)
    return seconds


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1]))))
