"""Runs as a program: for each line `path` it is told, forks a process that journals calls until it is killed.

It prints `pid N` of each, and `gone N` once that one has died. A process writes what it knows to be true to the file
`<path>.said`: `i name` before a call is begun, `b name` after, `f name` once its outcome is durable.
"""

import os
import signal
import sys
from datetime import UTC, datetime
from itertools import count

import anyio

from spindle.journal.entries import Finished, Intent, idempotency_key
from spindle.journal.journal import Journal

WORKERS = 4


async def journal_calls(path: str) -> None:
    said = os.open(f"{path}.said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    numbers = count()

    async def work(journal: Journal) -> None:
        while True:
            names = [f"{os.getpid()}.{next(numbers)}" for _ in range(3)]
            keys = [idempotency_key("s", "t", name, "c") for name in names]
            os.write(said, "".join(f"i {name}\n" for name in names).encode())
            await journal.begin(
                [
                    Intent(
                        tool_call_id=name,
                        tool="t",
                        checksum="c",
                        idempotency_key=key,
                        args={"name": name},
                        started_at=datetime.now(UTC),
                    )
                    for name, key in zip(names, keys, strict=True)
                ]
            )
            os.write(said, "".join(f"b {name}\n" for name in names).encode())
            for name, key in zip(names, keys, strict=True):
                await journal.finish(
                    [Finished(idempotency_key=key, ended_at=datetime.now(UTC), result={"value": name * 50})]
                )
                os.write(said, f"f {name}\n".encode())

    async with Journal.sqlite(path) as journal, anyio.create_task_group() as workers:
        for _ in range(WORKERS):
            workers.start_soon(work, journal)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.alarm(90)  # nobody may be left behind
            anyio.run(journal_calls, line.rstrip("\n"))
        print("pid", child, flush=True)  # noqa: T201 - this is how it answers
        os.waitpid(child, 0)
        print("gone", child, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
