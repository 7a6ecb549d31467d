"""A process that runs batches for the suite with an executor and a journal of its own: requests and replies as lines.

python -m tests.engines.embedded_host FOLDER CONCURRENCY
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from spindle import Call, Executor, Journal, Spool, ToolContext, ToolRegistry
from spindle.execution import LocalTransport
from spindle.testing.engine_suite import VARIANT, SuiteReply, TurnReply, build_tools, build_turn_runner
from tests.turns.local_engine import LocalEngine

STATE_KEY = "the state key of the engine suite"


def write(answer: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


async def main(folder: Path, concurrency: int) -> None:
    """Answer the requests of standard input until it is closed."""
    worker_tools = ToolRegistry(build_tools())
    os.environ.pop(VARIANT, None)  # the caller's tools are always the first version
    async with Journal.sqlite(folder / "journal.sqlite") as journal, anyio.create_task_group() as tasks:
        executor = Executor(
            ToolRegistry(build_tools()),
            transport=LocalTransport(worker_tools),
            journal=journal,
            spool=Spool.files(folder / "spool"),
            concurrency=concurrency,
            timeout_seconds=150,
            state_key=STATE_KEY,
        )
        parts: dict[str, Any] = {
            "tools": build_tools(),
            "journal": journal,
            "spool": Spool.files(folder / "spool"),
            "state_key": STATE_KEY,
        }
        runner = build_turn_runner(engine=LocalEngine(lambda: build_turn_runner(**parts)), **parts)
        scopes: dict[int, anyio.CancelScope] = {}

        async def answer(request: dict[str, Any]) -> None:
            with scopes.setdefault(request["id"], anyio.CancelScope()) as scope:
                if "turn" in request:
                    report = await runner.run(messages=[request["turn"]], turn_id=request["turn_id"])
                    replies = [asdict(TurnReply.from_report(report))]
                elif "state" in request:
                    report = await runner.resume(request["state"], request["answers"])
                    replies = [asdict(TurnReply.from_report(report))]
                elif "ticket" in request:
                    replies = [asdict(SuiteReply.from_outcome(await executor.resume(request["ticket"])))]
                else:
                    calls = [Call(*each) for each in request["calls"]]
                    outcomes = await executor.execute_parallel(calls, ToolContext(session_id=request["session_id"]))
                    replies = [asdict(SuiteReply.from_outcome(outcome)) for outcome in outcomes]
                write({"id": request["id"], "replies": replies})
            if scope.cancelled_caught:
                write({"id": request["id"], "replies": []})

        sys.stdout.write("Taking calls of this process\n")
        sys.stdout.flush()
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            request = json.loads(line)
            if "cancel" in request:
                scopes.setdefault(request["cancel"], anyio.CancelScope()).cancel()
            else:
                tasks.start_soon(answer, request)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
