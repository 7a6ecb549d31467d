"""What a spool keeps, and what it may let go. No clock, no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolEntry:
    """One artifact that is kept."""

    id: str
    turn_id: str | None
    byte_length: int
    created_at: float
    """Seconds since 1970."""
    version: str
    """Changes when the id is written again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolStats:
    """How much is kept."""

    count: int
    bytes: int
    oldest: float | None
    """When the oldest was written, in seconds since 1970; `None` when nothing is kept."""


def count_up(entries: Iterable[SpoolEntry]) -> SpoolStats:
    """Add up what is kept."""
    kept = list(entries)
    return SpoolStats(
        count=len(kept),
        bytes=sum(entry.byte_length for entry in kept),
        oldest=min((entry.created_at for entry in kept), default=None),
    )


def overdue(
    entries: Iterable[SpoolEntry], *, max_bytes: int | None, max_age_seconds: float | None, now: float
) -> list[SpoolEntry]:
    """Choose what must go: everything too old, then the oldest until the rest fits."""
    by_age = sorted(entries, key=lambda entry: entry.created_at)
    left = sum(entry.byte_length for entry in by_age)
    chosen: list[SpoolEntry] = []
    for entry in by_age:
        is_too_old = max_age_seconds is not None and now - entry.created_at > max_age_seconds
        is_too_much = max_bytes is not None and left > max_bytes
        if is_too_old or is_too_much:
            chosen.append(entry)
            left -= entry.byte_length
    return chosen
