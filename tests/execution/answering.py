"""Runs as a program: answers tickets of the journal at PLACE, and appends what its tool does to a file.

It writes `ready`. For each line of its input, the JSON of the arguments of `Executor.resume`, it writes one: whether
the outcome is ok, its text, its code and its reason. An amount of 0 is paid by a handler that never ends.
"""

import json
import os
import sys
from pathlib import Path

import anyio

from spindle import Executor, Journal, Tool, ToolContext, ToolRegistry, tool

KEY = "the key of all processes"


def open_journal(place: str) -> Journal:
    """A journal in a SQLite file, or in PostgreSQL."""
    return Journal.postgres(place) if place.startswith("postgresql:") else Journal.sqlite(place)


def build_tool(effects: Path) -> Tool:
    """A tool that notes each of its runs."""

    @tool(name="pay", requires_approval=True)
    async def pay(amount: int, *, ctx: ToolContext) -> str:
        """Pay an amount."""
        handle = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{ctx.tool_call_id} {amount}\n".encode())
        os.close(handle)
        if amount == 0:
            await anyio.sleep_forever()
        return f"paid {amount}"

    return pay


def write(line: str) -> None:
    """Write one line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def answer(place: str, effects: Path) -> None:
    """Answer what standard input says."""
    async with open_journal(place) as journal:
        executor = Executor(ToolRegistry([build_tool(effects)]), journal=journal, state_key=KEY)
        write("ready")
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            result = (await executor.resume(**json.loads(line))).result
            said = [True, result.value, None, None] if result.ok is True else [False, "", result.code, result.reason]
            write(json.dumps(said))


if __name__ == "__main__":
    anyio.run(answer, sys.argv[1], Path(sys.argv[2]))
