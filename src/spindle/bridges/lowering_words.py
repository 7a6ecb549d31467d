"""Says in plain words what a dialect's keywords cannot, so that the model is told all the same."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from spindle.bridges.lowering_parts import NOTES
from spindle.tools.raw_copy import as_list, as_object

_MAX_CHARS = 300
_BARE = {"type", "required"}


def words_for(keyword: str, value: Any) -> str | None:
    """Give the words for a constraint; `None` where there are none, or far too many."""
    say = _SAYINGS.get(keyword)
    said = say(value) if say is not None else None
    return said if said is not None and len(said) <= _MAX_CHARS else None


def with_words(description: Any, words: list[str]) -> str:
    """Put the words behind a description, in brackets."""
    told = f"({'; '.join(dict.fromkeys(words))})"
    return f"{description} {told}" if isinstance(description, str) and description else told


def needed_names(branches: list[Any]) -> list[list[str]] | None:
    """Give the names each alternative requires, where requiring is all that the alternatives do."""
    listed: list[list[str]] = []
    for branch in branches:
        schema = as_object(branch)
        if schema is None or not schema.keys() <= _BARE or schema.get("type", "object") != "object":
            return None
        listed.append([str(name) for name in as_list(schema.get("required"))])
    return listed if all(listed) else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _count(lower: str, unit: str) -> Callable[[Any], str]:
    return lambda number: f"{lower} {number} {unit}{'' if number == 1 else 's'}"


def _one_of(values: Any) -> str:
    return f"one of {', '.join(map(_json, as_list(values)))}"


def _depends(value: Any) -> str | None:
    listed = as_object(value) or {}
    told = [f"{name} needs {', '.join(map(str, as_list(names)))}" for name, names in listed.items()]
    return "; ".join(told) or None


def _values(value: Any) -> str | None:
    schema = as_object(value) or {}
    types = schema.get("type")
    if schema.keys() <= {"type", *NOTES} or "$ref" in _json(schema):
        return f"every value is of type {types}" if isinstance(types, str) else None
    return f"every value matches the schema {_json(schema)}"


def _schema(lead: str) -> Callable[[Any], str]:
    return lambda value: f"{lead} {_json(value)}"


def _choice(lead: str) -> Callable[[Any], str | None]:
    def say(branches: Any) -> str | None:
        needed = needed_names(as_list(branches))
        return None if needed is None else f"{lead} {', or '.join(' and '.join(names) for names in needed)}"

    return say


def _patterns(value: Any) -> str | None:
    schemas = as_object(value) or {}
    if "$ref" in _json(schemas):
        return f"its keys may match {', '.join(schemas)}"
    return "; ".join(f"the value of a key that matches {each} matches {_json(schemas[each])}" for each in schemas)


_SAYINGS: Mapping[str, Callable[[Any], str | None]] = {
    "pattern": lambda value: f"must match {value}",
    "format": lambda value: f"format {value}",
    "minLength": _count("at least", "character"),
    "maxLength": _count("at most", "character"),
    "minItems": _count("at least", "item"),
    "maxItems": _count("at most", "item"),
    "minProperties": _count("at least", "key"),
    "maxProperties": _count("at most", "key"),
    "minimum": lambda value: f"at least {value}",
    "maximum": lambda value: f"at most {value}",
    "exclusiveMinimum": lambda value: f"greater than {value}",
    "exclusiveMaximum": lambda value: f"less than {value}",
    "multipleOf": lambda value: f"a multiple of {value}",
    "uniqueItems": lambda value: "no item twice" if value is True else None,
    "default": lambda value: f"default {_json(value)}",
    "const": lambda value: f"always {_json(value)}",
    "enum": _one_of,
    "not": _schema("must not match the schema"),
    "contains": _schema("has an item that matches the schema"),
    "propertyNames": _schema("every key matches the schema"),
    "patternProperties": _patterns,
    "dependentRequired": _depends,
    "additionalProperties": _values,
    "anyOf": _choice("needs"),
    "oneOf": _choice("needs exactly one of"),
}
