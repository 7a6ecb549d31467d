"""Previews of results that exceed their budget, without the truncation marker, which the caller appends.

`preview_json` keeps the structure of JSON, `preview_table` the header and some rows; plain text is cut at the end.
"""

import csv
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, Literal, TypeAlias

from spindle.artifacts.json_artifact import is_json, parse_json
from spindle.execution.budget import allot, first_chars
from spindle.json_types import JsonObject, JsonValue

MAX_DEPTH: Final = 24
"""Values nested deeper are only counted."""
MAX_PARSED_CHARS: Final = 32 << 20
"""A longer text is not parsed: its values could take gigabytes of memory."""
MAX_KEY_CHARS: Final = 100
HUGE_BITS: Final = 10_000
"""Larger integers are only described: Python refuses to print integers of more than 4,300 digits."""

MIN_ROOM: Final = 24
"""Enough for every note that replaces a value."""
OMITTED: Final = '"…"'
BLANK: Final = "\ufeff \t\r\n"
"""Characters that may precede the first bracket."""

Container: TypeAlias = JsonObject | list[JsonValue] | tuple[JsonValue, ...]
_CONTAINERS = (dict, list, tuple)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _NotJsonError(Exception):
    """Raised for a value that is not a plain JSON type."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One entry of a container that the preview includes."""

    lead: str
    """The key and its colon; empty in an array."""
    value: JsonValue
    size: int
    """Its size in characters; `measured_to + 1` if it is larger than that."""
    measured_to: int


def preview_json(text: str, cap: int, structured: JsonValue = None) -> str | None:
    """Return a preview of a JSON text of at most `cap` characters, or `None` if it cannot be built.

    If `structured` is the parsed value of the text, the text is not parsed again.
    """
    if cap < MIN_ROOM:
        return None
    for value in _iter_values(text, structured):
        try:
            return _render(value, cap, depth=0)
        except _NotJsonError:
            continue
    return None


def _iter_values(text: str, structured: JsonValue) -> Iterator[JsonValue]:
    begins = text[:64].lstrip(BLANK)[:1]
    if (begins == "{" and type(structured) is dict) or (begins == "[" and type(structured) in (list, tuple)):
        yield structured
    if len(text) <= MAX_PARSED_CHARS:
        try:
            value = parse_json(text.removeprefix("\ufeff"))
        except ValueError:
            return
        yield value


def _render(value: JsonValue, room: int, depth: int) -> str:
    if type(value) is str:
        return _render_string(value, room)
    if type(value) in _CONTAINERS:
        return _encode(value) if _size(value, room) <= room else _render_container(value, room, depth)
    written = _render_scalar(value)
    return written if len(written) <= room else OMITTED


def _render_scalar(value: JsonValue) -> str:
    if type(value) is int:
        bits = value.bit_length()
        return repr(value) if bits <= HUGE_BITS else f'"… integer of about {bits * 30103 // 100_000} digits"'
    if value is None or type(value) in (bool, float):
        return _encode(value)
    raise _NotJsonError


def _render_string(text: str, room: int) -> str:
    if len(text) + 2 <= room:
        whole = _encode(text)
        if len(whole) <= room:
            return whole
    note = f"… ({len(text)} chars)"
    keep = room - len(note) - 2
    if keep < 0:
        return OMITTED

    def escaped(count: int) -> str:
        return _encode(first_chars(text, count))[1:-1]

    # Nearly always the first guess; escapes make a text longer, up to six times.
    count = keep if len(escaped(keep)) <= keep else bisect_right(range(keep), keep, key=lambda n: len(escaped(n))) - 1
    return f'"{escaped(count)}{note}"'


def _render_container(value: Container, room: int, depth: int) -> str:
    """Render the parts that fit, each in its fair share of the room, and a count of the others."""
    is_object = isinstance(value, dict)
    note_room = len(_part_note(len(value) - 1, len(value), is_object=is_object)) + 1
    inner = room - note_room - 2
    parts = _pick(value, inner) if depth < MAX_DEPTH else []
    left = len(value) - len(parts)
    if left == 0:
        inner += note_room
    shares = _shares(parts, inner - sum(len(part.lead) + 1 for part in parts))
    shown = [part.lead + _render(part.value, share, depth + 1) for part, share in zip(parts, shares, strict=True)]
    if left:
        shown.append(_part_note(left, len(value), is_object=is_object))
    inside = ",".join(shown)
    written = f"{{{inside}}}" if is_object else f"[{inside}]"
    return written if len(written) <= room else OMITTED


def _part_note(left: int, total: int, *, is_object: bool) -> str:
    says = f"{left} more of {total}" if left < total else f"{total} left out"
    return f'"…":"{says}"' if is_object else f'"… {says}"'


