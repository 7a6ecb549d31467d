"""Replacing text exactly: as often as was said, or not at all, and then with where it went wrong."""

import re
from dataclasses import dataclass

_MAX_SHOWN = 20
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Patched:
    """A text with its replacements, or `None`, and what there is to say."""

    text: str | None
    said: str


def patched(text: str, old: str, new: str, count: int) -> Patched:
    """Replace `old` by `new` if it occurs exactly `count` times."""
    if old == new:
        return Patched(None, "old and new are the same text.")
    old, new = _with_line_ends_of(text, old, new)
    places = _places(text, old)
    if len(places) == count:
        at = "line" if count == 1 else "lines"
        return Patched(text.replace(old, new), f"{count} replaced, at {at} {_listed(places)}.")
    if not places:
        return Patched(None, f"old was not found. {_near(text, old)}")
    times = "once" if len(places) == 1 else f"{len(places)} times"
    hint = "give more of the lines around it" if len(places) > count else "look again with read_file"
    return Patched(
        None,
        f"old was found {times}, not {count}: at {_listed(places)}. To go on, {hint}, or give count {len(places)}.",
    )


def _with_line_ends_of(text: str, old: str, new: str) -> tuple[str, str]:
    """Write `old` and `new` with the file's own line ends: models see and write plain newlines."""
    if "\r\n" not in text or "\r\n" in old or ("\n" in old and old in text):
        return old, new
    return old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")


def _places(text: str, old: str) -> list[int]:
    """The lines, counted from 1, where `old` begins."""
    lines: list[int] = []
    line, seen = 1, 0
    at = text.find(old)
    while at >= 0:
        line += text.count("\n", seen, at)
        lines.append(line)
        seen = at
        at = text.find(old, at + len(old))
    return lines


def _listed(lines: list[int]) -> str:
    more = f" and {len(lines) - _MAX_SHOWN} more" if len(lines) > _MAX_SHOWN else ""
    return ", ".join(map(str, lines[:_MAX_SHOWN])) + more


def _near(text: str, old: str) -> str:
    """Where something stands that differs only in spaces or in case, as far as one can tell."""
    for way, normal in (("spaces or line breaks", _spaceless), ("upper and lower case", str.casefold)):
        wanted = normal(old)
        if wanted and (found := normal(text).find(wanted)) >= 0:
            line = _line_of(text, normal, found)
            return f"It stands at line {line}, but with other {way}; copy it exactly, with read_file's start_line."
    first = _spaceless(next((line for line in old.splitlines() if line.strip()), ""))
    starts = [number for number, line in enumerate(text.splitlines(), 1) if first and _spaceless(line) == first]
    if starts:
        return f"Its first line stands at {_listed(starts)}, but what follows there is different."
    return "Read the file to see what it says now."


def _spaceless(text: str) -> str:
    return _SPACES.sub("", text)


def _line_of(text: str, normal: object, found: int) -> int:
    """The line in which the character number `found` of the normalised text stands."""
    seen = 0
    for number, line in enumerate(text.split("\n"), 1):
        seen += len(_spaceless(line)) if normal is _spaceless else len(line.casefold()) + 1
        if found < seen:
            return number
    return text.count("\n") + 1
