"""What a journal is told of a call, and what it tells again."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, TypeAlias

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
