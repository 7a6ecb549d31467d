"""Text as a terminal would show it, line by line."""

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-B])")


def shown_lines(text: str) -> list[str]:
    """The lines without colours, and without what a carriage return overwrote."""
    lines = plain_lines(text)
    return [_shown(line) for line in lines] if "\x1b" in text or "\r" in text else lines


def plain_lines(text: str) -> list[str]:
    """The lines, where a last terminator begins no further line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _shown(line: str) -> str:
    return _ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2])
