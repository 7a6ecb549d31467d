"""`definitions` become `$defs`, and nothing else changes."""

from typing import Any

from spindle.mcp.client.tools import rename_definitions
from spindle.tools import RawSchema


def test_definitions_and_what_refers_to_them_are_moved() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/x"}, "definitions": {"type": "string"}, "$ref": {"type": "string"}},
        "definitions": {"x": {"anyOf": [{"$ref": "#/definitions/y"}]}, "y": {"type": "integer"}},
    }

    assert rename_definitions(schema) == {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}, "definitions": {"type": "string"}, "$ref": {"type": "string"}},
        "$defs": {"x": {"anyOf": [{"$ref": "#/$defs/y"}]}, "y": {"type": "integer"}},
    }


def test_the_moved_schema_means_the_same() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"enum": ["one"]}},
    }
    validate = RawSchema(rename_definitions(schema), tool="t").validate

    assert validate({"a": "one"}) == {"a": "one"}


def test_data_that_looks_like_a_reference_is_left_alone() -> None:
    data = {"$ref": "#/definitions/x"}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"default": data, "enum": [data]}},
        "definitions": {"x": {}},
    }

    assert rename_definitions(schema)["properties"]["a"] == {"default": data, "enum": [data]}


def test_a_schema_that_has_both_is_left_alone() -> None:
    schema: dict[str, Any] = {"type": "object", "definitions": {"x": {}}, "$defs": {"x": {}}}

    assert rename_definitions(schema) == schema


def test_a_deep_schema_is_no_trouble() -> None:
    deep: dict[str, Any] = {}
    for _ in range(600):
        deep = {"properties": {"a": deep}}

    assert "$defs" in rename_definitions({"type": "object", "definitions": {"x": deep}})
