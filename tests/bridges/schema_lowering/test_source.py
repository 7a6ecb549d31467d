"""References: kept where they can be, written out where they cannot, and recursion."""

from typing import Any

import jsonschema_rs
import pytest

from spindle.bridges.dialects import ANTHROPIC, BEDROCK, GEMINI, OPENAI_CHAT
from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.lowering import lower
from spindle.errors import CannotLowerError

STRICT = OPENAI_CHAT.strict_rules or Rules()
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["value", "kids"],
    "additionalProperties": False,
}
WITH_TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Tree"}},
    "required": ["tree"],
    "additionalProperties": False,
    "$defs": {"Tree": TREE},
}


@pytest.mark.parametrize("rules", [ANTHROPIC.rules, OPENAI_CHAT.rules, STRICT], ids=["anthropic", "openai", "strict"])
def test_recursion_stays_where_it_is_taken(rules: Rules) -> None:
    lowered = lower(WITH_TREE, rules)

    assert lowered.schema == WITH_TREE
    assert lowered.losses == ()


@pytest.mark.parametrize("rules", [GEMINI.rules, BEDROCK.rules], ids=["gemini", "bedrock"])
def test_recursion_is_written_out_twice_and_then_left_open(rules: Rules) -> None:
    lowered = lower(WITH_TREE, rules)

    tree = lowered.schema["properties"]["tree"]
    inner = tree["properties"]["kids"]["items"]
    assert inner["properties"]["value"] == {"type": "integer"}
    assert "properties" not in inner["properties"]["kids"]["items"]
    [dropped] = [each for each in lowered.losses if (each.keyword, each.action) == ("$ref", "dropped")]
    assert dropped.path == "/$defs/Tree/properties/kids/items"


def test_recursion_is_refused_by_a_strict_form_that_has_none() -> None:
    with pytest.raises(CannotLowerError) as caught:
        lower(WITH_TREE, ANTHROPIC.strict_rules or Rules())

    assert caught.value.path == "/$defs/Tree"
    assert caught.value.why == "recursion"


def test_a_reference_to_the_whole_stays_one() -> None:
    schema = {"type": "object", "properties": {"more": {"$ref": "#"}}}

    assert lower(schema, ANTHROPIC.rules).schema == schema
    assert "$ref" not in str(lower(schema, GEMINI.rules).schema)


def test_a_reference_into_the_middle_is_gathered_with_the_definitions() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"$ref": "#/properties/a"}},
    }

    lowered = lower(schema, OPENAI_CHAT.rules)

    assert lowered.schema["properties"]["b"] == {"$ref": "#/$defs/a"}
    assert lowered.schema["$defs"] == {"a": {"type": "string", "maxLength": 3}}
    assert [(each.path, each.keyword, each.action) for each in lowered.losses] == [
        ("/properties/b", "$ref", "rewritten")
    ]


@pytest.mark.parametrize("reference", ["#/$defs/x~1y~0z%20100%25", "#/properties/100%25"])
@pytest.mark.parametrize("rules", [ANTHROPIC.rules, STRICT], ids=["loose", "strict"])
def test_names_that_an_address_cannot_hold_are_still_found(rules: Rules, reference: str) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": reference}, "100%": {"type": "string"}},
        "required": ["a", "100%"],
        "additionalProperties": False,
        "$defs": {"x/y~z 100%": {"type": "string"}},
    }

    lowered = lower(schema, rules)

    emitted = jsonschema_rs.validator_for(lowered.schema)
    name = next(name for name in lowered.schema["properties"] if name != "a")
    assert emitted.is_valid({"a": "b", name: "c"})
    assert not emitted.is_valid({"a": 1, name: "c"})
    assert [each for each in lowered.losses if each.keyword == "$ref"] == [] or "properties" in reference


def test_anchors_and_ids_are_followed() -> None:
    schema = {
        "$id": "https://shop.example/order",
        "type": "object",
        "properties": {"a": {"$ref": "#item"}, "b": {"$ref": "https://shop.example/price"}},
        "$defs": {
            "Item": {"$anchor": "item", "type": "string"},
            "Price": {"$id": "https://shop.example/price", "type": "number"},
        },
    }

    emitted = lower(schema, GEMINI.rules).schema["properties"]
    kept = lower(schema, ANTHROPIC.rules).schema

    assert emitted == {"a": {"type": "string"}, "b": {"type": "number"}}
    assert kept["properties"] == {"a": {"$ref": "#/$defs/Item"}, "b": {"$ref": "#/$defs/Price"}}
    assert "$id" not in kept
    assert kept["$defs"]["Price"] == {"type": "number"}


def test_definitions_that_nothing_refers_to_are_left_out_and_that_is_said() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "$defs": {"Unused": {"type": "string"}}}

    lowered = lower(schema, ANTHROPIC.rules)

    assert "$defs" not in lowered.schema
    assert [(each.keyword, each.action) for each in lowered.losses] == [("$defs", "rewritten")]


def test_keywords_beside_a_reference_are_merged_with_it_if_they_cannot_stay() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "The a.", "maxLength": 3}},
        "required": ["a"],
        "$defs": {"A": {"type": "string", "maxLength": 9, "description": "Any a."}},
    }

    emitted = lower(schema, GEMINI.rules).schema["properties"]["a"]
    strict = lower(schema, STRICT).schema["properties"]["a"]

    assert emitted == {"description": "The a. Any a.", "maxLength": 3, "type": "string"}
    assert strict == {"description": "The a. Any a. (at most 3 characters)", "type": "string"}


def test_the_outermost_schema_may_itself_be_a_reference() -> None:
    schema = {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}}

    lowered = lower(schema, ANTHROPIC.rules)

    assert lowered.schema["type"] == "object"
    assert lowered.schema["properties"]["kids"]["items"] == {"$ref": "#/$defs/Tree"}
    assert lowered.schema["$defs"] == {"Tree": TREE}
