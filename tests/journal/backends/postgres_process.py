"""Runs as a program: a process with a PostgreSQL journal that does what each line of its input says.

It answers each line by one line of JSON. `begin`, `repeat` and `finish` take names of calls, `race` the number of
calls to begin in some order, `fork` leaves a child behind that does nothing.
"""

import asyncio
import json
import logging
import os
import random
import signal
import sys
from typing import Any

import anyio

from spindle.errors import JournalError
from spindle.journal.backends.postgres import PostgresJournalStore
from spindle.journal.entries import JournalEntry
from spindle.journal.journal import Journal
from tests.journal.sample_calls import finished, intent


def reported(entries: list[JournalEntry | None]) -> list[str | None]:
    return [entry and entry.state for entry in entries]


async def race(journal: Journal, count: int) -> list[str]:
    """Begin calls in an order of its own, some together and some alone; gives those that are its to run."""
    names = [f"{number}" for number in range(count)]
    random.shuffle(names)
    won: list[str] = []

    async def begin() -> None:
        while names:
            batch = [names.pop() for _ in range(min(len(names), random.choice([1, 2, 7])))]
            standing = await journal.begin([intent(name) for name in batch])
            won.extend(name for name, entry in zip(batch, standing, strict=True) if entry is None)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(begin)
    return won


def fork() -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # no process may outlive the test
        for number in range(3):
            os.close(number)
        signal.pause()
        os._exit(0)
    return child


async def answer(journal: Journal, command: str, names: list[str]) -> Any:
    match command:
        case "open":
            return states_of(await journal.list())
        case "begin" | "repeat":
            return reported(await journal.begin([intent(name, repeat=command == "repeat") for name in names]))
        case "finish":
            await journal.finish([finished(name, result={"by": os.getpid()}) for name in names])
            return "done"
        case "list":
            return states_of(await journal.list(limit=None))
        case "race":
            return await race(journal, int(names[0]))
        case "close":
            await journal.aclose()
            return "closed"
        case "fork":
            return fork()
        case _:
            raise ValueError(command)


def states_of(entries: list[JournalEntry]) -> dict[str, str]:
    return {entry.tool_call_id: entry.state for entry in entries}


async def main(dsn: str, grace_seconds: float) -> None:
    journal = Journal(PostgresJournalStore(dsn, grace_seconds=grace_seconds))
    async with journal:
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, *names = line.split()
            try:
                said = await answer(journal, command, names)
            except JournalError as error:
                said = {"error": error.code, "field": error.field}
            print(json.dumps(said), flush=True)  # noqa: T201 - this is how it answers


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    signal.alarm(90)  # no process may outlive the test
    anyio.run(main, sys.argv[1], float(sys.argv[2]))
