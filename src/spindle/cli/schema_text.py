"""A JSON Schema in words, and the type that a text of the command line should become."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from spindle.cli.output import Branch

_MAX_DEPTH = 8
_BOUNDS = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "exclusiveMinimum": "> {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "like {}",
    "format": "{}",
}


def resolved(schema: Any, whole: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that a local reference stands for, with what stands beside the reference."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict) or "$ref" not in schema:
            break
        found: Any = whole
        for part in str(cast("Any", schema)["$ref"]).removeprefix("#/").split("/"):
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
        beside = {key: value for key, value in cast("dict[str, Any]", schema).items() if key != "$ref"}
        schema = {**(cast("dict[str, Any]", found) if isinstance(found, dict) else {}), **beside}
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}


def types_of(schema: Any, whole: Mapping[str, Any], depth: int = 0) -> list[str]:
    """The JSON types a value may have, in the schema's own order; empty where anything goes."""
    here = resolved(schema, whole)
    if "enum" in here or "const" in here:
        values = here.get("enum", [here.get("const")])
        return list(dict.fromkeys(_type_of(value) for value in cast("list[object]", values)))
    found = here.get("type")
    if isinstance(found, str):
        return [found]
    if isinstance(found, list):
        return [str(each) for each in cast("list[object]", found)]
    members = [each for word in ("anyOf", "oneOf", "allOf") for each in here.get(word, ())]
    if depth >= _MAX_DEPTH:
        return []
    return list(dict.fromkeys(kind for each in members for kind in types_of(each, whole, depth + 1)))


def parameters(schema: Mapping[str, Any]) -> list[Branch]:
    """The parameters of a tool, each with what it is, and what is below it."""
    return list(_properties(dict(schema), schema, 0))


def _properties(schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> Iterator[Branch]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    for name, given in cast("Mapping[str, Any]", properties).items() if isinstance(properties, dict) else ():
        here = resolved(given, whole)
        parts = [name, f"({in_words(here, whole)})"]
        if name in required:
            parts.append("required")
        elif "default" in here:
            parts.append(f"= {json.dumps(here['default'], ensure_ascii=False)}")
        if here.get("description"):
            parts.append(f"· {here['description']}")
        below = [] if depth >= _MAX_DEPTH else list(_properties(_inner(here, whole), whole, depth + 1))
        yield " ".join(parts), below


def _inner(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that a parameter is, or is a list of."""
    if "properties" in schema:
        return schema
    for candidate in (schema.get("items"), *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        inner = resolved(candidate, whole)
        inner = resolved(inner.get("items"), whole) if inner.get("type") == "array" else inner
        if "properties" in inner:
            return inner
    return {}


def in_words(schema: Any, whole: Mapping[str, Any], depth: int = 0) -> str:
    """What a value may be, in a few words."""
    here = resolved(schema, whole)
    if depth > _MAX_DEPTH:
        return "…"
    if "enum" in here:
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in here["enum"])
    if "const" in here:
        return json.dumps(here["const"], ensure_ascii=False)
    members: Sequence[Any] = here.get("anyOf") or here.get("oneOf") or ()
    if members:
        return " or ".join(dict.fromkeys(in_words(each, whole, depth + 1) for each in members))
    kinds = types_of(here, whole)
    words = " or ".join(kinds) or "anything"
    if kinds == ["array"] and here.get("items"):
        words = f"list of {in_words(here['items'], whole, depth + 1)}"
    bounds = [text.format(here[key]) for key, text in _BOUNDS.items() if key in here]
    return f"{words}, {', '.join(bounds)}" if bounds else words


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"
