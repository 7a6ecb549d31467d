"""What a journal is told of a call, and what it tells again."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from spindle.errors import UsageError
from spindle.tools.identity import canonical_json

EntryState: TypeAlias = Literal["started", "finished", "interrupted"]
"""Of a living process and not ended yet; ended, well or not; of a process that is gone, so that nobody knows."""

OnDamage: TypeAlias = Literal["raise", "set_aside"]
"""What opening does when it finds a file that cannot be used: refuse, or go on with a fresh one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """A call that is about to run."""

    tool_call_id: str
    tool: str
    checksum: str
    idempotency_key: str
    args: Mapping[str, Any]
    """JSON, with secret fields already redacted."""
    started_at: datetime
    session_id: str | None = None
    turn_id: str | None = None
    fingerprint: str | None = None
    repeat: bool = False
    """Run it although its key is known: for calls that do no harm when repeated. The older outcome is replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """What became of a call that was begun."""

    idempotency_key: str
    ended_at: datetime
    code: str | None = None
    """`None` when it went well, otherwise the `Err`'s code."""
    error: str | None = None
    attempts: int = 1
    """How often its body was started since it was begun; a call whose body never was may be begun again."""
    result: Mapping[str, Any] | None = None
    """The outcome as JSON, whole enough to be answered again."""
    result_chars: int | None = None
    cost_usd: float | None = None
    trusted: bool = False
    artifact_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalEntry:
    """What the journal knows of one call."""

    tool_call_id: str
    tool: str
    checksum: str
    idempotency_key: str
    state: EntryState
    args: dict[str, Any]
    started_at: datetime
    attempts: int
    """How often its body was started, as far as is known."""
    code: str | None = None
    """`None` unless it finished badly."""
    ended_at: datetime | None = None
    session_id: str | None = None
    turn_id: str | None = None
    result: dict[str, Any] | None = None
    result_chars: int | None = None
    cost_usd: float | None = None
    trusted: bool = False
    artifact_id: str | None = None
    fingerprint: str | None = None
    error: str | None = None


def idempotency_key(session_id: str | None, turn_id: str | None, tool_call_id: str, checksum: str) -> str:
    """Name one call of one turn: the same for the same call asked again, in every process, and for no other.

    Raises:
        NotCanonicalError: A part of it is no JSON.
    """
    # Canonical JSON of these four by their names, put together from its parts: a turn has many calls.
    parts = (_canonical(checksum), _once_a_turn(session_id), _canonical(tool_call_id), _once_a_turn(turn_id))
    return sha256(b'{"checksum":%b,"session_id":%b,"tool_call_id":%b,"turn_id":%b}' % parts).hexdigest()


def _canonical(text: str) -> bytes:
    # Nothing in a plain name is spelled in another way; `type` because a subclass may be anything.
    return b'"%b"' % text.encode() if type(text) is str and _is_plain(text) else canonical_json(text)


_is_plain = re.compile(r"[\w.:/-]*", re.ASCII).fullmatch
_once_a_turn = lru_cache(maxsize=64, typed=True)(canonical_json)


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
