"""Small programs that use a journal in a process of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import IO

from tests.bounds import wait_until

_BEGINNING = """
import os, sys, anyio
from spindle import errors
from spindle.journal.journal import Journal
from tests.journal.sample_calls import finished, intent, states
path = sys.argv[1]
"""

ROOT = Path(__file__).resolve().parents[3]


def output_of(source: str, path: Path) -> list[str]:
    """Run a program to its end; gives the lines it printed."""
    done = subprocess.run(_command(source, path), capture_output=True, text=True, timeout=30, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def holding(path: Path) -> Generator[int]:
    """Run a process that has begun the call `held` and has the journal open; gives its pid."""
    source = """
    async def main():
        async with Journal.sqlite(path) as journal:
            await journal.begin([intent("held")])
            print("open", flush=True)
            sys.stdin.read()
    anyio.run(main)
    """
    with subprocess.Popen(
        _command(source, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()
            process.wait(30)


class Workers:
    """Processes that write one journal, and are killed."""

    def __init__(self, process: "subprocess.Popen[str]", path: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout
        self.path = path
        self.alive: list[int] = []
        self.dead: set[int] = set()

    def start(self, count: int) -> None:
        """Start processes."""
        for _ in range(count):
            self.alive.append(self._order(f"start {self.path}"))

    def wait(self, seconds: float) -> None:
        """Let some time pass: not to wait for something, but to kill at any instant."""
        time.sleep(seconds)

    def wait_for_work(self, *, lines: int) -> None:
        """Wait until every live process has begun calls, and all together have printed that many more lines."""
        before = len(self.said())
        wait_until(lambda: len(self.said()) >= before + lines and self._workers() >= set(self.alive))

    def kill(self, count: int) -> None:
        """Kill the oldest processes."""
        pids, self.alive = self.alive[:count], self.alive[count:]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            assert self._order(f"wait {pid}") == pid
        self.dead |= set(pids)

    def said(self) -> list[list[str]]:
        """Return what the processes know; see crashing_process.py."""
        file = Path(f"{self.path}.said")
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def _workers(self) -> set[int]:
        return {int(name.partition(".")[0]) for kind, name, *_ in self.said() if kind == "b"}

    def _order(self, text: str) -> int:
        self._orders.write(f"{text}\n")
        self._orders.flush()
        return int(self._answers.readline())


@contextmanager
def running_workers(path: Path) -> Generator[Workers]:
    """Run the program that starts processes; all of them are killed at the end."""
    program = Path(__file__).with_name("crashing_process.py")
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        workers = Workers(process, path)
        yield workers
        workers.kill(len(workers.alive))


def _command(source: str, path: Path) -> list[str]:
    return [sys.executable, "-c", _BEGINNING + dedent(source), str(path)]
