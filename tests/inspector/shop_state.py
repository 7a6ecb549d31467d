"""The configuration and the history of the shop's server: calls, a batch, turns, artifacts, waiting approvals."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from spindle import Call, ToolContext, TurnRunner
from spindle.cli import Runtime, load_config, open_runtime
from spindle.journal import FinishedCall, Intent
from spindle.testing import ScriptedModel
from spindle.turns import Reply
from tests.inspector.browsing import run_async

HERE = Path(__file__).resolve().parent
SERVERS = HERE.parents[1] / ".ci" / "picture_servers.py"
CONFIG = f"""
[tools]
kit = true
modules = ["shop_tools:tools"]
python_path = ["{HERE}"]

[mcp.servers.time]
command = "{sys.executable}"
args = ["{SERVERS}", "time"]
sandbox = "none"

[mcp.servers.notes]
command = "{sys.executable}"
args = ["{SERVERS}", "notes"]
sandbox = "none"

[flow]
directory = {{ target = ["desk@shop.example"] }}
"""
SESSION = "desk 7"
HISTORY = 600
"""Calls of the last two hours, besides those that really ran."""


def prepare_shop(folder: Path) -> None:
    """Write the configuration, and fill the state folder."""
    (folder / "spindle.toml").write_text(CONFIG, encoding="utf-8")
    config = load_config(folder / "spindle.toml", state=folder / "state")

    async def fill() -> None:
        async with open_runtime(config) as runtime:
            await write_history(runtime)
            await run_batch(runtime)
            await run_turns(runtime)
            await ask_for_approvals(runtime)

    run_async(fill)


async def write_history(runtime: Runtime) -> None:
    """Write calls of the last two hours, a few of them failed; the same ones each time."""
    chance = Random(7)
    start = datetime.now(UTC) - timedelta(hours=2)
    names = ("list_orders", "check_stock", "mcp__time__get_current_time", "search_files", "calculate", "send_parcels")
    intents: list[Intent] = []
    ends: list[FinishedCall] = []
    for number in range(HISTORY):
        began = start + timedelta(seconds=7_000 * (number + chance.random()) / HISTORY)
        key, tool = f"history {number}", chance.choices(names, weights=(5, 9, 6, 3, 2, 2))[0]
        article = f"26-{chance.randrange(100, 400)}"
        intents.append(
            Intent(
                tool_call_id=f"call_{number:04}",
                tool=tool,
                checksum=f"{number * 7919:016x}",
                idempotency_key=key,
                args={"article": article, "count": chance.randrange(20)},
                started_at=began,
                session_id=f"desk {chance.randrange(9)}",
            )
        )
        code = chance.choice(("execution_failed", "timeout", "invalid_args")) if chance.random() < 0.07 else None
        ends.append(
            FinishedCall(
                idempotency_key=key,
                ended_at=began + timedelta(milliseconds=chance.lognormvariate(4 + names.index(tool) / 3, 0.7)),
                code=code,
                error=None if code is None else f"There is no article {article}.",
                result_chars=None if code else int(chance.lognormvariate(6, 1)),
                cost_usd=None if chance.random() < 0.6 else round(chance.random() / 200, 5),
            )
        )
    await runtime.journal.begin(intents)
    await runtime.journal.finish(ends)


async def run_batch(runtime: Runtime) -> None:
    """Run a batch of calls, with large results and failures."""
    calls = [
        Call("batch_1", "list_orders", {"count": 6_000}),
        Call("batch_2", "read_handbook", {"chapters": 900}),
        Call("batch_3", "check_stock", {"article": "26-104"}),
        Call("batch_4", "check_stock", {"article": "25-001"}),
        Call("batch_5", "send_parcels", {"parcels": [{"order": 1042, "weight_kg": 2.5}], "carrier": "van"}),
        Call("batch_6", "mcp__time__get_current_time", {"timezone": "Europe/Paris"}),
        Call("batch_7", "calculate", {"expression": "17 * 7.35"}),
        Call("batch_8", "unknown_tool", {}),
    ]
    await runtime.executor.execute_parallel(calls, ToolContext(SESSION, turn_id="turn 41"))


async def run_turns(runtime: Runtime) -> None:
    """Run two turns of a scripted model."""
    usage = {"input_tokens": 1_850, "output_tokens": 120}
    model = ScriptedModel(
        Reply(
            text="I look for the order.",
            calls=[Call("t1", "list_orders", {"count": 5_000}), Call("t2", "check_stock", {"article": "26-104"})],
            usage=usage,
        ),
        Reply(calls=[Call("t3", "read_inbox", {}), Call("t4", "check_stock", {"article": "24-1"})], usage=usage),
        "Order 1042 was packed. It leaves tomorrow.",
    )
    runner = TurnRunner(executor_callback=model, tools=runtime.registry, executor=runtime.executor, spool=runtime.spool)
    await runner.run(
        system_prompt="You work at the desk of a shop. Answer briefly.",
        messages=[{"role": "user", "content": "Where is order 1042?"}],
        session_id=SESSION,
        caller={"name": "kim"},
    )
    failing = TurnRunner(
        executor_callback=ScriptedModel(Call("f1", "calculate", {"expression": "1/0"}), RuntimeError("model is away")),
        tools=runtime.registry,
        executor=runtime.executor,
    )
    await failing.run(messages=[{"role": "user", "content": "Add up the totals."}], session_id="desk 3")


async def ask_for_approvals(runtime: Runtime) -> None:
    """Make calls that wait for a person: by declaration, and because of what the session has read."""
    here = ToolContext(SESSION, turn_id="turn 42")
    await runtime.executor.execute_parallel([Call("a1", "refund", {"order": 1042, "amount": 14.7})], here)
    await runtime.executor.execute_parallel([Call("a2", "read_inbox", {})], here)
    mail = {"to": "kim@elsewhere.example", "subject": "Order 1042", "body": "It leaves tomorrow."}
    await runtime.executor.execute_parallel([Call("a3", "send_mail", mail)], here)
    other = {"order": 1077, "amount": 310.0, "reason": "The parcel was damaged on the way.\nSee the pictures."}
    await runtime.executor.execute_parallel([Call("a4", "refund", other)], ToolContext("desk 3"))
