"""`true` is no number: pydantic's lax mode takes it for 1, but the schema the model was told does not."""

from collections.abc import Callable, Iterable
from typing import Any, cast

from pydantic import ValidationError

from spindle.tools.problems import Problem, path_text

_NOT_A_NUMBER = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "decimal_parsing": "a number",
    "complex_str_parsing": "a number",
}


def may_hold_boolean(arguments: dict[str, Any], given: object) -> bool:
    """Whether a boolean is anywhere in the arguments; in JSON text, its word is looked for without a walk."""
    if isinstance(given, bytes):
        return b"true" in given or b"false" in given
    if isinstance(given, str):
        return "true" in given or "false" in given
    return _holds_boolean(arguments.values())


def _holds_boolean(values: Iterable[Any]) -> bool:
    for value in values:
        if value is True or value is False:
            return True
        if isinstance(value, list) and _holds_boolean(cast("list[Any]", value)):
            return True
        if isinstance(value, dict) and _holds_boolean(cast("dict[Any, Any]", value).values()):
            return True
    return False


def booleans_for_numbers(arguments: dict[str, Any], validate: Callable[[Any], Any]) -> list[Problem]:
    """Find the booleans that stand where a number is wanted, in arguments that are valid otherwise.

    They are validated once more with each boolean as text, which still satisfies a boolean but no number.
    """
    try:
        validate(_booleans_as_text(arguments))
    except ValidationError as error:
        return [
            Problem(path=path_text(each["loc"]), expected=_NOT_A_NUMBER[each["type"]], received="a boolean")
            for each in error.errors(include_url=False)
            if each["type"] in _NOT_A_NUMBER and isinstance(_at(arguments, each["loc"]), bool)
        ]
    return []


def _booleans_as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return {key: _booleans_as_text(part) for key, part in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_booleans_as_text(part) for part in cast("list[Any]", value)]
    return value


def _at(arguments: Any, loc: tuple[str | int, ...]) -> Any:
    for step in loc:
        try:
            arguments = arguments[step]
        except (KeyError, IndexError, TypeError):
            continue  # the label of a union's branch is in the place, but not in the arguments
    return arguments
