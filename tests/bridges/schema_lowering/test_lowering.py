"""Lowering, case by case: what is emitted and what is reported as lost."""

from typing import Any

import jsonschema_rs
import pytest

from spindle.bridges.dialects import ANTHROPIC, BEDROCK, GEMINI, MCP, OPENAI_CHAT
from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.lowering import Lowered, lower
from spindle.bridges.schema_lowering.report import Loss
from spindle.errors import CannotLowerError

CLAUDE_STRICT = ANTHROPIC.strict_rules or Rules()
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def one(schema: Any, rules: Rules, **root: Any) -> tuple[Any, Lowered]:
    """Lower a schema as the property `a`; gives what that became."""
    lowered = lower({"type": "object", "properties": {"a": schema}, **root}, rules)
    return lowered.schema["properties"]["a"], lowered


def loss(lowered: Lowered, keyword: str, path: str = "/properties/a") -> Loss:
    [found] = [each for each in lowered.losses if (each.path, each.keyword) == (path, keyword)]
    return found


# What cannot be expressed


def test_keywords_a_dialect_cannot_express_are_described_in_text() -> None:
    emitted, lowered = one({"type": "string", "minLength": 2, "maxLength": 1, "description": "A."}, CLAUDE_STRICT)

    assert emitted["description"] == "A. (at least 2 characters; at most 1 character)"
    assert loss(lowered, "minLength").action == "rewritten"


def test_keywords_without_a_description_are_dropped() -> None:
    _, lowered = one({"type": "object", "properties": {"b": {}}, "x-order": 1}, GEMINI.rules)

    assert loss(lowered, "x-order").action == "dropped"


def test_a_description_that_would_be_too_long_is_not_extended() -> None:
    emitted, lowered = one({"type": "integer", "enum": list(range(1_000))}, GEMINI.rules)

    assert emitted == {"type": "integer"}
    assert loss(lowered, "enum").action == "dropped"


def test_an_unsupported_format_is_described_in_text_and_a_supported_one_stays() -> None:
    assert one({"type": "string", "format": "uri"}, GEMINI.rules)[0] == {
        "type": "string",
        "description": "(format uri)",
    }
    assert one({"type": "string", "format": "date-time"}, GEMINI.rules)[0] == {"type": "string", "format": "date-time"}


def test_unchanged_keywords_are_listed_as_kept() -> None:
    _, lowered = one({"type": "string", "pattern": "^a"}, ANTHROPIC.rules)

    assert lowered.losses == ()
    assert lowered.kept == ("/properties", "/properties/a/pattern", "/properties/a/type", "/type")


def test_mcp_gets_every_keyword_of_a_schema() -> None:
    schema = {"$schema": DRAFT_7, "properties": {"a": {"items": [{"type": "string"}]}}, "if": True, "x-own": 1}

    lowered = lower(schema, MCP.rules)

    assert lowered.schema == {**schema, "type": "object"}
    assert [(each.path, each.keyword) for each in lowered.losses] == [("", "type")]


def test_the_schema_that_was_given_is_not_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}}
    before = repr(schema)

    lower(schema, OPENAI_CHAT.strict_rules or Rules()).schema["properties"]["a"]["type"] = "changed"

    assert repr(schema) == before


# Older drafts


def test_tuples_of_older_drafts_are_emitted_with_the_latest_keywords() -> None:
    old = {"type": "array", "items": [{"type": "string"}], "additionalItems": False}

    emitted, lowered = one(old, ANTHROPIC.rules, **{"$schema": DRAFT_7})

    assert emitted == {"type": "array", "prefixItems": [{"type": "string"}], "items": False}
    assert loss(lowered, "items").action == loss(lowered, "additionalItems").action == "rewritten"


def test_exclusive_bounds_of_draft_4_are_emitted_as_numbers() -> None:
    emitted, _ = one(
        {"type": "integer", "minimum": 3, "exclusiveMinimum": True}, ANTHROPIC.rules, **{"$schema": DRAFT_4}
    )

    assert emitted == {"type": "integer", "exclusiveMinimum": 3}


def test_dependencies_are_emitted_with_their_new_names() -> None:
    lowered = lower(
        {"properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"], "b": {"required": ["a"]}}}, ANTHROPIC.rules
    )

    assert lowered.schema["dependentRequired"] == {"a": ["b"]}
    assert lowered.schema["dependentSchemas"] == {"b": {"required": ["a"]}}


def test_keywords_that_an_older_draft_ignores_beside_a_reference_are_not_emitted() -> None:
    shelf = {"definitions": {"N": {"type": "string"}}, "$schema": DRAFT_7}
    emitted, lowered = one({"$ref": "#/definitions/N", "maxLength": 3, "description": "D."}, ANTHROPIC.rules, **shelf)

    assert emitted == {"$ref": "#/definitions/N", "description": "D."}
    assert loss(lowered, "maxLength").action == "dropped"


