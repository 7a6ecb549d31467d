"""The whole text of a result: what its structured value says besides its text is part of it."""

from collections.abc import Iterator
from typing import Final

from spindle.json_types import JsonValue, is_list_or_tuple, is_mapping
from spindle.trust.flow.roles import to_text

_MAX_VALUES: Final = 200_000
_NEAR_CHARS: Final = 200
_MAX_SEARCHED_CHARS: Final = 20_000_000


def build_whole_text(text: str, structured: JsonValue, max_chars: int) -> str:
    """Return a text with the values of a structured result that it does not have.

    What does not fit makes it longer than `max_chars`.
    """
    if structured is None or len(text) > max_chars:
        return text
    parts, chars = [text], len(text)
    at, left = 0, _MAX_SEARCHED_CHARS
    for number, value in enumerate(_iterate(structured)):
        # Most texts are the JSON of their value, which has the values in this order.
        found = text.find(value, at, at + len(value) + _NEAR_CHARS)
        if found < 0 and left > 0:
            left -= len(text)
            found = text.find(value)
        if found >= 0:
            at = found + len(value)
        else:
            parts.append(value)
            chars += len(value) + 1
        if chars > max_chars or number >= _MAX_VALUES:
            parts.append(" " * max_chars)
            break
    return "\n".join(parts)


def _iterate(root: object) -> Iterator[str]:
    """Yield names and values in their order, without recursion: a result may be nested deeply."""
    waiting: list[Iterator[object]] = [iter((root,))]
    while waiting:
        value = next(waiting[-1], waiting)
        if value is waiting:
            waiting.pop()
        elif is_mapping(value):
            waiting.append(part for item in value.items() for part in item)
        elif is_list_or_tuple(value):
            waiting.append(iter(value))
        elif isinstance(value, (str, int, float)):
            yield to_text(value)
        elif value is not None:
            yield str(value)
