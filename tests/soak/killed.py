"""Runs as a program: for each line of JSON, forks a process that runs batches or turns until it is killed.

It prints `pid N` of each, and `gone N` once that one has died.
"""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import asyncpg  # noqa: F401  # pyright: ignore - these are loaded once here, so that no forked process has to
import trio  # noqa: F401  # pyright: ignore[reportUnusedImport]

from tests.soak import batches, turns

STORIES = {"batches": batches, "turns": turns}
MAX_SECONDS = 300
"""No process may outlive the run."""


def run_story(kind: str, backend: str, folder: str, place: str) -> None:
    signal.alarm(MAX_SECONDS)
    try:
        anyio.run(STORIES[kind].run_until_killed, Path(folder), place, backend=backend)
    except BaseException as error:
        batches.append(Path(folder) / "failed", [repr(error)])
        raise


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run_story(*json.loads(line))
            finally:
                os._exit(1)
        print("pid", child, flush=True)  # noqa: T201 - this is how it answers
        os.waitpid(child, 0)
        print("gone", child, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
