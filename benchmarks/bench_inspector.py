"""The page in headless Chromium with 100,000 journalled calls and a large artifact, against one with little to show.

A view counts from the start of the navigation until its first rows are painted. The server, the browser and what writes
live calls share the machine, so a busy one shows here; the floor has the same server and browser.
"""

import atexit
import json
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import anyio

from benchmarks.harness import Benchmark, Reported
from spindle import Spool

CALLS = 100_000
ARTIFACT_BYTES = 1_000_000_000
RATE = 200
LIVE_SECONDS = 5
LINES_IN_BLOCK = 10_000
LONG_TASK_SECONDS = 0.05
"""From which on browsers report a task, because a person notices it."""

folder = TemporaryDirectory(prefix="spindle-bench-")
atexit.register(folder.cleanup)


class Driver:
    """A process with a server and a tab; started on first use, and ended with this one."""

    def __init__(self, place: Path, calls: int) -> None:
        self.state = state = place / "state"
        state.mkdir(parents=True)
        fill = [sys.executable, "-m", "benchmarks.inspector.fill", str(state / "journal.sqlite"), str(calls)]
        subprocess.run(fill, check=True, capture_output=True)
        command = [sys.executable, "-m", "benchmarks.inspector.driver", str(place)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._close)

    def do(self, name: str, *arguments: object) -> Any:
        """Carry out one step and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps([name, *arguments])}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the browser could not do {name!r}")
        return json.loads(line)

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@cache
def get_driver(calls: int) -> Driver:
    """Return the driver of a journal with that many calls; the first view of a browser warms it up."""
    driver = Driver(Path(folder.name) / str(calls), calls)
    driver.do("view", "calls")
    return driver


@cache
def get_live() -> Driver:
    """Return the driver whose tab shows the live list."""
    driver = get_driver(CALLS)
    driver.do("watch")
    driver.do("live", 1, RATE)
    return driver


@cache
def write_artifact(size: int) -> str:
    """Write an artifact of that many bytes into the spool of a server, and return the path of its view."""
    line = f"{'the parcel leaves tomorrow ' * 3}\n"

    async def write() -> None:
        spool = Spool.files(get_driver(0).state / "spool")
        block = line * min(LINES_IN_BLOCK, size // len(line))
        await spool.write(f"bytes_{size}", (block for _ in range(size // len(block))))

    writer = Thread(target=anyio.run, args=(write,))  # an event loop runs in this thread
    writer.start()
    writer.join()
    return f"artifacts/bytes_{size}?tab=lines"


def open_artifact(size: int) -> Reported:
    return Reported(lambda: get_driver(0).do("view", write_artifact(size)))


def view(path: str, calls: int = CALLS) -> Reported:
    return Reported(lambda: get_driver(calls).do("view", path))


def live(fact: str, rate: int) -> Reported:
    return Reported(lambda: get_live().do("live", LIVE_SECONDS, rate)[fact])


def find_missing() -> str | None:
    if find_spec("playwright") is None:
        return "needs playwright, of the group dev"
    from benchmarks.inspector.driver import find_missing as find

    return find()


BENCHMARKS = [
    Benchmark(
        name=f"the page: calls of a journal of {CALLS:,} / of an empty one",
        floor=view("calls", 0),
        subject=view("calls"),
        aim=1.5,
        aim_seconds=1,
        missing=find_missing,
    ),
    Benchmark(
        name=f"the page: a rare tool among {CALLS:,} calls / the newest calls",
        floor=view("calls"),
        subject=view("calls?tool=restore_backup"),
        aim=2,
        aim_seconds=1,
        missing=find_missing,
    ),
    Benchmark(
        name=f"the page: a rare text in {CALLS:,} calls / the newest calls",
        floor=view("calls"),
        subject=view("calls?text=parcel-7e1f"),
        aim=3,
        missing=find_missing,
    ),
    Benchmark(
        name=f"the page: health of a journal of {CALLS:,} / of an empty one",
        floor=view("health", 0),
        subject=view("health"),
        aim=2,
        aim_seconds=1,
        missing=find_missing,
    ),
    Benchmark(
        name="the page: an artifact of 1 GB / of 1 MB",
        floor=open_artifact(ARTIFACT_BYTES // 1000),
        subject=open_artifact(ARTIFACT_BYTES),
        aim=1.5,
        aim_seconds=1,
        missing=find_missing,
    ),
    Benchmark(
        name=f"the page: a frame at {RATE} calls a second / in an idle tab",
        floor=live("frame", 0),
        subject=live("frame", RATE),
        aim=1.25,
        missing=find_missing,
    ),
    Benchmark(
        name=f"the page: the longest task at {RATE} calls a second / one that a person notices",
        floor=Reported(lambda: LONG_TASK_SECONDS),
        subject=live("longest", RATE),
        aim=1,
        missing=find_missing,
    ),
]
