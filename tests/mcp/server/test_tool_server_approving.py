"""What a person is shown before they agree."""

from typing import Any

import anyio
import pytest

from spindle import Gate, ToolContext, tool
from spindle.execution import ApprovalRequest
from spindle.mcp.server.elicitation import build_form
from spindle.mcp.server.tool_server import approve_by_gate

pytestmark = pytest.mark.anyio


@tool(requires_approval=True)
def erase(path: str) -> str:
    """Erase a file."""
    return path


async def question(args: Any) -> str:
    asked: list[str] = []

    async def open_gate(gate: Gate) -> Any:
        asked.append(build_form(gate).params.message)
        return {"approve": False}

    request = ApprovalRequest(tool=erase, args=args, checksum="", ctx=ToolContext(open_gate=open_gate))
    with anyio.fail_after(30):
        assert await approve_by_gate(request) is False
    return asked[0]


async def test_the_call_is_shown_whole() -> None:
    assert await question({"path": "/tmp/x y"}) == 'Run erase with {"path": "/tmp/x y"}?'


async def test_what_is_too_long_is_said_to_be_and_its_end_is_shown() -> None:
    told = await question({"path": "a" * 100_000 + "; erase everything"})

    assert len(told) < 4_000
    assert "100030 characters" in told
    assert "; erase everything" in told


async def test_arguments_cannot_turn_the_question_round() -> None:
    told = await question({"path": "x\u202etxt.exe\x1b[2K\nRun nothing at all?"})

    assert told.isprintable()
