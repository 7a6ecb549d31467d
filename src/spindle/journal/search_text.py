"""The texts of a search over calls: what to look for in which case, and previews of stored texts."""

import json
import re
from collections.abc import Iterable
from string import ascii_lowercase, ascii_uppercase
from typing import Final

PREVIEW_CHARS: Final = 200
"""The maximum length of the previews of a summary."""
STORED_PREVIEW_CHARS: Final = 6 * PREVIEW_CHARS + 6
"""How much of a stored text a backend returns for a preview; an escaped character takes six."""


def build_needles(text: str) -> list[str]:
    """Return the texts to look for in a folded field; letters beyond ASCII have no case that all backends know."""
    return _unique(map(fold, (text, text.lower(), text.upper(), text.capitalize())))


def build_json_needles(text: str) -> list[str]:
    """Return the texts to look for in folded JSON, where quotes and letters beyond ASCII are escaped."""
    plain = build_needles(text)
    escaped = (fold(json.dumps(each)[1:-1]) for each in (text, text.lower(), text.upper(), text.capitalize()))
    return _unique([*(each for each in plain if each.isascii() and each.isprintable()), *escaped])


_FOLDED = str.maketrans(ascii_uppercase, ascii_lowercase)


def fold(text: str) -> str:
    """Return a text with ASCII letters in lower case, as the databases do it."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


_FIRST_LETTER = 0xA0
"""The characters before are controls, which stay escaped."""
_escaped = re.compile(r"\\(?:u([0-9a-f]{4})|.)", re.DOTALL)


def decode_escapes(text: str) -> str:
    """Return JSON with its escaped letters beyond ASCII as they are, to be read by people."""
    if "\\u" not in text:
        return text
    decoded = _escaped.sub(_decode_letter, text)
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _decode_letter(found: re.Match[str]) -> str:
    code = int(found[1], 16) if found[1] else 0
    return chr(code) if code >= _FIRST_LETTER else found[0]


def cut_preview(text: str) -> str:
    """Return the beginning of a text, marked if something was cut."""
    return text if len(text) <= PREVIEW_CHARS else f"{text[: PREVIEW_CHARS - 1]}…"
