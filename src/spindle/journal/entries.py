"""Journal records: intents and outcomes that callers write, entries that they read, and rows that backends store."""

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
"""Running in a live process; ended, successfully or not; left by a process that is gone, with an unknown outcome."""

OnDamage: TypeAlias = Literal["raise", "set_aside"]
"""What opening does with an unusable file: raise an error, or rename it and start a new one."""


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
    """Run the call even if its key is known, for calls that are safe to repeat; the older outcome is replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The outcome of a call that was begun."""

    idempotency_key: str
    ended_at: datetime
    code: str | None = None
    """`None` on success, otherwise the code of the `Err`."""
    error: str | None = None
    attempts: int = 1
    """How often its body was started since it was begun; a call whose body never started may be begun again."""
    result: Mapping[str, Any] | None = None
    """The outcome as JSON, complete enough to be returned again."""
    result_chars: int | None = None
    cost_usd: float | None = None
    trusted: bool = False
    artifact_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalEntry:
    """The journal's record of one call."""

    tool_call_id: str
    tool: str
    checksum: str
    idempotency_key: str
    state: EntryState
    args: dict[str, Any]
    started_at: datetime
    attempts: int
    """How often its body was started, as far as known."""
    code: str | None = None
    """`None` unless the call failed."""
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
    """Return the key of one call of one turn: the same for a repeated request of that call, in every process.

    Raises:
        NotCanonicalError: A part cannot be written as canonical JSON.
    """
    # Canonical JSON of the four fields, assembled from cached parts: a turn has many calls.
    parts = (_canonical(checksum), _cached_canonical(session_id), _canonical(tool_call_id), _cached_canonical(turn_id))
    return sha256(b'{"checksum":%b,"session_id":%b,"tool_call_id":%b,"turn_id":%b}' % parts).hexdigest()


def _canonical(text: str) -> bytes:
    # A plain name needs no escapes; `type` because a subclass may behave differently.
    return b'"%b"' % text.encode() if type(text) is str and _is_plain(text) else canonical_json(text)


_is_plain = re.compile(r"[\w.:/-]*", re.ASCII).fullmatch
_cached_canonical = lru_cache(maxsize=64, typed=True)(canonical_json)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Row(NamedTuple):
    """An entry as it is stored: times in microseconds since 1970, JSON as text."""

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
"""The fields that are known when a call begins."""


class Claim(NamedTuple):
    """A row that a caller wants to begin."""

    row: Row
    repeat: bool


class Outcome(NamedTuple):
    """The fields of a row that are known when its call has ended."""

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
    """A filter of entries, newest first; `None` matches any."""

    state: EntryState | None = None
    tool_call_id: str | None = None
    limit: int | None = None


def to_claim(intent: Intent) -> Claim:
    """Convert an intent to a claim.

    Raises:
        UsageError: A value cannot be stored.
    """
    args = _json_text(intent.args, tool=intent.tool, field="args")
    # Positional: keyword arguments take half as long again.
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


def to_outcome(finished: Finished) -> Outcome:
    """Convert a finished call to an outcome.

    Raises:
        UsageError: A value cannot be stored.
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


def build_withdrawn_outcome(key: str) -> Outcome:
    """Return the outcome of a call whose caller was cancelled while its intent was being written: it never ran."""
    return to_outcome(
        Finished(
            idempotency_key=key,
            ended_at=datetime.now(UTC),
            code="cancelled",
            error="the caller was cancelled before the call ran",
            attempts=0,
        )
    )


def build_noted_row(intent: Intent, finished: Finished) -> Row:
    """Return the row of a call that ended without having run.

    Raises:
        UsageError: A value cannot be stored.
    """
    return build_finished_row(to_claim(intent).row, to_outcome(finished))._replace(attempts=0)


def has_never_run(row: Row) -> bool:
    """Return whether the call ended before its body was started, so that it may run without being repeated."""
    return row.ended_at is not None and row.attempts == 0


def can_begin(claim: Claim, known: Row) -> bool:
    """Return whether a call with a known key may be begun nevertheless."""
    return claim.repeat or has_never_run(known)


def build_repeated_row(claim: Claim, known: Row) -> Row:
    """Return the row of a call that runs once more."""
    return claim.row._replace(attempts=known.attempts + 1)


def build_finished_row(row: Row, outcome: Outcome) -> Row:
    """Return the row of a call that has ended."""
    _, attempts, *facts = outcome
    # A row starts with one attempt counted, so that the number is right after a crash.
    begun = row._replace(state="finished", attempts=row.attempts - 1 + attempts)[: len(STARTED_FIELDS)]
    return Row._make((*begun, *facts))


def to_entry(row: Row) -> JournalEntry:
    """Convert a row to an entry with its own copies of the values."""
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
            f"Journal field {field} is not JSON: {error}; pass a mapping of JSON values", tool=tool, field=field
        ) from error


def _microseconds(moment: datetime, *, field: str) -> int:
    try:
        return (moment - _EPOCH) // _MICROSECOND
    except TypeError as error:
        raise UsageError(f"Expected {field} to have a time zone, such as datetime.now(UTC)", field=field) from error


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
