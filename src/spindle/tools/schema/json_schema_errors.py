"""Translation of JSON Schema validation errors into problems for the model; received values are never included."""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_object, untyped
from spindle.text import join_options, quote_name, to_printable
from spindle.tools.schema.base import (
    Location,
    Problem,
    describe_kind,
    format_location,
    merge_by_path,
    suggest_name,
    suggest_option,
)
from spindle.tools.schema.graph import as_list, as_object, is_encodable

if TYPE_CHECKING:
    # Only for types: importing it takes 25 ms, which only a process with such a tool should spend.
    from jsonschema_rs import ValidationError

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_LIMITS = {
    "minimum": "a number of at least {}",
    "maximum": "a number of at most {}",
    "exclusiveMinimum": "a number greater than {}",
    "exclusiveMaximum": "a number less than {}",
    "minLength": "text of at least {} characters",
    "maxLength": "text of at most {} characters",
    "minItems": "a list of at least {} items",
    "maxItems": "a list of at most {} items",
    "additionalItems": "a list of at most {} items",
    "minProperties": "an object with at least {} entries",
    "maxProperties": "an object with at most {} entries",
    "multipleOf": "a multiple of {}",
    "pattern": "text that matches the pattern {}",
    "format": "text in the format {}",
    "contentEncoding": "text in the encoding {}",
    "contentMediaType": "text of the media type {}",
}
_FIXED = {
    "uniqueItems": "a list without repeats",
    "contains": "a list with an item of the kind the schema asks for",
    "unevaluatedItems": "a list without further items",
    "not": "a value that the schema does not rule out",
    "falseSchema": "nothing here",
}
_MAX_DEPTH = 200
_ANY = "a value that fits the schema"
_TOO_HARD = ("BacktrackLimitExceeded", "RegexEngineFailure")


class JsonSchemaErrorTranslator:
    """A translator of the validation errors of one schema."""

    def __init__(self, schema: JsonObject, *, secret_fields: frozenset[str]) -> None:
        self._schema = schema
        self._secret_fields = secret_fields

    def translate(self, errors: Iterable["ValidationError"], data: JsonObject) -> list[Problem]:
        """Return the problems for a validator's errors."""
        return merge_by_path([problem for error in errors for problem in self._problems(error, data)])

    def _problems(self, error: "ValidationError", data: JsonValue) -> list[Problem]:
        at: Location = tuple(error.instance_path)
        if at and at[0] in self._secret_fields:
            return [self._secret(error, at, data)]
        kind, value = error.kind.name, error.kind.value
        if kind in ("anyOf", "oneOf"):
            return self._alternatives(value, at, data)
        if kind in ("additionalProperties", "unevaluatedProperties"):
            return [self._unknown(error, at, str(name)) for name in value]
        if kind == "required":
            return [self._build_missing(error, at, value)]
        if kind == "falseSchema" and list(error.schema_path)[-1:] == ["additionalProperties"]:
            return [self._unknown(error, at, name) for name in as_object(_at(data, at)) or {}]
        return [self._plain(error, at, data)]

    def _plain(self, error: "ValidationError", at: Location, data: JsonValue) -> Problem:
        received = _at(data, at)
        hint = suggest_option(received, _options(error))
        return Problem(
            path=format_location(at), expected=describe_expectation(error), received=describe_kind(received), hint=hint
        )

    def _secret(self, error: "ValidationError", at: Location, data: JsonValue) -> Problem:
        """Describe what a secret field accepts without anything derived from its value: no inner path, no hint."""
        is_own = len(at) == 1
        expected = describe_expectation(error) if is_own else _ANY
        received = describe_kind(_at(data, at)) if is_own else "another value"
        return Problem(path=format_location(at[:1]), expected=expected, received=received)

    def _build_missing(self, error: "ValidationError", at: Location, name: str) -> Problem:
        properties = as_object(self._owner(error).get("properties")) or {}
        words = _type_words((as_object(properties.get(name)) or {}).get("type")) or "a value"
        return Problem(path=format_location((*at, name)), expected=f"{words}, for it is required", received="missing")

    def _unknown(self, error: "ValidationError", at: Location, name: str) -> Problem:
        names = list(as_object(self._owner(error).get("properties")) or {})
        expected = f"only {join_options(map(quote_name, names))}" if names else "no such entry"
        hint = suggest_name(name, names)
        return Problem(path=format_location((*at, name)), expected=expected, received="unknown argument", hint=hint)

    def _owner(self, error: "ValidationError") -> JsonObject:
        """Return the subschema whose keyword failed; empty if it is not part of the tool's schema."""
        return as_object(_at(self._schema, tuple(error.schema_path)[:-1])) or {}

    def _alternatives(self, branches: list[list["ValidationError"]], at: Location, data: JsonValue) -> list[Problem]:
        """Return the problems of the nearest alternatives: those that accept the value's type, with fewest problems."""
        own = format_location(at)
        if any(not branch for branch in branches):
            expected = "a value that fits exactly one of the alternatives"
            return [Problem(path=own, expected=expected, received="one that fits several")]
        tried = [[problem for error in branch for problem in self._problems(error, data)] for branch in branches]
        closer = [branch for branch in tried if all(problem.path != own for problem in branch)]
        fewest = min((len(branch) for branch in closer), default=0)
        kept = [branch for branch in closer if len(branch) == fewest] or tried
        return [problem for branch in kept for problem in branch]


