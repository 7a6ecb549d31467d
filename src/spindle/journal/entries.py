"""Journal records: intents and outcomes that callers write, entries that they read, and rows that backends store."""

import json
import json.encoder
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias

from spindle.errors import JournalError, UsageError
from spindle.json_types import JsonObject, JsonValue

EntryState: TypeAlias = Literal["started", "finished", "interrupted"]
"""Running in a live process; ended, successfully or not; without an outcome: its process is gone, or a write failed."""

FinishResult: TypeAlias = Literal["ended", "unknown", "elsewhere"]
"""The call has an outcome; was never begun; or is running in another process."""

OnDamage: TypeAlias = Literal["raise", "set_aside"]
"""What opening does with an unusable file: raise an error, or rename it and start a new one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """A call that is about to run."""

    tool_call_id: str
    tool: str
    checksum: str
    idempotency_key: str
    args: Mapping[str, JsonValue]
    """JSON, with secret fields already redacted."""
    started_at: datetime
    session_id: str | None = None
    turn_id: str | None = None
    fingerprint: str | None = None
    repeat: bool = False
    """Run the call even if its key is known, for calls that are safe to repeat; the older outcome is replaced."""
    caller: Mapping[str, JsonValue] | None = None
    """Who asked for the turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedCall:
    """The outcome of a call that was begun."""

    idempotency_key: str
    ended_at: datetime
    code: str | None = None
    """`None` on success, otherwise the code of the `Err`."""
    error: str | None = None
    attempts: int = 1
    """How often its body was started since it was begun; a call whose body never started may be begun again."""
    result: Mapping[str, JsonValue] | None = None
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
    args: JsonObject
    started_at: datetime
    attempts: int
    """How often its body was started, as far as known."""
    code: str | None = None
    """`None` unless the call failed."""
    ended_at: datetime | None = None
    session_id: str | None = None
    turn_id: str | None = None
    result: JsonObject | None = None
    result_chars: int | None = None
    cost_usd: float | None = None
    trusted: bool = False
    artifact_id: str | None = None
    fingerprint: str | None = None
    error: str | None = None
    caller: JsonObject | None = None
    """Who asked for the turn, as passed to `TurnRunner.run`."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _build_encoder() -> Callable[[JsonObject], str]:
    """Return `json.dumps` without its setup for each value, which takes longer than a small value itself."""
    plain = json.JSONEncoder(separators=(",", ":"), check_circular=False)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the compiled encoder
        return plain.encode
    text = json.encoder.encode_basestring_ascii
    flags = plain.sort_keys, plain.skipkeys, plain.allow_nan
    write = make(None, plain.default, text, None, plain.key_separator, plain.item_separator, *flags)
    return lambda value: "".join(write(value, 0))


_encode = _build_encoder()


SqlValue: TypeAlias = str | bytes | int | float | None
"""A value of one field of a row, as a database stores it."""


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
    caller: str | None = None
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
_STATE = Row._fields.index("state")


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
    session_id: str | None = None
    limit: int | None = None


class LostCalls:
    """The keys of calls that ended in this process without a written outcome; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._keys: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, keys: Iterable[str]) -> None:
        """Add calls whose outcomes could not be written."""
        with self._lock:
            self._keys.update(keys)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove calls whose outcomes were written after all."""
        if self._keys:
            with self._lock:
                self._keys.difference_update(keys)

    def take(self) -> list[str]:
        """Remove and return all calls."""
        if not self._keys:
            return []
        with self._lock:
            keys, self._keys = list(self._keys), set()
            return keys


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
        None if intent.caller is None else _json_text(intent.caller, tool=intent.tool, field="caller"),
    )
    return Claim(row, intent.repeat)


def to_outcome(finished: FinishedCall) -> Outcome:
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
        FinishedCall(
            idempotency_key=key,
            ended_at=datetime.now(UTC),
            code="cancelled",
            error="the caller was cancelled before the call ran",
            attempts=0,
        )
    )


def check_endings(outcomes: Sequence[Outcome], endings: Sequence[FinishResult]) -> list[bool]:
    """Return whether each call was ever begun.

    Raises:
        JournalError: Another process is running one of the calls; the others were ended.
    """
    elsewhere = [outcome for outcome, ending in zip(outcomes, endings, strict=True) if ending == "elsewhere"]
    if elsewhere:
        raise JournalError(
            f"{len(elsewhere)} of {len(outcomes)} outcomes belong to calls that another process is running, "
            f"such as {elsewhere[0].idempotency_key!r}; only that process can end them while it is alive",
            field="idempotency_key",
        )
    return [ending == "ended" for ending in endings]


def build_noted_row(intent: Intent, finished: FinishedCall) -> Row:
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
    *known, _, caller = row[: len(STARTED_FIELDS)]
    known[_STATE] = "finished"
    # A row starts with one attempt counted, so that the number is right after a crash.
    return Row._make((*known, row.attempts - 1 + attempts, caller, *facts))


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
        caller=None if row.caller is None else json.loads(row.caller),
    )


def _json_text(value: Mapping[str, JsonValue], *, tool: str | None, field: str) -> str:
    try:
        return _encode(value if isinstance(value, dict) else dict(value))
    except (TypeError, ValueError, RuntimeError) as error:  # nested too deeply, or changed by its handler meanwhile
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
