"""Puts together what several subschemas demand of the same value."""

from collections.abc import Callable, Mapping
from typing import Any

from spindle.bridges.lowering_tally import same
from spindle.tools.raw_copy import as_list


def is_combined(keyword: str) -> bool:
    """Say whether one value can demand what several do."""
    return keyword in _COMBINATIONS


def combined(keyword: str, values: list[Any]) -> Any:
    """Give one value that demands what all demand, or what the first does where no value could."""
    if len(values) == 1:
        return values[0]
    combine = _COMBINATIONS.get(keyword)
    return values[0] if combine is None else combine(values)


def types_of(value: Any) -> list[str]:
    """Give `type` as a list."""
    return [value] if isinstance(value, str) else [str(each) for each in as_list(value)]


def narrowed(left: list[str], right: list[str]) -> list[str]:
    """Give the types that are in both lists; every integer is a number."""
    both = [each for each in left if each in right or (each == "integer" and "number" in right)]
    return both + [each for each in right if each == "integer" and "number" in left and each not in both]


def _types(values: list[Any]) -> Any:
    left = types_of(values[0])
    for value in values[1:]:
        left = narrowed(left, types_of(value)) or left
    return left[0] if len(left) == 1 else left


def _enums(values: list[Any]) -> list[Any]:
    left = as_list(values[0])
    for value in values[1:]:
        left = [each for each in left if any(same(each, other) for other in as_list(value))] or left
    return left


def _names(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(name for value in values for name in as_list(value)))


def _texts(values: list[Any]) -> Any:
    texts = list(dict.fromkeys(value for value in values if isinstance(value, str) and value))
    inner = [text for text in texts if not any(text != other and text in other for other in texts)]
    return " ".join(inner) if inner else values[0]


_COMBINATIONS: Mapping[str, Callable[[list[Any]], Any]] = {
    "type": _types,
    "enum": _enums,
    "required": _names,
    "description": _texts,
    "uniqueItems": any,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
