import json
import logging
from typing import Any

import pytest

from spindle import Call, Events, Executor, ToolContext, ToolRegistry, tool
from spindle.telemetry.logs import log_events

pytestmark = pytest.mark.anyio


@tool(secret_fields=["token"])
def login(user: str, token: str, ctx: ToolContext) -> str:
    """Log in."""
    ctx.progress("half", 50)
    return "in"


async def lines(caplog: pytest.LogCaptureFixture, *calls: Call) -> list[dict[str, Any]]:
    events = Events()
    stop = log_events(events)
    with caplog.at_level(logging.DEBUG, "spindle.events"):
        executor = Executor(ToolRegistry([login]))
        await executor.execute_parallel(calls, ToolContext(events=events, turn_id="t1"))
        stop()
        await executor.execute_parallel(calls, ToolContext(events=events))
    return [record.__dict__["event"] for record in caplog.records if record.name == "spindle.events"]


async def test_each_event_is_one_line_with_the_calls_id(caplog: pytest.LogCaptureFixture) -> None:
    written = await lines(caplog, Call("c1", "login", {"user": "ada", "token": "hunter2"}))

    assert [each["name"] for each in written] == ["tool_execution_start", "tool_progress", "tool_execution_end"]
    assert {each["tool_call_id"] for each in written} == {"c1"}
    assert {each["turn_id"] for each in written} == {"t1"}
    assert written[2]["is_error"] is False


async def test_secret_fields_are_masked_and_every_line_is_json(caplog: pytest.LogCaptureFixture) -> None:
    calls = [Call(user, "login", {"user": user, "token": "hunter2"}) for user in ("ada", "a" * 900)]
    calls.append(Call("c3", "login", {"user": "a" * 9_000, "token": "hunter2"}))
    written = await lines(caplog, *calls)
    text = json.dumps(written)

    assert "hunter2" not in text
    assert "***" in text
    assert len(text) < 20_000