# Booleans, tuples, maps


def test_booleans_stay_where_they_are_taken() -> None:
    assert one(True, ANTHROPIC.rules)[0] is True
    assert one(False, ANTHROPIC.rules)[0] is False


def test_a_property_that_nothing_fits_is_left_out_where_booleans_are_not_taken() -> None:
    lowered = lower({"type": "object", "properties": {"a": False, "b": {"type": "string"}}}, GEMINI.rules)

    assert lowered.schema["properties"] == {"b": {"type": "string"}}
    assert loss(lowered, "false").action == "rewritten"


def test_an_unrestricted_schema_lists_every_type_if_a_type_is_required() -> None:
    emitted, lowered = one(True, GEMINI.rules)

    assert [each["type"] for each in emitted["anyOf"]] == ["string", "number", "boolean", "object", "array"]
    assert all(each["nullable"] for each in emitted["anyOf"])
    assert loss(lowered, "true").action == "rewritten"


def test_a_tuple_is_emitted_as_a_list_of_its_item_types() -> None:
    kinds = [{"type": "string"}, {"type": "integer"}, {"type": "string"}]
    emitted, lowered = one({"type": "array", "prefixItems": kinds, "items": False}, GEMINI.rules)

    assert emitted["items"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert emitted["maxItems"] == 3
    assert "string, integer, string" in emitted["description"]
    assert not loss(lowered, "prefixItems").narrows


def test_the_end_of_a_tuple_is_described_in_text_without_a_keyword_for_it() -> None:
    emitted, lowered = one({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, CLAUDE_STRICT)

    assert "at most 1 item" in emitted["description"]
    assert "description" in loss(lowered, "items").detail


def test_parts_that_cannot_be_merged_are_described_in_text() -> None:
    parts = [{"type": "string", "pattern": "^a"}, {"pattern": "b$"}, {"not": {"const": "ab"}}, {"not": {"const": "x"}}]
    emitted, lowered = one({"allOf": parts}, GEMINI.rules)

    assert (emitted["pattern"], "must match b$" in emitted["description"]) == ("^a", True)
    assert '"x"' in loss(lowered, "not", "/properties/a/allOf/3").detail
    assert "b$" in loss(lowered, "pattern", "/properties/a/allOf/1").detail


def test_constraints_between_parts_are_dropped_with_all_that_depends_on_them() -> None:
    closed: dict[str, Any] = {"additionalProperties": {"type": "string"}, "unevaluatedProperties": False}
    parts: list[Any] = [{**closed, "properties": {"a": {}}}, {"properties": {"b": {}}}]
    lowered = lower({"allOf": parts}, OPENAI_CHAT.rules)

    assert lowered.schema == {"type": "object", "properties": {"a": {}, "b": {}}}
    actions = {loss(lowered, word, "/allOf/0").action for word in ("additionalProperties", "unevaluatedProperties")}
    assert actions == {"dropped"}


def test_a_type_that_was_inferred_is_said_to_be_narrower_beside_null_too() -> None:
    _, lowered = one({"anyOf": [{"minimum": 3}, {"type": "null"}]}, GEMINI.rules)

    assert any(each.narrows for each in lowered.losses)


def test_an_open_tuple_reports_that_it_is_narrowed() -> None:
    _, lowered = one({"type": "array", "prefixItems": [{"type": "string"}]}, GEMINI.rules)

    assert loss(lowered, "prefixItems").narrows


def test_a_list_without_items_gets_some_where_they_must_be() -> None:
    assert one({"type": "array"}, OPENAI_CHAT.rules)[0] == {"type": "array", "items": {}}
    assert one({"type": "array"}, ANTHROPIC.rules)[0] == {"type": "array"}


def test_a_map_is_described_in_text_if_the_dialect_has_none() -> None:
    emitted, lowered = one({"type": "object", "additionalProperties": {"type": "number"}}, GEMINI.rules)

    assert emitted == {"type": "object", "description": "(every value is of type number)"}
    assert loss(lowered, "additionalProperties").action == "rewritten"
    emitted, _ = one({"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}, GEMINI.rules)
    assert "minimum" in emitted["description"]


def test_a_tool_without_arguments_has_no_parameters_in_gemini() -> None:
    lowered = lower({"type": "object", "properties": {}, "additionalProperties": False}, GEMINI.rules)

    assert lowered.schema == {}
    assert {(each.keyword, each.narrows) for each in lowered.losses} >= {("type", False), ("properties", False)}


# The outermost schema


def test_bedrock_gets_three_keywords_at_the_top_and_no_references() -> None:
    schema = {
        "type": "object",
        "title": "T",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"A": {"type": "string"}},
    }

    lowered = lower(schema, BEDROCK.rules)

    assert lowered.schema == {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert {each.keyword for each in lowered.losses} == {"title", "additionalProperties", "$defs", "$ref"}


@pytest.mark.parametrize("types", [None, ["object", "null"]], ids=["no type", "a list of types"])
def test_arguments_are_always_emitted_as_an_object(types: Any) -> None:
    schema = {"properties": {"a": {"type": "string"}}, **({"type": types} if types else {})}

    for dialect in (OPENAI_CHAT, ANTHROPIC, GEMINI, BEDROCK, MCP):
        lowered = lower(schema, dialect.rules)
        assert lowered.schema["type"] == "object"
        assert loss(lowered, "type", "").action == "rewritten"


# Names of properties


def test_names_of_properties_that_are_refused_are_mapped_and_mapped_back() -> None:
    schema = {
        "type": "object",
        "properties": {"a b": {"type": "object", "properties": {"@id": {"type": "string"}}}, "c": {"type": "string"}},
        "required": ["a b"],
        "dependentRequired": {"a b": ["c"]},
    }

    lowered = lower(schema, ANTHROPIC.rules)

    assert list(lowered.schema["properties"]) == ["a_b", "c"]
    assert list(lowered.schema["properties"]["a_b"]["properties"]) == ["_id"]
    assert lowered.schema["required"] == ["a_b"]
    assert lowered.schema["dependentRequired"] == {"a_b": ["c"]}
    assert lowered.restore is not None
    assert lowered.restore({"a_b": {"_id": "1"}, "c": "d"}) == {"a b": {"@id": "1"}, "c": "d"}
    assert {each.keyword for each in lowered.losses} == {"properties", "required", "dependentRequired"}


@pytest.mark.parametrize(
    "part",
    [
        {"if": {"required": ["c"]}, "else": {"required": ["a b"]}},
        {"dependentSchemas": {"a b": {"required": ["c"]}}},
        {"anyOf": [{"required": ["a b"]}, {"required": ["c"]}]},
        {"not": {"required": ["a b", "c"]}},
    ],
    ids=["else", "dependentSchemas", "anyOf", "not"],
)
@pytest.mark.parametrize("rules", [ANTHROPIC.rules, GEMINI.rules], ids=["anthropic", "gemini"])
def test_a_name_that_is_mapped_is_so_wherever_it_is_spoken_of(rules: Rules, part: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a b": {"type": "string"}, "c": {"type": "string"}}, **part}
    emitted, lowered = one(schema, rules)

    assert "a b" not in str({**emitted, "description": emitted.get("description", "").partition("must not match")[0]})
    assert lowered.restore is not None
    assert lowered.restore({"a": {"a_b": "1", "c": "2"}}) == {"a": {"a b": "1", "c": "2"}}


def test_two_properties_of_one_name_on_the_wire_are_refused() -> None:
    schema = {"type": "object", "properties": {"a b": {"type": "string"}, "a_b": {"type": "string"}}}

    with pytest.raises(CannotLowerError) as caught:
        lower(schema, ANTHROPIC.rules)

    assert "a_b" in caught.value.why


def test_a_required_name_that_is_not_a_property_becomes_one() -> None:
    lowered = lower({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}, GEMINI.rules)

    assert set(lowered.schema["properties"]) == {"a", "b"}
    assert loss(lowered, "properties", "").action == "rewritten"


# Hostile schemas


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def test_a_schema_that_is_far_too_deep_is_refused() -> None:
    with pytest.raises(CannotLowerError) as caught:
        lower(nested(150), ANTHROPIC.rules)

    assert "levels" in caught.value.why


def test_references_that_double_with_every_step_are_left_open_in_time() -> None:
    shelf: dict[str, Any] = {"D0": {"type": "string"}}
    for level in range(1, 25):
        ref = {"$ref": f"#/$defs/D{level - 1}"}
        shelf[f"D{level}"] = {"type": "object", "properties": {"l": ref, "r": ref}}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/D24"}}, "$defs": shelf}

    lowered = lower(schema, GEMINI.rules)

    assert len(str(lowered.schema)) < 1_000_000
    assert any(each.action == "dropped" and each.keyword == "$ref" for each in lowered.losses)
    assert lower(schema, ANTHROPIC.rules).losses == ()


def test_a_pattern_full_of_quotes_stays_within_the_description() -> None:
    emitted, _ = one({"type": "string", "pattern": '^"]}$'}, CLAUDE_STRICT)

    assert emitted["description"] == '(must match ^"]}$)'
    assert jsonschema_rs.meta.is_valid(emitted)
