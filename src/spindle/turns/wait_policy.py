"""What a turn does with an approval or a gate that cannot be answered here: wait, be suspended, or return an error."""

from typing import Any

from spindle.errors import ApprovalRequiredError, InvalidTurnRunnerConfigError
from spindle.execution.approval import ApprovalRequest, Approve
from spindle.execution.approval_text import render_approval
from spindle.json_types import JsonObject
from spindle.text import quote_name
from spindle.tools.context import ToolContext
from spindle.turns.context import DispatchContext
from spindle.turns.gates import Gate


def ask_at_gate(ctx: DispatchContext) -> Approve:
    """Return an approval callback that opens a gate of the turn for each call, and waits until it is settled."""

    async def approve(request: ApprovalRequest) -> bool | str:
        payload: JsonObject = {
            "tool": request.tool.name,
            "args": request.args,
            "tool_call_id": request.ctx.tool_call_id,
            "reasons": list(request.reasons),
        }
        gate = Gate(render_approval(request).text, payload, schema=bool | str, timeout_seconds=None)
        return await ctx.wait_for(gate)

    return approve


class UnattendedGates:
    """Opens the gates of calls in an unattended process: a gate that no observer is notified of ends its call."""

    def __init__(self, ctx: DispatchContext) -> None:
        self._ctx = ctx

    async def open_in_call(self, gate: Gate, ctx: ToolContext) -> Any:
        """Wait for a gate of a call.

        Raises:
            ApprovalRequiredError: No observer is notified of open gates; the model receives this error.
        """
        if self._ctx.events.has_observer("turn_gate_open") or gate.is_settled:
            return await self._ctx.wait_for(gate)
        raise ApprovalRequiredError(
            f"The tool {ctx.tool_name!r} needs an answer ({quote_name(gate.reason)}), and no person can be asked.",
            tool=ctx.tool_name,
        )


def build_store_error(field: str) -> InvalidTurnRunnerConfigError:
    """Build the error for a runner whose turns cannot be saved."""
    if field in {"engine", "advance"}:
        return InvalidTurnRunnerConfigError(
            "Turns on an engine need a journal, a state_key and a spool that callers and workers share, and the extra "
            "'tickets': TurnRunner(engine=…, journal=Journal.postgres(dsn), state_key=…, spool=Spool.objects(url)).",
            field=field,
        )
    return InvalidTurnRunnerConfigError(
        "Suspending and resuming turns needs a journal, a state_key and the extra 'tickets': "
        "TurnRunner(journal=Journal.sqlite(path), state_key=…, on_wait='suspend').",
        field=field,
    )
