"""What the journal recorded of a call's way through its batch, in lines for a terminal."""

from collections.abc import Iterable

from spindle.execution import CallTiming
from spindle.journal import JournalEntry
from spindle.text import to_printable

_MIN_SHOWN_MS = 0.05
_MAX_NAMES_CHARS = 80


def describe_timing(entry: JournalEntry) -> list[str]:
    """Return where the time of a call went and its part of the budget, then its events; nothing if that is unknown."""
    timing = CallTiming.read(entry)
    if timing is None:
        return []
    place = f"call {timing.position + 1} of {timing.batch_calls} in batch {timing.batch_id}"
    parts = [
        f"{span.kind} {_format_ms(span.duration_ms)}{_format_names(span.names)}"
        for span in timing.spans
        if span.duration_ms >= _MIN_SHOWN_MS
    ]
    lines = [f"{place}: {', '.join(parts) or 'less than 0.1 ms'}"]
    limits = list(_describe_limits(timing))
    if limits:
        lines.append(", ".join(limits))
    return lines + [f"{_format_ms(event.at_ms)}  {event.kind}  {to_printable(event.text)}" for event in timing.events]


def _describe_limits(timing: CallTiming) -> Iterable[str]:
    if timing.deadline_ms is not None:
        yield f"deadline at {_format_ms(timing.deadline_ms)}"
    if timing.batch_deadline_ms is not None:
        yield f"deadline of the batch at {_format_ms(timing.batch_deadline_ms)}"
    if timing.share_chars is not None:
        cut = ", truncated" if timing.is_truncated else ""
        yield f"{timing.used_chars or 0:,} characters of a share of {timing.share_chars:,}{cut}"


def _format_ms(milliseconds: float) -> str:
    return f"{milliseconds / 1000:,.2f} s" if abs(milliseconds) >= 1000 else f"{milliseconds:.1f} ms"


def _format_names(names: tuple[str, ...]) -> str:
    return f" ({to_printable(', '.join(names), _MAX_NAMES_CHARS)})" if names else ""
