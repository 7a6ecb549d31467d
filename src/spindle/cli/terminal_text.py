"""Text for a terminal: what could command it is shown instead, and columns are counted as it counts them."""

import re
import textwrap
import unicodedata

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with every character shown that would move the cursor, colour, hide or turn round what follows."""
    return _CONTROL.sub(_shown, text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """The text on one line, nothing left out."""
    return " ".join(text.split())


def width_of(text: str) -> int:
    """How many columns a terminal needs for a line."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def cut(text: str, columns: int) -> str:
    """The beginning of a line that fits, with an ellipsis where something is left out."""
    if width_of(text) <= columns:
        return text
    used, end = 0, 0
    for end, char in enumerate(text):  # noqa: B007
        used += _columns(char)
        if used > columns - 1:
            break
    return f"{text[:end].rstrip()}…"


def wrapped(text: str, columns: int | None) -> str:
    """The text with its lines broken between words where they are too long; each keeps its indentation."""
    if columns is None:
        return text
    lines: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def padded(text: str, columns: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (columns - width_of(text))


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
