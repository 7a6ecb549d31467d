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
