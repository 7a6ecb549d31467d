"""Strict forms: what they ask for, how it is undone in a call, and what they cannot say."""

from typing import Any

import pytest

from spindle.bridges.dialects import ANTHROPIC, OPENAI_CHAT
from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.lowering import Lowered, lower
from spindle.errors import CannotLowerError

STRICT = OPENAI_CHAT.strict_rules or Rules()


def closed(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def restored(lowered: Lowered, args: dict[str, Any]) -> dict[str, Any]:
    assert lowered.restore is not None
    return lowered.restore(args)


def test_every_property_is_required_and_an_optional_one_takes_null() -> None:
    lowered = lower(closed({"a": {"type": "string"}, "b": {"type": "integer"}}, "a"), STRICT)

    assert lowered.schema["required"] == ["a", "b"]
    assert lowered.schema["properties"] == {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}
    assert {(each.path, each.keyword) for each in lowered.losses} == {("", "required"), ("/properties/b", "type")}


@pytest.mark.parametrize(
    ("optional", "emitted"),
    [
        ({"type": "string", "enum": ["x"]}, {"type": ["string", "null"], "enum": ["x", None]}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"const": "x"}, {"anyOf": [{"const": "x", "type": "string"}, {"type": "null"}]}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
        ({"$ref": "#/$defs/A"}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_an_optional_property_of_any_kind_takes_null(optional: Any, emitted: Any) -> None:
    lowered = lower(closed({"a": optional}, **{"$defs": {"A": {"type": "string"}}}), STRICT)

    assert lowered.schema["properties"]["a"] == emitted


def test_a_null_that_stands_for_nothing_given_is_taken_out_again() -> None:
    lowered = lower(closed({"a": {"type": "string"}, "b": {"type": "integer"}}, "a"), STRICT)

    assert restored(lowered, {"a": "x", "b": None}) == {"a": "x"}
    assert restored(lowered, {"a": "x", "b": 0}) == {"a": "x", "b": 0}
    assert restored(lowered, {"a": None}) == {"a": None}


def test_a_null_that_the_tool_takes_itself_stays() -> None:
    lowered = lower(closed({"a": {"type": ["string", "null"]}, "b": {"type": "integer"}}), STRICT)

    assert restored(lowered, {"a": None, "b": None}) == {"a": None}


def test_a_null_that_only_a_closed_part_beside_it_forbids_is_taken_out() -> None:
    parts = {"allOf": [closed({"a": {"type": "string"}}), {"type": "object", "properties": {"b": {"type": "null"}}}]}
    lowered = lower(closed({"a": closed({"a": parts}, "a")}, "a"), STRICT)

    assert restored(lowered, {"a": {"a": {"a": None, "b": None}}}) == {"a": {"a": {}}}
    assert restored(lowered, {"a": {"a": {"a": "x", "b": None}}}) == {"a": {"a": {"a": "x"}}}


NULL_OR_TEXT = {"type": ["string", "null"]}


@pytest.mark.parametrize(
    ("schema", "sent", "back"),
    [
        (closed({"a": NULL_OR_TEXT, "b": NULL_OR_TEXT}, maxProperties=1), {"a": "x", "b": None}, {"a": "x"}),
        (
            closed({"a": NULL_OR_TEXT, "b": {"type": "string"}}, dependentRequired={"a": ["b"]}),
            {"a": None, "b": None},
            {},
        ),
        (
            closed({"a": NULL_OR_TEXT, "b": NULL_OR_TEXT}, dependentRequired={"a": ["b"]}),
            {"a": "x", "b": None},
            {"a": "x", "b": None},
        ),
        (
            {"type": "object", "oneOf": [closed({"a": {"const": 1}}, "a"), closed({"b": NULL_OR_TEXT}, "b")]},
            {"a": 1, "b": None},
            {"a": 1},
        ),
        (
            {
                "type": "object",
                "oneOf": [
                    closed({"a": {"const": 1}, "b": NULL_OR_TEXT}, "a", "b"),
                    closed({"a": {"const": 2}, "b": {"type": "string"}}, "a"),
                ],
            },
            {"a": 1, "b": None},
            {"a": 1, "b": None},
        ),
        (closed({"a": NULL_OR_TEXT, "b": NULL_OR_TEXT}, maxProperties=0), {"a": "x", "b": None}, {"a": "x", "b": None}),
    ],
    ids=["at most one", "needs another", "needed by another", "not of this kind", "null of this kind", "never fits"],
)
def test_a_null_is_kept_or_dropped_by_which_of_them_fits_the_schema(schema: Any, sent: Any, back: Any) -> None:
    assert restored(lower(schema, STRICT), sent) == back


def test_nulls_are_taken_out_of_objects_lists_and_references() -> None:
    inner = closed({"x": {"type": "string"}, "y": {"type": "string"}}, "x")
    schema = closed(
        {"one": inner, "many": {"type": "array", "items": inner}, "tree": {"$ref": "#/$defs/Tree"}},
        "one",
        "many",
        "tree",
        **{"$defs": {"Tree": closed({"value": {"type": "integer"}, "left": {"$ref": "#/$defs/Tree"}}, "value")}},
    )

    lowered = lower(schema, STRICT)

    given = {
        "one": {"x": "1", "y": None},
        "many": [{"x": "1", "y": None}, {"x": "1", "y": "2"}],
        "tree": {"value": 1, "left": {"value": 2, "left": None}},
    }
    assert restored(lowered, given) == {
        "one": {"x": "1"},
        "many": [{"x": "1"}, {"x": "1", "y": "2"}],
        "tree": {"value": 1, "left": {"value": 2}},
    }
    assert given["one"] == {"x": "1", "y": None}


def test_in_a_union_the_alternative_that_was_meant_says_which_nulls_go() -> None:
    circle = closed({"kind": {"const": "circle"}, "note": {"type": "string"}}, "kind")
    square = closed({"kind": {"const": "square"}, "note": {"type": ["string", "null"]}}, "kind", "note")
    lowered = lower(closed({"shape": {"anyOf": [circle, square]}}, "shape"), STRICT)

    assert restored(lowered, {"shape": {"kind": "circle", "note": None}}) == {"shape": {"kind": "circle"}}
    assert restored(lowered, {"shape": {"kind": "square", "note": None}}) == {"shape": {"kind": "square", "note": None}}


def test_an_alternative_must_fit_the_tools_own_schema_too() -> None:
    first = closed({"a": {"type": "integer"}}, minProperties=1)
    second = closed({"a": {"type": ["integer", "null"]}}, "a")
    lowered = lower(closed({"it": {"anyOf": [first, second]}}, "it"), STRICT)

    assert restored(lowered, {"it": {"a": None}}) == {"it": {"a": None}}


def test_arguments_that_fit_no_alternative_come_back_for_the_executor_to_refuse() -> None:
    lowered = lower(closed({"it": {"anyOf": [closed({"a": {"type": "integer"}}), {"type": "string"}]}}, "it"), STRICT)

    assert restored(lowered, {"it": {"b": None}}) == {"it": {"b": None}}
    assert restored(lowered, {"it": [None]}) == {"it": [None]}


def test_arguments_that_need_no_change_have_nothing_to_undo() -> None:
    assert lower(closed({"a": {"type": "string"}}, "a"), STRICT).restore is None


def test_a_default_is_described_in_text() -> None:
    lowered = lower(closed({"a": {"type": "integer", "default": 5}}), STRICT)

    assert lowered.schema["properties"]["a"] == {"type": ["integer", "null"], "description": "(default 5)"}


def test_an_open_object_is_closed_and_that_is_said_to_be_narrower() -> None:
    lowered = lower({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, STRICT)

    assert lowered.schema["additionalProperties"] is False
    assert [(each.keyword, each.narrows) for each in lowered.losses] == [("additionalProperties", True)]


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "object"}, "/properties/a"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "/properties/a"),
        ({"type": "object", "patternProperties": {"^x": {}}}, "/properties/a"),
        ({}, "/properties/a"),
        ({"type": "array"}, "/properties/a"),
        ({"type": "array", "items": {}}, "/properties/a/items"),
    ],
    ids=["a free object", "a map", "patterns", "anything", "a list", "a list of anything"],
)
@pytest.mark.parametrize("rules", [STRICT, ANTHROPIC.strict_rules or Rules()], ids=["openai", "claude"])
def test_schemas_beyond_the_strict_form_are_refused_with_their_location(schema: Any, path: str, rules: Rules) -> None:
    with pytest.raises(CannotLowerError) as caught:
        lower(closed({"a": schema}, "a"), rules)

    assert caught.value.path == path
    assert caught.value.why


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = closed({"a": schema}, "a")
    return schema


def test_the_limits_of_the_strict_form_hold() -> None:
    names = {f"p{number}": {"type": "string"} for number in range(5_001)}
    values = {"type": "string", "enum": [f"v{number}" for number in range(1_001)]}
    long = {"type": "string", "enum": ["x" * 100 + str(number) for number in range(251)]}

    assert lower(deep(10), STRICT)
    for schema in (deep(11), closed(names, *names), closed({"a": values}, "a"), closed({"a": long}, "a")):
        with pytest.raises(CannotLowerError) as caught:
            lower(schema, STRICT)
        assert "strict form accepts" in caught.value.why


def test_claude_keeps_optional_properties_optional() -> None:
    schema = closed({"a": {"type": "string"}, "b": {"type": "integer", "default": 1}}, "a")

    lowered = lower(schema, ANTHROPIC.strict_rules or Rules())

    assert lowered.schema == schema
    assert lowered.losses == ()
