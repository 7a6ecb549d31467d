"""Where a key stands in a file: lines for error messages, found without a second parser."""

import json
import re
from collections.abc import Sequence

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def line_in_toml(text: str, key: Sequence[str]) -> int | None:
    """The line of a key, or of the nearest table above it that is written down; counted from 1."""
    best, best_depth, table = None, 0, tuple[str, ...]()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            here = table
        elif (found := _KEY.match(line)) is not None:
            here = (*table, *_parts(found[1]))
        else:
            continue
        depth = _shared(here, key)
        if depth > best_depth and (depth == len(key) or depth == len(here)):
            best, best_depth = number, depth
    return best


def line_in_json(text: str, key: Sequence[str]) -> int | None:
    """The line of a key in a JSON file: each part of it is looked for behind the one before."""
    at = 0
    for part in key:
        found = re.compile(rf"{re.escape(json.dumps(part, ensure_ascii=False))}\s*:").search(text, at)
        if found is None:
            break
        at = found.end()
    return text.count("\n", 0, at) + 1 if at else None


def _parts(written: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in _PART.findall(written))


def _shared(here: Sequence[str], key: Sequence[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(here, key, strict=False)) if a != b), min(len(here), len(key)))
