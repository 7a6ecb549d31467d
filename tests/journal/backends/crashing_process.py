"""Runs as a program: `start PATH` forks a process that journals calls until it is killed, `wait PID` waits for its end.

It answers with the process id. Each process appends what it knows to be true to the file `<path>.said`, as lines
`<kind> <name>`: `i` before a call is begun, `b` after, `f` once its outcome is written, `x` if the journal says that a
running call of a live process is not running.

A process also begins calls that all others begin too, named `shared.N`: only one of them may run each, which it says
with a line `w shared.N PID`.
"""

import os
import signal
import sys
from datetime import UTC, datetime
from itertools import count

import anyio

from spindle.journal import FinishedCall, Intent, Journal, idempotency_key

WORKERS = 4


def intent(name: str) -> Intent:
    return Intent(
        tool_call_id=name,
        tool="t",
        checksum="c",
        idempotency_key=idempotency_key("s", "t", name, "c"),
        args={"name": name},
        started_at=datetime.now(UTC),
    )


def finished(call: Intent, text: str) -> FinishedCall:
    return FinishedCall(idempotency_key=call.idempotency_key, ended_at=datetime.now(UTC), result={"value": text})


async def journal_calls(path: str) -> None:
    said = os.open(f"{path}.said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    numbers, me = count(), os.getpid()

    def say(kind: str, *names: str) -> None:
        os.write(said, "".join(f"{kind} {name}\n" for name in names).encode())

    async def work_alone(journal: Journal) -> None:
        while True:
            calls = [intent(f"{me}.{next(numbers)}") for _ in range(3)]
            names = [call.tool_call_id for call in calls]
            say("i", *names)
            await journal.begin(calls)
            say("b", *names)
            found = await journal.find_many([call.idempotency_key for call in calls])
            say("x", *(entry.tool_call_id for entry in found.values() if entry.state != "started"))
            for call, name in zip(calls, names, strict=True):
                await journal.finish([finished(call, name * 50)])
                say("f", name)

    async def work_on_shared(journal: Journal) -> None:
        for number in count():
            call = intent(f"shared.{number}")
            if await journal.begin([call]) == [None]:
                say("w", f"shared.{number} {me}")
                await journal.finish([finished(call, f"{me}")])

    async with Journal.sqlite(path) as journal, anyio.create_task_group() as workers:
        for _ in range(WORKERS):
            workers.start_soon(work_alone, journal)
        workers.start_soon(work_on_shared, journal)


def main() -> None:
    for line in sys.stdin:
        order, _, subject = line.rstrip("\n").partition(" ")
        if order == "wait":
            print(os.waitpid(int(subject), 0)[0], flush=True)  # noqa: T201 - this is how it answers
            continue
        child = os.fork()
        if child == 0:
            signal.alarm(240)  # no process may outlive the test
            anyio.run(journal_calls, subject)
        print(child, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