def find_non_json(data: object) -> list[Problem]:
    """Return the first value that a validator cannot read as JSON."""
    unknown = Problem(path="", expected="JSON values only", received="something else")
    return [next(_strange(data, ()), unknown)]


def _strange(value: object, at: Location) -> Iterator[Problem]:
    if isinstance(value, str):
        if not is_encodable(value):
            yield Problem(
                path=format_location(at), expected="text of whole characters", received="half of a surrogate pair"
            )
    elif len(at) > _MAX_DEPTH:
        yield Problem(path=format_location(at), expected="a flatter value", received=f"more than {_MAX_DEPTH} levels")
    elif is_object(value):
        for name, inner in value.items():
            if not isinstance(untyped(name), str) or not is_encodable(name):
                yield Problem(path=format_location(at), expected="names that are text", received="another name")
            yield from _strange(inner, (*at, name))
    elif is_list_or_tuple(value):
        for index, inner in enumerate(value):
            yield from _strange(inner, (*at, index))
    elif value is not None and not isinstance(value, (int, float)):
        yield Problem(path=format_location(at), expected="a JSON value", received=describe_kind(value))


def describe_expectation(error: "ValidationError") -> str:
    """Describe what the failed schema keyword requires."""
    kind, value = error.kind.name, error.kind.value
    if kind == "type":
        return _type_words(value) or _ANY
    if kind in ("enum", "const"):
        return join_options(map(_format_option, _options(error))) or "nothing: the schema allows no value"
    if kind == "propertyNames":
        return f"every name in it to be {describe_expectation(value)}"
    if type(error.kind).__name__ in _TOO_HARD:
        return "text that is quicker to match against the schema's pattern"
    if kind in _LIMITS:
        return _LIMITS[kind].format(to_printable(str(value), 200))
    return _FIXED.get(kind, _ANY)


def _options(error: "ValidationError") -> list[JsonValue]:
    kind, value = error.kind.name, error.kind.value
    return as_list(value) if kind == "enum" else [value] if kind == "const" else []


def _format_option(option: object) -> str:
    return quote_name(option) if isinstance(option, str) else to_printable(json.dumps(option, ensure_ascii=False), 100)


def _type_words(types: object) -> str:
    names = [types] if isinstance(types, str) else as_list(types)
    return join_options(_TYPES.get(str(name), str(name)) for name in names)


def _at(value: JsonValue, location: Location) -> JsonValue:
    """Return the value at a location in JSON, or None."""
    for step in location:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value
