r"""Rows as PostgreSQL keeps them: its text holds neither NUL nor lone surrogates, so these are written as `\u0000`."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from spindle.journal.rows import Row

_AS_IT_IS = frozenset(map(Row._fields.index, ("state", "args", "result")))
"""JSON is ASCII without NUL already, and stays JSON for those who look at the table."""

_odd = re.compile("[\\\\\0\ud800-\udfff]")
_escape = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")


def stored_text(text: str) -> str:
    """Text that PostgreSQL takes, unlike that of any other text."""
    return _odd.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", text)


def loaded_text(text: str) -> str:
    """The text that was stored so."""
    return _escape.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text) if "\\" in text else text


def digest(key: str) -> bytes:
    """What a key is found by: an index takes no long text."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def stored_values(values: Iterable[Any]) -> list[Any]:
    """The first fields of a row, or all of them, as they are kept."""
    return [
        stored_text(value) if isinstance(value, str) and place not in _AS_IT_IS else value
        for place, value in enumerate(values)
    ]


def loaded_row(values: Iterable[Any]) -> Row:
    """The row that was kept so."""
    return Row._make(
        loaded_text(value) if isinstance(value, str) and place not in _AS_IT_IS else value
        for place, value in enumerate(values)
    )
