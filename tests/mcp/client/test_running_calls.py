"""A question that a server asks a person is a gate of its call, and declined if there is no one to answer."""

import json
from collections.abc import Callable
from contextvars import Context
from typing import Any

import anyio
import pytest

from spindle import Call as SpindleCall
from spindle import DispatchContext, Events, Ok, ToolContext, TurnRunner
from spindle.mcp.client.running_calls import RunningCall, RunningCalls
from tests.mcp.upstreams import call, calls, connected, hostile

pytestmark = pytest.mark.anyio


async def answered(settle: Callable[[Any, Any], None]) -> tuple[Any, Any]:
    """Run a call that asks inside a turn, where `settle(runner, gate)` answers; gives the text and the gate."""
    seen: list[Any] = []
    async with connected(hostile()) as servers:

        async def callback(ctx: DispatchContext) -> Any:
            records = ctx.tool_calls
            return "done" if records else [SpindleCall("c1", "mcp__h__ask", {})]

        runner = TurnRunner(executor_callback=callback, tools=servers.registry)

        def on_gate(info: Any) -> None:
            seen.append(info)
            settle(runner, info)

        runner.on("turn_gate_open", on_gate)
        report = await runner.run()
    return json.loads(report.tool_calls[0].results), seen[0]


async def test_an_answer_goes_back_to_the_server() -> None:
    text, gate = await answered(lambda runner, gate: runner.gates.resolve(gate.id, {"name": "Ada"}))

    assert text == {"action": "accept", "content": {"name": "Ada"}}
    assert (gate.payload["server"], gate.payload["tool"]) == ("h", "ask")
    assert gate.payload["schema"]["required"] == ["name"]
    assert "Your name?" in gate.reason


async def test_a_refusal_is_a_decline() -> None:
    text, _ = await answered(lambda runner, gate: runner.gates.reject(gate.id, PermissionError("no")))

    assert text == {"action": "decline"}


async def test_a_gate_that_is_given_up_is_a_cancel() -> None:
    text, _ = await answered(lambda runner, gate: runner.gates.abort(gate.id))

    assert text == {"action": "cancel"}


async def test_a_question_is_declined_when_no_user_can_answer() -> None:
    async with connected(hostile()) as servers:
        outcome = await call(servers, "mcp__h__ask")

    assert isinstance(outcome.result, Ok)
    assert json.loads(outcome.result.value) == {"action": "decline"}


async def test_a_question_that_could_be_another_sessions_is_declined() -> None:
    asked: list[Any] = []

    async def open_gate(gate: Any) -> Any:
        asked.append(gate)
        return {"name": "Eve"}

    async with connected(hostile()) as servers:
        eve = ToolContext("eve", open_gate=open_gate)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: calls(servers, ("mcp__h__hang", {}), ctx=eve))
            await anyio.wait_all_tasks_blocked()
            outcome = await call(servers, "mcp__h__ask", ctx=ToolContext("ada"))
            group.cancel_scope.cancel()

            assert isinstance(outcome.result, Ok)
            assert json.loads(outcome.result.value) == {"action": "decline"}
    assert not asked


async def test_a_question_ends_with_its_call() -> None:
    asked, ended = anyio.Event(), anyio.Event()

    async def open_gate(gate: Any) -> Any:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with connected(hostile()) as servers, anyio.create_task_group() as caller:
        ctx = ToolContext(events=Events(), open_gate=open_gate)
        caller.start_soon(lambda: call(servers, "mcp__h__ask", ctx=ctx))
        await asked.wait()
        caller.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(30):
            await ended.wait()
        assert servers.status()[0].state == "ready"


def test_a_listing_of_spindle_itself_does_not_hide_the_call_that_a_question_belongs_to() -> None:
    running = RunningCalls()
    own = RunningCall("s", "prompts/list", ToolContext(), has_client=False)
    asking = RunningCall("s", "t", ToolContext(session_id="a", turn_id="1"))
    other = RunningCall("s", "t", ToolContext(session_id="b", turn_id="1"))

    with running.track(asking), running.track(own):
        assert find_without_context(running) is asking
        with running.track(other):
            assert find_without_context(running) is None
    with running.track(own):
        assert find_without_context(running) is None


def find_without_context(running: RunningCalls) -> RunningCall | None:
    """Look for the call as the reader of a pipe does, whose context has none."""
    return Context().run(running.find_for_question)
