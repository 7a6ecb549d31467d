"""What a ticket records of the call that waits, and by which policy it waits."""

from pathlib import Path

from spindle.errors import UnshowableRequestError
from spindle.execution.approval import build_request, redact_reasons
from spindle.execution.approval_text import render_approval
from spindle.execution.call_state import AdmittedCall
from spindle.execution.flow import Policy, describe_asking
from spindle.json_types import JsonObject
from spindle.tools.arguments import mask_arguments
from spindle.tools.declaration import Tool


def describe_policy(tool: Tool, policy: Policy | None) -> str:
    """Describe when a tool needs approval; an executor with another policy for it refuses the ticket."""
    return "always" if tool.requires_approval else describe_asking(policy, tool)


def collect_facts(state: AdmittedCall, *, policy: str, must_show: bool = False) -> JsonObject:
    """Return what a ticket records of a call, with secrets masked.

    Raises:
        UnshowableRequestError: The arguments cannot be shown to a person, with `must_show`.
    """
    tool, ctx = state.entry.tool, state.ctx
    masked: JsonObject = ctx.redact_value(mask_arguments(state.arguments, tool.secret_fields))
    reasons = redact_reasons(state)
    request = build_request(state, masked)
    try:
        shown = render_approval(request).text
    except UnshowableRequestError:  # an approver in this process may show it in its own way
        if must_show:
            raise
        shown = ""
    return {
        "tool": tool.name,
        "fingerprint": tool.fingerprint,
        "checksum": state.checksum,
        "session_id": ctx.session_id,
        "turn_id": ctx.turn_id,
        "tool_call_id": state.call.tool_call_id,
        "caller": ctx.caller,
        "policy": policy,
        "working_dir": {"path": str(ctx.working_dir)} if isinstance(ctx.working_dir, Path) else ctx.working_dir,
        "tainted": ctx.tainted or bool((state.flow_facts or {}).get("tainted")),
        "args": masked,
        "shown": shown,
        "reasons": list(reasons),
    }
