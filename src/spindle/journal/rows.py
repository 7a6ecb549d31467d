"""Entries as flat rows of plain values, the shape in which every backend keeps them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from spindle.errors import UsageError
from spindle.journal.entries import EntryState, Finished, Intent, JournalEntry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Row(NamedTuple):
    """An entry as it is kept: times in microseconds since 1970, JSON as text."""

    idempotency_key: str
    tool_call_id: str
    tool: str
    checksum: str
    state: EntryState
    session_id: str | None
    turn_id: str | None
    fingerprint: str | None
    args: str
    started_at: int
    attempts: int
    ended_at: int | None = None
    code: str | None = None
    error: str | None = None
    result: str | None = None
    result_chars: int | None = None
    cost_usd: float | None = None
    trusted: bool = False
    artifact_id: str | None = None


STARTED_FIELDS = Row._fields[: Row._fields.index("ended_at")]
"""What is known of a call when it begins."""


class Claim(NamedTuple):
    """A row that someone wants to begin."""

    row: Row
    repeat: bool


class Outcome(NamedTuple):
    """The part of a row that is known when its call has ended."""

    idempotency_key: str
    attempts: int
    ended_at: int
    code: str | None
    error: str | None
    result: str | None
    result_chars: int | None
    cost_usd: float | None
    trusted: bool
    artifact_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which entries are wanted, newest first; `None` stands for any."""

    state: EntryState | None = None
    tool_call_id: str | None = None
    limit: int | None = None


def claim_of(intent: Intent) -> Claim:
    """Flatten an intent.

    Raises:
        UsageError: A value cannot be kept.
    """
    args = _json_text(intent.args, tool=intent.tool, field="args")
    # In the order of the fields: by their names it takes half as long again.
    row = Row(
        intent.idempotency_key,
        intent.tool_call_id,
        intent.tool,
        intent.checksum,
        "started",
        intent.session_id,
        intent.turn_id,
        intent.fingerprint,
        args,
        _microseconds(intent.started_at, field="started_at"),
        1,
    )
    return Claim(row, intent.repeat)


def outcome_of(finished: Finished) -> Outcome:
    """Flatten an outcome.

    Raises:
        UsageError: A value cannot be kept.
    """
    result = finished.result
    return Outcome(
        finished.idempotency_key,
        finished.attempts,
        _microseconds(finished.ended_at, field="ended_at"),
        finished.code,
        finished.error,
        None if result is None else _json_text(result, tool=None, field="result"),
        finished.result_chars,
        finished.cost_usd,
        finished.trusted,
        finished.artifact_id,
    )


def withdrawn(key: str) -> Outcome:
    """The outcome of a call whose caller was cancelled while its intent was being written: it never ran."""
    return outcome_of(
        Finished(
            idempotency_key=key,
            ended_at=datetime.now(UTC),
            code="cancelled",
            error="the caller was cancelled before the call ran",
            attempts=0,
        )
    )


def noted_row(intent: Intent, finished: Finished) -> Row:
    """The row of a call that ended without having run.

    Raises:
        UsageError: A value cannot be kept.
    """
    return finished_row(claim_of(intent).row, outcome_of(finished))._replace(attempts=0)


def has_never_run(row: Row) -> bool:
    """Whether the call ended before its body was started, so that nothing was done that could be done twice."""
    return row.ended_at is not None and row.attempts == 0


def may_begin(claim: Claim, known: Row) -> bool:
    """Whether a call whose key is known may be begun all the same."""
    return claim.repeat or has_never_run(known)


def claimed_again(claim: Claim, known: Row) -> Row:
    """The row of a call that runs once more."""
    return claim.row._replace(attempts=known.attempts + 1)


def finished_row(row: Row, outcome: Outcome) -> Row:
    """The row of a call that has ended."""
    _, attempts, *facts = outcome
    # A row begins with one attempt counted, so that a crash leaves the right number.
    begun = row._replace(state="finished", attempts=row.attempts - 1 + attempts)[: len(STARTED_FIELDS)]
    return Row._make((*begun, *facts))


def entry_of(row: Row) -> JournalEntry:
    """Unfold a row; the entry's values are its own."""
    return JournalEntry(
        tool_call_id=row.tool_call_id,
        tool=row.tool,
        checksum=row.checksum,
        idempotency_key=row.idempotency_key,
        state=row.state,
        args=json.loads(row.args),
        started_at=_moment(row.started_at),
        attempts=row.attempts,
        code=row.code,
        ended_at=None if row.ended_at is None else _moment(row.ended_at),
        session_id=row.session_id,
        turn_id=row.turn_id,
        result=None if row.result is None else json.loads(row.result),
        result_chars=row.result_chars,
        cost_usd=row.cost_usd,
        trusted=bool(row.trusted),
        artifact_id=row.artifact_id,
        fingerprint=row.fingerprint,
        error=row.error,
    )


def _json_text(value: Mapping[str, Any], *, tool: str | None, field: str) -> str:
    try:
        return _encode(value if isinstance(value, dict) else dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"a journal keeps JSON, and {field} is none: {error}; give a mapping of JSON values", tool=tool, field=field
        ) from error


def _microseconds(moment: datetime, *, field: str) -> int:
    try:
        return (moment - _EPOCH) // _MICROSECOND
    except TypeError as error:
        raise UsageError(f"{field} must be a time with a time zone, such as datetime.now(UTC)", field=field) from error


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
