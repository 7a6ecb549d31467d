"""What a search over calls asks for and returns: queries, summaries of calls, and cursors."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from spindle.errors import UsageError
from spindle.journal.entries import EntryState, Row
from spindle.journal.search_text import STORED_PREVIEW_CHARS, cut_preview, decode_escapes
from spindle.json_types import untyped

MAX_LIMIT: Final = 1_000
MAX_TEXT_CHARS: Final = 1_000
MAX_TOOLS: Final = 30_000
"""Names of tools in one query; SQLite accepts few more values in one statement."""

Order: TypeAlias = Literal["newest_first", "oldest_first"]
OutcomeKind: TypeAlias = Literal["ok", "error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallQuery:
    """A filter of calls; `None` matches any."""

    tool: str | None = None
    tools: frozenset[str] | None = None
    """Calls of any of these tools; an empty set matches none."""
    state: EntryState | None = None
    outcome: OutcomeKind | None = None
    """`"ok"` for calls that succeeded, `"error"` for calls with any code."""
    code: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    artifact_id: str | None = None
    tool_call_id: str | None = None
    """The beginning of the id."""
    started_from: datetime | None = None
    started_to: datetime | None = None
    """Exclusive."""
    text: str | None = None
    """Part of the tool, the arguments, the error, the code, the session id or the tool call id, in any case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSummary:
    """The facts of one call, with previews of its arguments and its error, and without its result."""

    cursor: str
    """The place of the call in the journal."""
    idempotency_key: str
    tool_call_id: str
    tool: str
    state: EntryState
    started_at: datetime
    attempts: int
    args_preview: str
    """The beginning of the arguments as JSON; it ends with `…` if something was cut."""
    error_preview: str | None = None
    code: str | None = None
    ended_at: datetime | None = None
    session_id: str | None = None
    turn_id: str | None = None
    result_chars: int | None = None
    cost_usd: float | None = None
    trusted: bool = False
    artifact_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallPage:
    """The calls that a search found."""

    calls: list[CallSummary]
    next_cursor: str | None
    """Where to continue; `None` when there is nothing older. A search that reads oldest first always has one."""
    scanned: int
    """How many rows were read."""
    is_complete: bool
    """Whether the search reached the end of the journal; otherwise there may be more, even if no call was found."""


class SummaryRow(NamedTuple):
    """A summary as it is stored: `args` and `error` may be cut after `STORED_PREVIEW_CHARS`."""

    seq: int
    idempotency_key: str
    tool_call_id: str
    tool: str
    state: EntryState
    session_id: str | None
    turn_id: str | None
    args: str
    started_at: int
    attempts: int
    ended_at: int | None
    code: str | None
    error: str | None
    result_chars: int | None
    cost_usd: float | None
    trusted: bool
    artifact_id: str | None


def check_query(query: CallQuery, *, limit: int, max_scanned: int, order: Order) -> None:
    """Check what a caller passed.

    Raises:
        UsageError: A value has the wrong type, or is unknown or too large.
    """
    choices = {"state": (query.state, EntryState), "outcome": (query.outcome, OutcomeKind), "order": (order, Order)}
    for field, (given, kind) in choices.items():
        if given not in get_args(kind) and (given is not None or field == "order"):
            raise UsageError(f"Expected {field} to be one of {get_args(kind)}, got {given!r}", field=field)
    for field in ("tool", "code", "session_id", "turn_id", "artifact_id", "tool_call_id", "text"):
        text = untyped(getattr(query, field))
        if text is not None and not isinstance(text, str):
            raise UsageError(f"Expected {field} to be text or None, got {type(text).__name__}", field=field)
    if query.tools is not None:
        _check_tools(query.tools)
    if len(query.text or "") > MAX_TEXT_CHARS:
        raise UsageError(f"Expected text of at most {MAX_TEXT_CHARS} characters", field="text")
    for field in ("started_from", "started_to"):
        moment = untyped(getattr(query, field))
        if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
            raise UsageError(f"Expected {field} to be a time with a time zone or None, got {moment!r}", field=field)
    for field, number, most in (("limit", untyped(limit), MAX_LIMIT), ("max_scanned", untyped(max_scanned), 10**7)):
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
            raise UsageError(f"Expected {field} to be an integer from 1 to {most:,}, got {number!r}", field=field)


def _check_tools(tools: frozenset[str]) -> None:
    if not isinstance(untyped(tools), frozenset) or not all(isinstance(name, str) for name in map(untyped, tools)):
        raise UsageError(f"Expected tools to be a frozenset of names or None, got {tools!r:.100}", field="tools")
    if len(tools) > MAX_TOOLS:
        raise UsageError(f"Expected at most {MAX_TOOLS:,} tools", field="tools")


def write_cursor(seq: int) -> str:
    """Return the opaque text of a place in the journal."""
    return f"c{seq:x}"


_cursor = re.compile("c-?[0-9a-f]{1,15}")


def read_cursor(cursor: str) -> int:
    """Return the sequence number of a cursor.

    Raises:
        UsageError: It is not a cursor.
    """
    if not isinstance(untyped(cursor), str) or not _cursor.fullmatch(cursor):
        raise UsageError(
            f"{str(cursor)[:40]!r} is not a cursor of a journal; pass one that a search returned", field="cursor"
        )
    return int(cursor[1:], 16)


def to_summary_row(seq: int, row: Row) -> SummaryRow:
    """Return the summary of a row."""
    return SummaryRow(
        seq,
        row.idempotency_key,
        row.tool_call_id,
        row.tool,
        row.state,
        row.session_id,
        row.turn_id,
        row.args[:STORED_PREVIEW_CHARS],
        row.started_at,
        row.attempts,
        row.ended_at,
        row.code,
        None if row.error is None else row.error[:STORED_PREVIEW_CHARS],
        row.result_chars,
        row.cost_usd,
        row.trusted,
        row.artifact_id,
    )


def to_summary(row: SummaryRow) -> CallSummary:
    """Convert a stored summary to the one that callers get."""
    return CallSummary(
        cursor=write_cursor(row.seq),
        idempotency_key=row.idempotency_key,
        tool_call_id=row.tool_call_id,
        tool=row.tool,
        state=row.state,
        started_at=_moment(row.started_at),
        attempts=row.attempts,
        args_preview=cut_preview(decode_escapes(row.args)),
        error_preview=None if row.error is None else cut_preview(row.error),
        code=row.code,
        ended_at=None if row.ended_at is None else _moment(row.ended_at),
        session_id=row.session_id,
        turn_id=row.turn_id,
        result_chars=row.result_chars,
        cost_usd=row.cost_usd,
        trusted=bool(row.trusted),
        artifact_id=row.artifact_id,
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_microseconds(moment: datetime) -> int:
    """Return a time as it is stored."""
    return (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime:
    return _EPOCH + _MICROSECOND * microseconds
