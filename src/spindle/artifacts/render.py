"""Answers of queries as text, whole or cut to fit.

A cut answer ends with a line that says how much is missing and how to get it; it never looks complete.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, time
from enum import Enum
from typing import Any, Final, cast

from spindle.artifacts.reader import Match


class Undefined(Enum):
    """The type of `UNDEFINED`."""

    UNDEFINED = "(undefined)"


UNDEFINED: Final = Undefined.UNDEFINED
"""There is no such thing here; JSON's `null`, in contrast, is a value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """How large an answer to a model may be."""

    max_items: int = 200
    max_chars: int = 20_000


def serialise(value: Any) -> str:
    """Write a query's result as text for a model."""
    match value:
        case Undefined():
            return value.value
        case str():
            return value
        case list() | tuple():
            return _serialise_list(cast("Sequence[Any]", value))
        case Match():
            return f"{value.line}: {value.text}"
        case _:
            return _as_json(value)


def serialise_rows(value: Any) -> str:
    """Write records one a line, as compact JSON."""
    rows = cast("Sequence[Any]", value)
    if not rows:
        return "(empty list)"
    return "\n".join(json.dumps(row, ensure_ascii=False, default=_plain) for row in rows)


def answer(
    value: Any,
    bounds: Bounds,
    *,
    rest: Callable[[int], str],
    render: Callable[[Any], str] = serialise,
    from_end: bool = False,
) -> str:
    """Write a result within `bounds`; `rest(shown)` says how to get what was left out.

    What is left out follows the first `shown` items; or, with `from_end`, it comes before the last ones.
    """
    if isinstance(value, list | tuple):
        return _answer_list(cast("Sequence[Any]", value), bounds, rest, render, from_end=from_end)
    return _cut(_encodable(render(value)), bounds, rest(0), from_end=from_end)


def _answer_list(
    items: Sequence[Any],
    bounds: Bounds,
    rest: Callable[[int], str],
    render: Callable[[Any], str],
    *,
    from_end: bool,
) -> str:
    shown = _how_many_fit(items[::-1] if from_end else items, bounds, render)
    kept = max(shown, 1)
    text = _encodable(render(list(items[-kept:] if from_end else items[:kept])))
    if shown == 0 and items:
        which, others = ("last", "those before it") if from_end else ("first", "the next")
        inside = f"look inside this {which} item with artifact_grep; for {others}, {rest(1)}"
        return _cut(text, bounds, inside, from_end=from_end)
    if shown == len(items):
        return text
    return f"{text}\n[{shown} items shown, {_where(from_end=from_end)}; {rest(shown)}]"


def _where(*, from_end: bool) -> str:
    return "more come before" if from_end else "more follow"


def _how_many_fit(items: Sequence[Any], bounds: Bounds, render: Callable[[Any], str]) -> int:
    used = 0
    for count, item in enumerate(items[: bounds.max_items]):
        used += len(render([item])) + 1
        if used > bounds.max_chars + 1:
            return count
    return min(len(items), bounds.max_items)


def _cut(text: str, bounds: Bounds, rest: str, *, from_end: bool) -> str:
    if len(text) <= bounds.max_chars:
        return text
    shown = text[-bounds.max_chars :] if from_end else text[: bounds.max_chars]
    return f"{shown}\n[{bounds.max_chars} characters shown, {_where(from_end=from_end)}; {rest}]"


def _serialise_list(items: Sequence[Any]) -> str:
    if not items:
        return "(empty list)"
    if all(isinstance(item, str | Match) for item in items):
        return "\n".join(serialise(item) for item in items)
    return _as_json(items)


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return sorted(cast("set[Any]", value), key=str)
    return str(value)


def _encodable(text: str) -> str:
    # JSON may spell half a surrogate pair; half a character cannot be sent to anyone.
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
