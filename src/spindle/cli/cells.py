"""Texts for the cells of a table on a terminal."""

import re


def one_line(text: str, max_chars: int) -> str:
    """The text on one line, cut with an ellipsis where it is too long."""
    flat = re.sub(r"\s+", " ", text[: 4 * max_chars + 200]).strip()
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1].rstrip()}…"


def duration(seconds: float) -> str:
    """A duration in the unit in which it reads best."""
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"


def byte_size(count: int) -> str:
    """A number of bytes in the unit in which it reads best."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" or size >= 100 else f"{size:.1f} {units[0]}"


def since(moment: float, now: float) -> str:
    """How long ago something was, roughly; both in seconds since 1970."""
    seconds = max(0.0, now - moment)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