def _pick(value: Container, room: int) -> list[_Part]:
    """Return the first parts that fit: keys of an object, or items of an array with a useful minimum size."""
    some = max(room // 4, MIN_ROOM)
    if not isinstance(value, dict):
        return _take_fitting((("", item) for item in value), room, some)
    keys = _take_fitting(_entries(value), room, MIN_ROOM)
    if len(keys) * 2 >= len(value):
        return keys
    # Most keys do not fit: the object is a map of many records, and a few full records are more useful than bare keys.
    return _take_fitting(_entries(value), room, some) or _take_fitting(_entries(value), room, len(OMITTED))


def _entries(value: dict[Any, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    for key, item in value.items():
        if type(key) is not str:
            raise _NotJsonError
        yield _render_string(key, MAX_KEY_CHARS) + ":", item


def _take_fitting(entries: Iterable[tuple[str, JsonValue]], room: int, min_room: int) -> list[_Part]:
    """Return the first entries that fit when each takes its size, limited to `some`."""
    parts: list[_Part] = []
    for lead, item in entries:
        wants = _size(item, min_room)
        room -= len(lead) + min(wants, min_room) + 1
        if room < 0:
            break
        parts.append(_Part(lead, item, wants, min_room))
    return parts


def _shares(parts: list[_Part], room: int) -> list[int]:
    """Allot `room` among the parts without measuring any part much beyond the room it can get."""
    wants = [part.size for part in parts]
    measured_to = max((part.measured_to for part in parts), default=room)
    while sum(wants) < room and measured_to < room:
        before, measured_to = measured_to, min(measured_to * 2, room)
        wants = [
            _size(part.value, measured_to) if want > before else want for part, want in zip(parts, wants, strict=True)
        ]
    return allot(room, wants)


def _size(value: JsonValue, limit: int) -> int:
    """Return the length of `value` as compact JSON; `limit + 1` if it is longer or nested too deeply."""
    left = limit
    open_containers: list[Iterator[JsonValue]] = [iter((value,))]
    while open_containers:
        item: JsonValue = next(open_containers[-1], _END)
        if item is _END:
            open_containers.pop()
            continue
        if type(item) in _CONTAINERS:
            left -= _frame(item)
            if left < 0 or len(open_containers) > MAX_DEPTH:
                return limit + 1
            open_containers.append(_inside(item))
            continue
        left -= _flat_size(item, left)
        if left < 0:
            return limit + 1
    return limit - left


_END = object()


def _frame(container: Container) -> int:
    """Return the number of brackets, commas and colons."""
    count = len(container)
    return max(count * 2, 1) + 1 if isinstance(container, dict) else max(count, 1) + 1


def _inside(container: Container) -> Iterator[JsonValue]:
    if not isinstance(container, dict):
        return iter(container)
    keys: Iterable[object] = container
    if any(type(key) is not str for key in keys):
        raise _NotJsonError
    return chain.from_iterable(container.items())


def _flat_size(value: JsonValue, enough: int) -> int:
    if type(value) is str:
        return len(value) + 2 if len(value) > enough else len(_encode(value))
    if type(value) is int and value.bit_length() > HUGE_BITS:
        return enough + 1  # forces the container to be rendered part by part
    return len(_render_scalar(value))


def preview_table(text: str, cap: int) -> str | None:
    """Return a preview of CSV, TSV or JSON Lines of at most `cap` characters, or `None` if no row fits."""
    header_lines = 0 if text[:64].lstrip(BLANK)[:1] in ("{", "[") else 1
    end = len(text) - text.endswith("\n")
    rows = text.count("\n", 0, end) + 1 - header_lines
    # A quoted cell may span lines, so a line is not always a row.
    unit = "lines" if header_lines and '"' in text else "rows"
    room = cap - len(_row_note(rows, rows, unit)) - 1
    last = _last_line(text, end, max(room // 3, 0))
    shown = text[: text.rfind("\n", 0, max(room - len(last), 0)) + 1]
    shown_rows = shown.count("\n") - header_lines
    if shown_rows < 0 or (shown_rows == 0 and not last):
        return None
    note = _row_note(rows - shown_rows - bool(last), rows, unit)
    return f"{shown}{note}\n{last}" if last else shown + note


def _row_note(left: int, rows: int, unit: str) -> str:
    return f"[… {left} more of {rows} {unit}]"


def _last_line(text: str, end: int, room: int) -> str:
    """Return the last line without its newline, or "" if it exceeds `room`."""
    start = text.rfind("\n", max(end - room - 1, 0), end)
    return text[start + 1 : end] if start >= 0 else ""


Kind: TypeAlias = Literal["text", "json", "table"]

MIN_SHAPED_CHARS: Final = 40
"""With less room the notes would be longer than the content."""

_HEAD_CHARS = 16_384
_TAIL_CHARS = 256
_SAMPLE_LINES = 5
_CLOSING = {"{": "}", "[": "]"}
_COLUMN_NAME = re.compile(r"""[^\W\d][^"'{}<>=\[\]();,!?]{0,63}(\([^()]*\))?""")


def preview(text: str, cap: int, *, structured: JsonValue = None, kind: Kind) -> str:
    """Return a preview of `text` of at most `cap` characters; fall back to cutting it as plain text.

    If `structured` is the parsed value of a JSON text, the text is not parsed again.
    """
    if len(text) <= cap:
        return text
    shaped: str | None = None
    if cap >= MIN_SHAPED_CHARS and kind != "text":
        shaped = preview_json(text, cap, structured) if kind == "json" else preview_table(text, cap)
    return first_chars(text, cap) if shaped is None else shaped


def detect_kind(text: str, structured: JsonValue = None) -> Kind:
    """Detect the format of a text from its first lines; fall back to plain text."""
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
    """Return the first lines, without a last line that may be incomplete."""
    lines = head.split("\n", _SAMPLE_LINES)
    if len(lines) > _SAMPLE_LINES or cut_off or not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def _is_json_lines(lines: list[str]) -> bool:
    return len(lines) >= 2 and all(line[:1] in _CLOSING and is_json(line) for line in lines)


def _is_delimited(lines: list[str], delimiter: str) -> bool:
    """Return whether the lines have a header and equally long rows; logs and prose have commas but no header."""
    try:
        rows = list(islice(csv.reader(lines, delimiter=delimiter, strict=True), _SAMPLE_LINES))
    except csv.Error:
        return False
    if len(rows) < 3 or len(rows[0]) < 2:
        return False
    names = rows[0]
    named = all(_COLUMN_NAME.fullmatch(name) for name in names) and len(set(names)) == len(names)
    return named and all(len(row) == len(names) for row in rows)
