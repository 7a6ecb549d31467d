"""Converts the schemas of an OpenAPI description into one JSON Schema with its own definitions."""

import re
from typing import Final

from spindle.errors import InvalidOpenApiError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.kit.openapi.document import ApiDescription
from spindle.text import shorten
from spindle.trust.sanitise import sanitise

_MAX_DEPTH: Final = 100
_MAX_DEFINITIONS: Final = 500
_MAX_TEXT: Final = 2_000
_NAMED: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_SINGLE: Final = frozenset(
    (
        *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_DROPPED: Final = frozenset(
    (
        *("discriminator", "xml", "externalDocs", "nullable", "readOnly", "writeOnly", "example", "deprecated"),
        *("$id", "$anchor", "$dynamicAnchor", "$schema", "$comment"),
    )
)
_UNSAFE = re.compile(r"[^\w.-]")


class SchemaConverter:
    """Converts the schemas of one operation; the definitions they refer to are collected in `definitions`.

    Properties that are `readOnly` are left out: a request must not contain them.
    """

    def __init__(self, description: ApiDescription) -> None:
        self._description = description
        self._names: dict[str, str] = {}
        """The name of each definition by its reference."""
        self.definitions: JsonObject = {}

    def convert(self, schema: JsonValue) -> JsonValue:
        """Convert a schema.

        Raises:
            InvalidOpenApiError: A reference cannot be followed, or the schema is nested too deeply.
        """
        return self._convert(schema, 0)

    def _convert(self, schema: JsonValue, depth: int) -> JsonValue:
        if depth > _MAX_DEPTH:
            raise InvalidOpenApiError(f"a schema is nested deeper than {_MAX_DEPTH} levels")
        if not is_object(schema):
            return schema if isinstance(schema, bool) else True
        reference = schema.get("$ref")
        if isinstance(reference, str):
            pointer: JsonObject = {"$ref": self._refer(reference)}
            if self._description.uses_draft_4:  # there, the keywords beside a reference have no effect
                return pointer
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return {**self._convert_keywords(rest, depth), **pointer} if rest else pointer
        converted = self._convert_keywords(schema, depth)
        if self._description.uses_draft_4:
            _move_bounds(converted)
        return _allow_null(converted) if schema.get("nullable") is True else converted

    def _convert_keywords(self, schema: JsonObject, depth: int) -> JsonObject:
        found: JsonObject = {}
        for key, value in schema.items():
            if key in _DROPPED or key.startswith("x-"):
                continue
            if key in _NAMED and is_object(value):
                found[key] = {
                    name: self._convert(part, depth + 1) for name, part in value.items() if not _is_read_only(part)
                }
            elif key in _LISTS and is_array(value):
                found[key] = [self._convert(part, depth + 1) for part in value]
            elif key in _SINGLE and (is_object(value) or isinstance(value, bool)):
                found[key] = self._convert(value, depth + 1)
            elif key in {"description", "title"}:
                found[key] = sanitise(shorten(str(value), _MAX_TEXT))
            else:
                found[key] = value
        properties, required = schema.get("properties"), found.get("required")
        if is_object(properties) and is_array(required):
            hidden = {name for name, part in properties.items() if _is_read_only(part)}
            found["required"] = [name for name in required if not (isinstance(name, str) and name in hidden)]
        return found

    def _refer(self, reference: str) -> str:
        """Return the reference to a definition, which is converted when it is needed for the first time."""
        if reference not in self._names:
            if len(self._names) >= _MAX_DEFINITIONS:
                raise InvalidOpenApiError(f"its schemas refer to more than {_MAX_DEFINITIONS} definitions")
            name = _UNSAFE.sub("_", reference.rpartition("/")[2])[:80] or "definition"
            taken = set(self._names.values())
            number = 2
            unique = name
            while unique in taken:
                unique, number = f"{name}_{number}", number + 1
            self._names[reference] = unique
            self.definitions[unique] = True  # for a definition that contains itself
            self.definitions[unique] = self._convert(self._description.look_up(reference), 0)
        return f"#/$defs/{self._names[reference]}"


def _is_read_only(schema: JsonValue) -> bool:
    return is_object(schema) and schema.get("readOnly") is True


def _move_bounds(schema: JsonObject) -> None:
    """Replace the boolean bounds of OpenAPI 3.0 by the numbers of later drafts."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _allow_null(schema: JsonObject) -> JsonObject:
    kind, values = schema.get("type"), schema.get("enum")
    if isinstance(kind, str):
        allowed = schema | {"type": [kind, "null"]}
        return allowed | {"enum": [*values, None]} if is_array(values) and None not in values else allowed
    texts = {key: schema.pop(key) for key in ("title", "description", "default") if key in schema}
    return {**texts, "anyOf": [schema, {"type": "null"}]}
