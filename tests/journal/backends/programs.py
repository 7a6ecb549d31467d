"""Small programs that use a journal in a process of their own."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

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


def _command(source: str, path: Path) -> list[str]:
    return [sys.executable, "-c", _BEGINNING + dedent(source), str(path)]
