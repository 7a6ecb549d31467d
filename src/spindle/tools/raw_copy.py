"""Takes a JSON Schema from outside: a copy of our own, of bounded size and depth, and JSON through and through."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

from spindle.errors import InvalidToolError
from spindle.tools.problems import kind_of

_MAX_DEPTH = 200
_MAX_VALUES = 250_000
_MAX_CHARACTERS = 5_000_000


def schema_copy(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema, so that later changes of the caller's change nothing.

    Raises:
        InvalidToolError: It is too large, too deep, or holds what JSON cannot.
    """
    return _Copier().copy(schema, "#", _MAX_DEPTH)


def pointer(at: str, step: str | int) -> str:
    """Extend the JSON pointer of a place by one step."""
    return f"{at}/{str(step)[:60].replace('~', '~0').replace('/', '~1')}"


def as_object(value: object) -> dict[str, Any] | None:
    """Take a JSON value for an object, if it is one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any]:
    """Take a JSON value for a list; anything else is an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def is_whole(text: str) -> bool:
    """Tell whether text has no half of a surrogate pair, which no encoding can carry."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


class _Copier:
    """Counts as it copies, for a small object that contains itself is an endless one."""

    def __init__(self) -> None:
        self._values = _MAX_VALUES
        self._characters = _MAX_CHARACTERS

    def copy(self, value: Any, at: str, levels: int) -> Any:
        self._spend(values=1)
        if isinstance(value, str):
            return self._copy_text(value, at)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            if not isfinite(value):
                raise _refused(f"holds NaN or an infinite number at {at}; JSON has neither, use null or leave it out")
            return value
        if levels <= 0:
            raise _refused(
                f"is nested deeper than {_MAX_DEPTH} levels at {at[:200]}; use $defs and $ref for inner parts"
            )
        if isinstance(value, Mapping):
            return self._copy_object(cast("Mapping[Any, Any]", value), at, levels)
        if isinstance(value, (list, tuple)):
            items = cast("list[Any]", value)
            return [self.copy(item, pointer(at, i), levels - 1) for i, item in enumerate(items)]
        raise _refused(f"holds {kind_of(value)} at {at}; use only JSON: objects, lists, text, numbers, booleans, null")

    def _spend(self, *, values: int = 0, characters: int = 0) -> None:
        self._values -= values
        self._characters -= characters
        if self._values < 0 or self._characters < 0:
            limits = f"{_MAX_VALUES:,} values and {_MAX_CHARACTERS:,} characters"
            raise _refused(f"is larger than {limits}; share repeated parts through $defs and $ref, or describe less")

    def _copy_text(self, text: str, at: str) -> str:
        self._spend(characters=len(text))
        if not is_whole(text):
            raise _refused(f"holds half of a surrogate pair at {at}; use whole characters")
        return str.__str__(text)

    def _copy_object(self, value: Mapping[Any, Any], at: str, levels: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise _refused(f"has {kind_of(key)} for a key at {at}; in JSON every key is text")
            copied[self._copy_text(key, at)] = self.copy(inner, pointer(at, key), levels - 1)
        return copied


def _refused(reason: str) -> InvalidToolError:
    return InvalidToolError(reason, field="input_schema")
