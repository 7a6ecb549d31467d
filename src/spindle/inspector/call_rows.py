"""Calls as rows of the API: the facts of a summary as text that any client can read."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from spindle.inspector.approval_feeds import may_see
from spindle.inspector.endpoints import ApiModel, PageUser
from spindle.inspector.workbench import Workbench
from spindle.journal.entries import EntryState
from spindle.journal.summaries import CallSummary
from spindle.text import shorten, to_encodable

MAX_NAME_CHARS = 1_000
"""Longer names and ids are cut: only a hostile sender has them."""
Name = Annotated[str, Field(max_length=5_000)]


class CallRow(ApiModel):
    """One call, without its result."""

    key: str
    """Identifies the call."""
    cursor: str
    """Its place in the journal."""
    tool_call_id: str
    tool: str
    state: EntryState
    code: str | None = None
    """`None` unless the call failed."""
    started_at: datetime
    ended_at: datetime | None = None
    duration_ms: float | None = None
    attempts: int
    session_id: str | None = None
    turn_id: str | None = None
    artifact_id: str | None = None
    result_chars: int | None = None
    cost_usd: float | None = None
    trusted: bool = False
    args: str
    """The beginning of its arguments as JSON."""
    error: str | None = None
    """The beginning of its error."""


def to_row(call: CallSummary) -> CallRow:
    """Return the row of a call."""
    ended = call.ended_at
    return CallRow(
        key=to_encodable(call.idempotency_key),
        cursor=call.cursor,
        tool_call_id=to_name(call.tool_call_id),
        tool=to_name(call.tool),
        state=call.state,
        code=None if call.code is None else to_name(call.code),
        started_at=call.started_at,
        ended_at=ended,
        # A clock may have been set back meanwhile.
        duration_ms=None if ended is None else max(0.0, (ended - call.started_at).total_seconds() * 1000),
        attempts=call.attempts,
        session_id=None if call.session_id is None else to_name(call.session_id),
        turn_id=None if call.turn_id is None else to_name(call.turn_id),
        artifact_id=None if call.artifact_id is None else to_name(call.artifact_id),
        result_chars=call.result_chars,
        cost_usd=call.cost_usd,
        trusted=call.trusted,
        args=to_encodable(call.args_preview),
        error=None if call.error_preview is None else to_encodable(call.error_preview),
    )


def to_name(text: str) -> str:
    """Return a name or an id as text that can be sent."""
    return to_encodable(shorten(text, MAX_NAME_CHARS))


def is_visible(bench: Workbench, user: PageUser | None, tool: str) -> bool:
    """Return whether a user may see calls of a tool."""
    return user is None or may_see(bench, user, tool)
