"""Unions and types: `anyOf`, `oneOf`, `allOf`, lists of types, null, constants."""

from typing import Any

import pytest

from spindle.bridges.dialects import ANTHROPIC, GEMINI, OPENAI_CHAT
from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.lowering import Lowered, lower

STRICT = OPENAI_CHAT.strict_rules or Rules()


def one(schema: Any, rules: Rules) -> Any:
    return lower({"type": "object", "properties": {"a": schema}, "required": ["a"]}, rules).schema["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "emitted"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
        ({"oneOf": [{"type": "null"}, {"enum": ["x"]}]}, {"enum": ["x"], "type": "string", "nullable": True}),
        ({"enum": ["x", None]}, {"enum": ["x"], "type": "string", "nullable": True}),
        ({"allOf": [{"type": "null"}, {"type": ["string", "null"], "enum": ["x", None]}]}, {"type": "null"}),
        ({"type": "null"}, {"type": "null"}),
        ({"const": "x"}, {"enum": ["x"], "type": "string"}),
        ({"const": 7}, {"type": "integer", "description": "(always 7)"}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "(one of 1, 2)"}),
        ({"enum": ["", "x"]}, {"type": "string", "description": '(one of "", "x")'}),
        (
            {"type": ["string", "integer"], "maxLength": 3},
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]},
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
            {"type": "integer", "minimum": 1, "maximum": 8},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "description": "(greater than 0)"}),
        ({"type": "string", "nullable": True}, {"type": "string"}),
        ({"pattern": "^a"}, {"pattern": "^a", "type": "string"}),
    ],
)
def test_types_in_gemini(schema: Any, emitted: Any) -> None:
    assert one(schema, GEMINI.rules) == emitted


def test_keywords_beside_a_union_move_into_it_in_gemini() -> None:
    schema = {
        "description": "It.",
        "default": "x",
        "anyOf": [{"type": "string", "description": "S."}, {"type": "integer"}],
    }

    assert one(schema, GEMINI.rules) == {
        "anyOf": [
            {"type": "string", "description": "It. S.", "default": "x"},
            {"type": "integer", "description": "It.", "default": "x"},
        ]
    }


def test_required_names_beside_a_union_are_required_in_each_alternative() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "required": ["kind"],
        "anyOf": [{"properties": {"x": {"type": "string"}}}, {"properties": {"y": {"type": "string"}}}],
    }

    emitted = one(schema, GEMINI.rules)

    assert [set(each["properties"]) for each in emitted["anyOf"]] == [{"kind", "x"}, {"kind", "y"}]
    assert [each["required"] for each in emitted["anyOf"]] == [["kind"], ["kind"]]


def test_keywords_that_no_alternative_can_express_are_dropped() -> None:
    cats: dict[str, Any] = {"type": "object", "properties": {"kind": {"const": "cat"}}, "additionalProperties": False}
    beside = {"discriminator": {"propertyName": "kind"}, "minProperties": 1}
    emitted = lower({"type": "object", "properties": {"a": {"oneOf": [cats], **beside}}}, STRICT)

    actions = {each.keyword: each.action for each in emitted.losses if each.path == "/properties/a"}
    assert (actions["discriminator"], actions["minProperties"]) == ("dropped", "rewritten")


def test_one_of_becomes_any_of_if_there_is_no_alternative() -> None:
    emitted = one({"oneOf": [{"type": "string"}, {"type": "integer"}]}, STRICT)

    assert emitted == {"anyOf": [{"type": "string"}, {"type": "integer"}]}


def test_a_choice_of_required_properties_is_described_in_text() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
        "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
    }

    lowered = lower(schema, OPENAI_CHAT.rules)

    assert lowered.schema == {"type": "object", "properties": schema["properties"], "description": "(needs x, or y)"}
    assert [(each.keyword, each.action) for each in lowered.losses] == [("anyOf", "rewritten")]


def test_the_parts_of_all_of_are_put_together() -> None:
    schema = {
        "allOf": [
            {"type": "object", "properties": {"x": {"type": "string", "maxLength": 9}}, "required": ["x"]},
            {"type": "object", "properties": {"x": {"type": "string", "maxLength": 3}, "y": {"type": "integer"}}},
        ]
    }

    assert one(schema, GEMINI.rules) == {
        "type": "object",
        "properties": {"x": {"type": "string", "maxLength": 3}, "y": {"type": "integer"}},
        "required": ["x"],
    }


UNION: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "oneOf": [
        {"properties": {"kind": {"type": "string", "const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
        {"properties": {"kind": {"type": "string", "const": "b"}, "y": {"type": "integer"}}, "required": ["kind"]},
    ],
}


@pytest.mark.parametrize(
    "rules", [OPENAI_CHAT.rules, ANTHROPIC.rules, GEMINI.rules], ids=["openai", "claude", "gemini"]
)
def test_a_union_at_the_top_is_dissolved_into_the_properties_of_its_alternatives(rules: Rules) -> None:
    lowered: Lowered = lower(UNION, rules)

    assert lowered.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "x": {"type": "string"},
            "y": {"type": "integer"},
        },
        "required": ["id"],
    }
    assert [each.keyword for each in lowered.losses if each.path == ""] == ["oneOf"]


def test_not_is_described_in_text() -> None:
    emitted = one({"type": "string", "not": {"const": "x"}}, GEMINI.rules)

    assert emitted == {"type": "string", "description": '(must not match the schema {"const": "x"})'}


def test_mapped_names_come_back_where_a_free_object_would_take_them_too() -> None:
    free = {"type": "object"}
    described = {"type": "object", "properties": {"d e": {"type": "integer"}}, "required": ["d e"]}
    lowered = lower({"type": "object", "properties": {"a": {"anyOf": [free, described]}}}, GEMINI.rules)

    assert lowered.restore is not None
    assert lowered.restore({"a": {"d_e": 5}}) == {"a": {"d e": 5}}
    assert lowered.restore({"a": {"f": 5}}) == {"a": {"f": 5}}
