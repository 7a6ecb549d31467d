"""What a model sees of a result that is too long; the markers come after it.

Plain text is its beginning. JSON keeps its structure (`preview_json.py`), a table its header and some rows
(`preview_table.py`).
"""

import csv
import re
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from spindle.artifacts.json_formats import is_json
from spindle.execution.budget import first_chars
from spindle.execution.preview_json import BLANK, preview_json
from spindle.execution.preview_table import preview_table

Kind: TypeAlias = Literal["text", "json", "table"]

MIN_SHAPED_CHARS: Final = 40
"""With less room the notes would say more than the content."""

_HEAD_CHARS = 16_384
_TAIL_CHARS = 256
_SAMPLE_LINES = 5
_CLOSING = {"{": "}", "[": "]"}
_COLUMN_NAME = re.compile(r"""[^\W\d][^"'{}<>=\[\]();,!?]{0,63}(\([^()]*\))?""")


def preview(text: str, cap: int, *, structured: Any = None, kind: Kind) -> str:
    """Show `text` in at most `cap` characters; what cannot be shown in its shape is cut as plain text.

    `structured`, when it is the value that a JSON text says, spares reading the text again.
    """
    if len(text) <= cap:
        return text
    shaped: str | None = None
    if cap >= MIN_SHAPED_CHARS and kind != "text":
        shaped = preview_json(text, cap, structured) if kind == "json" else preview_table(text, cap)
    return first_chars(text, cap) if shaped is None else shaped


def detect_kind(text: str, structured: Any = None) -> Kind:
    """Guess the shape of a text from its first lines; when in doubt it is plain text."""
    head = text[:_HEAD_CHARS].lstrip(BLANK)
    begins = head[:1]
    lines = _whole_lines(head, cut_off=len(text) > _HEAD_CHARS)
    if begins in _CLOSING:
        if _is_json_lines(lines):
            return "table"
        closes = text[-_TAIL_CHARS:].rstrip()[-1:] == _CLOSING[begins]
        return "json" if closes or isinstance(structured, dict | list | tuple) else "text"
    return "table" if any(_is_delimited(lines, delimiter) for delimiter in "\t,;") else "text"


def _whole_lines(head: str, *, cut_off: bool) -> list[str]:
    """The first lines, without one that the head ends in the middle of."""
    lines = head.split("\n", _SAMPLE_LINES)
    if len(lines) > _SAMPLE_LINES or cut_off or not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def _is_json_lines(lines: list[str]) -> bool:
    return len(lines) >= 2 and all(line[:1] in _CLOSING and is_json(line) for line in lines)


def _is_delimited(lines: list[str], delimiter: str) -> bool:
    """Named columns, and as many cells in every row; a log or a paragraph has commas too, but no such first line."""
    try:
        rows = list(islice(csv.reader(lines, delimiter=delimiter, strict=True), _SAMPLE_LINES))
    except csv.Error:
        return False
    if len(rows) < 3 or len(rows[0]) < 2:
        return False
    names = rows[0]
    named = all(_COLUMN_NAME.fullmatch(name) for name in names) and len(set(names)) == len(names)
    return named and all(len(row) == len(names) for row in rows)
