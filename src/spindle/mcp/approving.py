"""Approval of a call by the user of an MCP client."""

import json
from typing import Any, Final

from spindle.errors import GateAbortedError, GateTimeoutError
from spindle.execution.approval import ApprovalRequest
from spindle.trust.envelope import one_line
from spindle.turns.gate import Gate

APPROVAL_SECONDS: Final = 600
MAX_SHOWN_CHARS: Final = 2_000
MAX_TAIL_CHARS: Final = 500
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Run it?", "default": False}},
    "required": ["approve"],
}


async def approve_by_gate(request: ApprovalRequest) -> bool | str:
    """Ask the user whether the call may run; a text says why not."""
    shown = json.dumps(request.args, ensure_ascii=False, default=str)
    question = f"Run {one_line(request.tool.name, 200)} with {one_line(shown, MAX_SHOWN_CHARS)}?"
    if len(shown) > MAX_SHOWN_CHARS:
        # Nobody may agree to an end they do not know of.
        question += f" These are {len(shown)} characters, of which you see the first; the last are: "
        question += one_line(shown[-MAX_TAIL_CHARS:], MAX_TAIL_CHARS)
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
