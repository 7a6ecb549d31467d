"""A call that asks the client's user: the tool gets exactly what the user did."""

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client

from spindle import Executor, Gate, ToolContext, ToolRegistry, tool
from spindle.errors import GateAbortedError
from spindle.mcp.server.tool_server import ToolServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize(
    ("action", "expected"), [("decline", PermissionError), ("cancel", GateAbortedError)], ids=["declined", "closed"]
)
async def test_a_tool_learns_how_its_question_was_declined(mode: str, action: Any, expected: type) -> None:
    raised: list[Exception] = []

    @tool
    async def needy(*, ctx: ToolContext) -> str:
        """Ask, and note what comes of it."""
        try:
            await ctx.wait_for(Gate("why", timeout_seconds=60))
        except Exception as error:
            raised.append(error)
            raise
        return "answered"

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action=action)

    registry = ToolRegistry([needy])
    server = ToolServer(Executor(registry), registry)
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=mode, elicitation_callback=answer) as client:
            result = await client.call_tool("needy", {})

    assert result.is_error
    assert [type(error) for error in raised] == [expected]
