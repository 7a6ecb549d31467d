"""The structured value of a result as MCP clients receive it: sanitised, labelled, and within the call's budget.

A client may show it to its model without an envelope. Strings of untrusted tools are therefore sanitised, and a value
that is larger than the budget is shortened or withheld. Whatever is sent matches the tool's `outputSchema`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from spindle.calls import CallOutcome, Ok
from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.tools.schema.json_schema import RawSchema
from spindle.trust.sanitise import sanitise

TRUST: Final = "spindle/trust"
"""Key in a result's `_meta`: `untrusted` if its structured content was written by an untrusted tool."""
SHORTENED: Final = "spindle/shortened"
"""Key in a result's `_meta`: true if strings of its structured content are cut."""
_MIN_STRING: Final = 64
_ROUNDS: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class StructuredContent:
    """The structured value of one result, or why there is none."""

    value: JsonValue = None
    is_present: bool = False
    is_shortened: bool = False
    problem: str | None = None
    """Why the value of a tool is not sent, for the model and the user."""


def prepare_structured(
    outcome: CallOutcome, schema: JsonObject | None, *, clean: bool, max_chars: int | None, any_value: bool
) -> StructuredContent:
    """Return the structured value of an outcome as it may be sent; with `any_value` it need not be an object."""
    result = outcome.result
    value = result.structured if isinstance(result, Ok) else None
    if not isinstance(result, Ok) or not (is_object(value) or (any_value and value is not None)):
        return StructuredContent()
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        value = json.loads(text.encode())
        is_cut = max_chars is not None and len(text) > max_chars
        if is_cut and max_chars is not None:
            shorter = _shorten_strings(value, text, max_chars)
            if shorter is None:
                return StructuredContent(problem=_describe_size(len(text), max_chars))
            value = shorter
        shown = map_strings(value, sanitise) if clean and not result.trusted else value
        if shown is not value and max_chars is not None:  # sanitised strings are longer
            shown = _fit(shown, max_chars)
    except (TypeError, ValueError, RecursionError):
        return StructuredContent()
    if (is_cut or shown is not value) and schema is not None and not _matches(schema, shown):
        if is_cut:
            return StructuredContent(problem=_describe_size(len(text), max_chars or 0))
        return StructuredContent(problem=_UNSAFE)
    return StructuredContent(value=shown, is_present=True, is_shortened=is_cut)


_UNSAFE: Final = (
    "The structured result of this tool has text that poses as a message to the model, and without that text it does "
    "not match its schema. Only the text of the result is sent."
)


def _describe_size(chars: int, max_chars: int) -> str:
    return (
        f"The tool has run. Its structured result has {chars} characters, and the limit is {max_chars}, "
        "so only the text of the result is sent."
    )


def map_strings(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """Apply a function to every string and key of a JSON value; return the same object if nothing changes.

    Raises:
        ValueError: Two keys of an object would become equal.
    """
    if isinstance(value, str):
        return change(value)
    if is_array(value):
        items = [map_strings(each, change) for each in value]
        return value if all(new is old or new == old for new, old in zip(items, value, strict=True)) else items
    if not is_object(value):
        return value
    members = {change(key): map_strings(each, change) for key, each in value.items()}
    if len(members) != len(value):
        raise ValueError("two keys of an object become equal")
    return value if members == value else members


def _shorten_strings(value: JsonValue, text: str, max_chars: int) -> JsonValue:
    """Cut the longest strings until the value fits, each with a note; return `None` if that does not suffice.

    Nothing else is left out: a list that looks complete and is not would mislead a program.
    """
    lengths = sorted(len(each) for each in _iter_strings(value))
    fixed = len(text) - sum(lengths)
    room = max_chars - fixed
    cap = _find_cap(lengths, room)
    for _ in range(_ROUNDS):
        if cap < _MIN_STRING:
            return None
        limit = cap
        shorter = map_strings(value, lambda each, limit=limit: _cut(each, limit))
        if len(json.dumps(shorter, ensure_ascii=False)) <= max_chars:
            return shorter
        cap = int(cap * 0.8)  # notes and escapes take room, too
    return None


def _fit(value: JsonValue, max_chars: int) -> JsonValue:
    text = json.dumps(value, ensure_ascii=False)
    fitted = value if len(text) <= max_chars else _shorten_strings(value, text, max_chars)
    if fitted is None:
        raise ValueError("the sanitised value is too large")
    return fitted


def _find_cap(lengths: list[int], room: int) -> int:
    """Return the largest length to which strings can be cut so that all of them fit."""
    for place, length in enumerate(lengths):
        share = room // (len(lengths) - place)
        if length > share:
            return share
        room -= length
    return lengths[-1] if lengths else 0


def _cut(text: str, limit: int) -> str:
    note = f"… [truncated — {len(text)} chars total]"
    return text if len(text) <= limit else text[: max(0, limit - len(note))] + note


def _iter_strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_array(value):
        for each in value:
            yield from _iter_strings(each)
    elif is_object(value):
        for each in value.values():
            yield from _iter_strings(each)


def _matches(schema: JsonObject, value: JsonValue) -> bool:
    validate = _build_validator(json.dumps(schema))
    if validate is None:
        return False
    try:
        validate(value)
    except InvalidToolArgsError:
        return False
    return True


@lru_cache(maxsize=256)
def _build_validator(schema: str) -> Callable[[JsonValue], object] | None:
    try:
        return RawSchema(allow_any_root(json.loads(schema)), tool="").validate
    except InvalidToolError:
        return None


def allow_any_root(schema: JsonObject) -> JsonObject:
    """Move the root `type` into `allOf`: `RawSchema` requires an object at the root, a result may be any value."""
    conditions = schema.get("allOf", [])
    if "type" not in schema or not is_array(conditions):
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**rest, "allOf": [*conditions, {"type": schema["type"]}]}
