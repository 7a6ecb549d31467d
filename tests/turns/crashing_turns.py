"""Runs as a program: `backend folder die_at action` runs or resumes the turn of a folder, and dies at a chosen point.

In the folder, `asked` has a line for each request to the model, `ran` one for each effect, `state` the turn's state
once it is suspended, and `report` its status and text once it has ended. `die_at` is such as `model 0`, `before 1` or
`after 3`; `never` lets the process live.
"""

import json
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

from spindle import Call, DispatchContext, Journal, Spool, ToolContext, TurnReport, TurnRunner, tool

KEY = "a state key for tests"
TURN = "turn 1"
"""The model requests notes 1 and 2 together, then 3 and 4 one by one; 4 needs approval. Then it answers."""


def build_runner(folder: Path, die_at: str = "never", **settings: Any) -> TurnRunner:
    """Build the runner of the story; every process has another one."""

    def reach(point: str) -> None:
        if point == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(name: str, line: str) -> None:
        with (folder / name).open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())

    async def note(n: int, *, ctx: ToolContext) -> str:
        """Note a number."""
        reach(f"before {n}")
        write("ran", str(n))
        await anyio.sleep(0.002)
        ctx.stash.set("last", n)
        reach(f"after {n}")
        return f"noted {n}"

    def request(name: str, n: int) -> Call:
        return Call(secrets.token_hex(4), name, {"n": n})  # another id each time, as a real model does it

    async def model(ctx: DispatchContext) -> Any:
        done = len(ctx.tool_calls)
        write("asked", str(done))
        reach(f"model {done}")
        replies: dict[int, list[Call]] = {
            0: [request("note", 1), request("note", 2)],
            2: [request("note", 3)],
            3: [request("guarded", 4)],
        }
        return replies.get(done, "done")

    tools = [tool(note), tool(name="guarded", requires_approval=True)(note)]
    facts: dict[str, Any] = {
        "tools": tools,
        "journal": Journal.sqlite(folder / "journal.db"),
        "spool": Spool.files(folder / "spool"),
        "state_key": KEY,
        "on_wait": "suspend",
    }
    return TurnRunner(executor_callback=model, **(facts | settings))


async def act(folder: Path, die_at: str, action: str) -> TurnReport:
    """Run the turn, resume it after a crash, or resume its state with every question answered by yes."""
    runner = build_runner(folder, die_at)
    if action == "run":
        report = await runner.run(messages=["go"], turn_id=TURN)
    elif action == "continue":
        report = await runner.resume(turn_id=TURN)
    else:
        state = json.loads((folder / "state").read_text())
        report = await runner.resume(state, {each["id"]: True for each in state["pending"]})
    if report.state is not None:
        (folder / "state").write_text(json.dumps(report.state))
    (folder / "report").write_text(f"{report.status} {report.text}")
    return report


if __name__ == "__main__":
    signal.alarm(90)  # no process may be left behind
    _, backend_name, place, point, what = sys.argv
    anyio.run(act, Path(place), point, what, backend=backend_name)
