"""Schemas with other languages' words, repaired."""

import copy
from typing import Any

import pytest

from spindle.errors import InvalidToolError
from spindle.tools.schema.json_schema import RawSchema
from spindle.tools.schema.repair import repair_schema


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *(("dict", "object"), ("Dict", "object"), ("HashMap", "object"), ("map", "object")),
        *(("list", "array"), ("tuple", "array"), ("ArrayList", "array"), ("Array", "array"), ("set", "array")),
        *(("str", "string"), ("String", "string"), ("char", "string"), ("text", "string")),
        *(("int", "integer"), ("long", "integer"), ("Integer", "integer"), ("short", "integer")),
        *(("float", "number"), ("double", "number"), ("Decimal", "number")),
        *(("bool", "boolean"), ("Boolean", "boolean"), ("None", "null"), (["str", "None"], ["string", "null"])),
        *(("any", None), ("Any", None), ("function", None), (["str", "any"], None), (7, None)),
    ],
)
def test_a_wrong_word_becomes_the_type_it_means(word: Any, meant: Any) -> None:
    repaired, changes = repair_schema({"type": "object", "properties": {"a": {"type": word, "description": "kept"}}})

    expected = {"description": "kept"} if meant is None else {"type": meant, "description": "kept"}
    assert repaired["properties"]["a"] == expected
    assert [change.partition(":")[0] for change in changes] == ["#/properties/a"]
    RawSchema(repaired, tool="t")


@pytest.mark.parametrize(
    ("part", "result"),
    [
        ({"type": "list[int]"}, {"type": "array", "items": {"type": "integer"}}),
        ({"type": "Dict[str, float]"}, {"type": "object", "additionalProperties": {"type": "number"}}),
        ({"type": "array<String>"}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array", "items": "str"}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "tuple", "items": [{"type": "int"}]}, {"type": "array", "prefixItems": [{"type": "integer"}]}),
        ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
        ({"maximum": 3, "exclusiveMaximum": False}, {"maximum": 3}),
        ({"properties": None, "required": None, "default": None}, {"default": None}),
        ({"anyOf": [{"type": "str"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"required": ["b", "b"]}, {"required": ["b"]}),
        ({"properties": {"b": "str", "c": "any"}}, {"properties": {"b": {"type": "string"}, "c": {}}}),
        (
            {"properties": {"b": {"required": True}, "c": {"required": False}}},
            {"properties": {"b": {}, "c": {}}, "required": ["b"]},
        ),
    ],
)
def test_other_mistakes_are_repaired_too(part: dict[str, Any], result: dict[str, Any]) -> None:
    repaired, changes = repair_schema({"properties": {"a": part}})

    assert repaired["properties"]["a"] == result
    assert changes
    RawSchema(repaired, tool="t")


def test_names_and_data_that_look_like_types_stay() -> None:
    schema = {
        "type": "object",
        "properties": {"type": {"enum": ["dict", "float"]}, "dict": {"const": {"type": "float"}, "default": "int"}},
        "required": ["type"],
        "$defs": {"float": {"type": ["string", "null"]}},
        "additionalProperties": False,
    }

    assert repair_schema(schema) == (schema, [])


def test_the_input_stays_as_it_was() -> None:
    schema = {"type": "dict", "properties": {"a": {"type": "tuple", "items": {"type": "float"}, "required": True}}}
    before = copy.deepcopy(schema)

    repaired, changes = repair_schema(schema)

    assert schema == before
    assert len(changes) == 4
    assert repair_schema(repaired) == (repaired, [])


def test_a_schema_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "dict"}
    schema["properties"] = {"a": schema}

    with pytest.raises(InvalidToolError):
        repair_schema(schema)
