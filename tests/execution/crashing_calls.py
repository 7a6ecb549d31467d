"""Runs as a program: for each line `backend folder`, forks a process that executes batches until it is killed.

It prints `pid N` of each, and `gone N` once that one has died. In the folder, `said` has a line `asked ID` for each
call that is about to be handed over, and `answered ID CODE DIGEST` for each outcome that was given back; `ran` has a
line for each time a handler ran.
"""

import os
import signal
import sys
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import trio  # noqa: F401  # pyright: ignore[reportUnusedImport] - once here, so that no forked process has to

from spindle import Budget, Call, CallOutcome, Err, Executor, Journal, Spool, Tool, ToolContext, ToolRegistry

BUDGET = Budget(4_000)
NAMES = ("quick", "slow", "big", "blocking", "idempotent", "nobody", "quick", "slow")


def executor_in(folder: Path, journal: Journal) -> Executor:
    """The tools of this story, whose handlers append to `ran` what they do."""

    def note(ctx: ToolContext) -> None:
        with (folder / "ran").open("ab", buffering=0) as ran:
            ran.write(f"{ctx.tool_call_id}\n".encode())

    async def quick(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        note(ctx)
        return f"done {ctx.tool_call_id}"

    async def slow(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        note(ctx)
        await anyio.sleep(0.03)  # longer than an outcome waits for others, so that siblings are written before
        return f"done {ctx.tool_call_id}"

    async def big(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        note(ctx)
        return f"{ctx.tool_call_id}\n" * 500

    def blocking(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        note(ctx)
        return f"done {ctx.tool_call_id}"

    tools = [_tool(each) for each in (quick, slow, big, blocking)]
    tools.append(_tool(quick, name="idempotent", idempotent=True))
    return Executor(ToolRegistry(tools), journal=journal, spool=Spool.files(folder / "spool"), budget=BUDGET)


def _tool(handler: Any, **options: Any) -> Tool:
    facts: dict[str, Any] = {
        "name": handler.__name__,
        "description": "Part of a story.",
        "input_schema": {"type": "object"},
    }
    return Tool(handler=handler, **(facts | options))


def call_of(call_id: str) -> Call:
    """The call that has an id: `number.tool`, after the process that asked."""
    return Call(call_id, call_id.rsplit(".", 1)[1], {"id": call_id})


def answer_of(outcome: CallOutcome) -> str:
    """What is compared of an outcome: its code, and a digest of what the model is shown."""
    result = outcome.result
    code, text = (result.code, result.error) if isinstance(result, Err) else ("ok", result.value)
    return f"{code} {sha256(text.encode()).hexdigest()}"


async def ask(executor: Executor, ids: Sequence[str]) -> list[CallOutcome]:
    """Ask for calls of the one turn of this story."""
    return await executor.execute_parallel(map(call_of, ids), ToolContext("session", turn_id="turn"))


async def run_batches(folder: Path) -> None:
    """Ask for new calls until killed."""
    said = os.open(folder / "said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    numbers = count()
    async with Journal.sqlite(folder / "journal.db") as journal:
        executor = executor_in(folder, journal)
        while True:
            ids = [f"{os.getpid()}.{next(numbers)}.{name}" for name in NAMES]
            os.write(said, "".join(f"asked {each}\n" for each in ids).encode())
            outcomes = await ask(executor, ids)
            lines = (f"answered {each.tool_call_id} {answer_of(each)}\n" for each in outcomes)
            os.write(said, "".join(lines).encode())


def main() -> None:
    for line in sys.stdin:
        backend, folder = line.rstrip("\n").split(" ", 1)
        child = os.fork()
        if child == 0:
            signal.alarm(90)  # no process may outlive the test
            anyio.run(run_batches, Path(folder), backend=backend)
        print("pid", child, flush=True)  # noqa: T201 - this is how it answers
        os.waitpid(child, 0)
        print("gone", child, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
