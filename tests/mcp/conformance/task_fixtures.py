"""The tools that the scenarios of the conformance suite about tasks call; served with `task_after_seconds = 0.5`."""

from typing import Any

import anyio
from fixtures import NAME, SECONDS, answer_to

from spindle import Err, Gate, ToolContext, tool
from spindle.errors import ClientCapabilityError
from spindle.mcp.client_requests import ask_all, can_ask, roots

SLOW = 1.0
"""Seconds after which every call here is a task."""


@tool
def greet(name: str) -> str:
    """Greet at once."""
    return f"Hello, {name}!"


@tool
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some time."""
    await anyio.sleep(seconds)
    return f"computed {label} for {seconds:g} s"


@tool
async def failing_job(*, ctx: ToolContext) -> Err:
    """Fail after a while; for clients with tasks only."""
    if not can_ask(ctx, "tasks"):
        raise ClientCapabilityError("this tool needs a client with tasks", capability="tasks", tool="failing_job")
    await anyio.sleep(SLOW)
    return Err("execution_failed", "the job failed")


@tool
async def protocol_error_job(*, ctx: ToolContext) -> str:
    """Need what the client has not declared, which is an error of the protocol."""
    await anyio.sleep(SLOW)
    return str(await roots(ctx))


@tool
async def confirm_delete(filename: str, *, ctx: ToolContext) -> str:
    """Ask after a while."""
    await anyio.sleep(SLOW)
    answer = await answer_to(ctx, "confirm", f"Delete {filename}?", {"confirm": {"type": "boolean"}})
    return f"deleted: {answer['confirm']}"


@tool
async def multi_input(*, ctx: ToolContext) -> str:
    """Ask for two things at once after a while."""
    await anyio.sleep(SLOW)
    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": []}
    gates = [Gate(name, {"question": name}, schema=schema, timeout_seconds=SECONDS) for name in ("first", "second")]
    return str(await ask_all(ctx, gates))


@tool
async def test_tool_with_task(*, ctx: ToolContext) -> str:
    """Ask at once, and then take some time."""
    answer = await answer_to(ctx, "user_name", "What is your name?", NAME)
    await anyio.sleep(SLOW)
    return f"Hello, {answer['name']}!"


TOOLS = [
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
    confirm_delete,
    multi_input,
    test_tool_with_task,
]
