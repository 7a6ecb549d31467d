"""Approval of a call by the user of an MCP client."""

import json
from typing import Any, Final

from spindle.errors import GateAbortedError, GateTimeoutError
from spindle.execution.approval import ApprovalRequest
from spindle.trust.envelope import one_line
from spindle.turns.gate import Gate

APPROVAL_SECONDS: Final = 600
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Run it?", "default": False}},
    "required": ["approve"],
}


async def approve_by_gate(request: ApprovalRequest) -> bool | str:
    """Ask the user whether the call may run; a text says why not."""
    shown = json.dumps(request.args, ensure_ascii=False, default=str)
    question = f"Run {request.tool.name} with {one_line(shown, 2_000)}?"
    gate = Gate("approval", {"question": question}, schema=_SCHEMA, timeout_seconds=APPROVAL_SECONDS)
    try:
        answer = await request.ctx.wait_for(gate)
    except PermissionError:
        return False
    except GateAbortedError:
        return "the user closed the question"
    except GateTimeoutError:
        return "nobody answered in time"
    return answer["approve"] is True
