"""Calls to write in a journal."""

from datetime import UTC, datetime, timedelta
from typing import Any

from spindle.journal import idempotency_key
from spindle.journal.entries import FinishedCall, Intent, JournalEntry

NOON = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)


def intent(name: str, **changes: Any) -> Intent:
    """A call that is about to run."""
    facts: dict[str, Any] = {
        "tool_call_id": name,
        "tool": "search",
        "checksum": "sum",
        "idempotency_key": idempotency_key("session", "turn", name, "sum"),
        "args": {"query": name},
        "started_at": NOON,
        "session_id": "session",
        "turn_id": "turn",
    }
    return Intent(**(facts | changes))


def finished(name: str, **changes: Any) -> FinishedCall:
    """A call that went well after a second."""
    facts: dict[str, Any] = {
        "idempotency_key": intent(name).idempotency_key,
        "ended_at": NOON + timedelta(seconds=1),
        "result": {"value": name},
        "result_chars": 1,
    }
    return FinishedCall(**(facts | changes))


def states(entries: list[JournalEntry]) -> list[tuple[str, str]]:
    """A short description of each call."""
    return [(entry.tool_call_id, entry.state) for entry in entries]
