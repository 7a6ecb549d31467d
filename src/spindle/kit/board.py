"""A long list of tickets in two sentences: how many of each status, and which open ones moved last."""

import json
import math
from collections import Counter
from datetime import UTC, datetime
from typing import Any, cast

MANY_TICKETS = 10
TOP_TICKETS = 5
MILLISECONDS_FROM = 1e11
"""As seconds, that is the year 5138."""
CLOSED = frozenset({"done", "cancelled"})


def summarise_board(text: str) -> str | None:
    """The summary of a JSON list of more than ten tickets; `None` for anything else."""
    tickets = _tickets(text)
    if tickets is None or len(tickets) <= MANY_TICKETS:
        return None
    counts = Counter(_status(ticket) for ticket in tickets)  # keeps the order of first sight
    still_open = [ticket for ticket in tickets if _status(ticket) not in CLOSED]
    top = sorted(still_open, key=_updated, reverse=True)[:TOP_TICKETS]
    by_status = ", ".join(f"{status}={count}" for status, count in counts.items())
    return f"Counts by status: {by_status}. Top {len(top)} open: {'; '.join(map(_line, top))}"


def _tickets(text: str) -> list[dict[str, Any]] | None:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list):
        return None
    items = cast("list[Any]", found)
    return items if all(_is_ticket(item) for item in items) else None


def _is_ticket(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    ticket = cast("dict[str, Any]", item)
    texts = (ticket.get("status"), ticket.get("title"))
    return all(text is None or isinstance(text, str) for text in texts) and not isinstance(
        ticket.get("id"), dict | list
    )


def _status(ticket: dict[str, Any]) -> str:
    return ticket.get("status") or "unknown"


def _line(ticket: dict[str, Any]) -> str:
    number, title = ticket.get("id"), ticket.get("title")
    return f"{'?' if number is None else number}: {'(no title)' if title is None else title}"


def _updated(ticket: dict[str, Any]) -> float:
    """Seconds since 1970; a ticket that does not say counts as the oldest."""
    moment: Any = ticket.get("updated_at")
    try:
        if isinstance(moment, str):
            parsed = datetime.fromisoformat(moment)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        seconds = float(moment)
    except (TypeError, ValueError, OverflowError):
        return float("-inf")
    if math.isnan(seconds):  # it has no place in any order
        return float("-inf")
    return seconds / 1000 if abs(seconds) > MILLISECONDS_FROM else seconds
