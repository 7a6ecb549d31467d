"""Defaults of a JSON Schema: filled in after the check, in a copy, only where they certainly hold."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import InvalidToolArgsError
from spindle.tools.schema.json_schema import RawSchema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
FIVE: dict[str, Any] = {"properties": {"n": {"default": 5}}}


def filled(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(value)
    got = RawSchema(schema, tool="t").validate(value)
    assert value == before, "the input was changed"
    return got


CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (FIVE, {}, {"n": 5}),
    (FIVE, {"n": None}, {"n": None}),
    ({"properties": {"n": {"default": None}}}, {}, {"n": None}),
    ({"properties": {"a": FIVE}}, {}, {}),
    ({"properties": {"a": FIVE}}, {"a": {"x": 1}}, {"a": {"x": 1, "n": 5}}),
    ({"properties": {"a": {**FIVE, "default": {}}}}, {}, {"a": {"n": 5}}),
    ({"properties": {"a": {"items": FIVE}}}, {"a": [{}, {"n": 1}, 3]}, {"a": [{"n": 5}, {"n": 1}, 3]}),
    ({"properties": {"a": {"prefixItems": [FIVE], "items": {}}}}, {"a": [{}, {}]}, {"a": [{"n": 5}, {}]}),
    ({"$schema": DRAFT_7, "properties": {"a": {"items": [FIVE]}}}, {"a": [{}, {}]}, {"a": [{"n": 5}, {}]}),
    (
        {"$schema": DRAFT_7, "properties": {"a": {"items": [{}], "additionalItems": FIVE}}},
        {"a": [{}, {}]},
        {"a": [{}, {"n": 5}]},
    ),
    ({"additionalProperties": FIVE}, {"any": {}}, {"any": {"n": 5}}),
    ({"$ref": "#/$defs/f", "$defs": {"f": FIVE}}, {}, {"n": 5}),
    ({"properties": {"n": {"$ref": "#/$defs/f"}}, "$defs": {"f": {"default": 5}}}, {}, {"n": 5}),
    ({"properties": {"n": {"$ref": "#/$defs/f", "default": 6}}, "$defs": {"f": {"default": 5}}}, {}, {"n": 6}),
    ({"allOf": [{"allOf": [FIVE]}, {"properties": {"m": {"default": 6}}}]}, {}, {"n": 5, "m": 6}),
    ({"properties": {"next": {"$ref": "#"}, **FIVE["properties"]}}, {"next": {}}, {"next": {"n": 5}, "n": 5}),
    ({"anyOf": [FIVE]}, {}, {}),
    ({"oneOf": [FIVE]}, {}, {}),
    ({"not": {"required": ["x"], **FIVE}}, {}, {}),
    ({"if": FIVE, "then": FIVE, "else": FIVE}, {}, {}),
    ({"properties": {"a": {"anyOf": [FIVE]}}}, {"a": {}}, {"a": {}}),
]


@pytest.mark.parametrize(("schema", "value", "result"), CASES)
def test_defaults_are_filled_in_where_they_certainly_hold(
    schema: dict[str, Any], value: dict[str, Any], result: dict[str, Any]
) -> None:
    assert filled(schema, value) == result


def test_the_check_comes_first_and_on_the_arguments_as_written() -> None:
    schema = {"properties": {"n": {"type": "string", "default": 5}}, "required": ["n"]}

    with pytest.raises(InvalidToolArgsError) as caught:
        filled(schema, {})

    assert caught.value.field == "n"
    assert filled({"properties": {"n": {"type": "string", "default": 5}}}, {}) == {"n": 5}


def test_each_call_gets_a_default_of_its_own() -> None:
    schema = RawSchema({"properties": {"tags": {"default": [{"a": []}]}}}, tool="t")

    schema.validate({})["tags"][0]["a"].append("changed")

    assert schema.validate({}) == {"tags": [{"a": []}]}
    assert schema.json_schema()["properties"]["tags"]["default"] == [{"a": []}]


def test_without_defaults_the_arguments_are_given_back_themselves() -> None:
    value = {"a": 1}

    assert RawSchema({"properties": {"a": {}}}, tool="t").validate(value) is value


@given(st.recursive(st.just({}), lambda inner: st.fixed_dictionaries({}, optional={"left": inner, "right": inner})))
def test_a_tree_of_any_shape_is_filled_at_every_node(tree: dict[str, Any]) -> None:
    schema = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "n": {"default": 5}}}

    waiting = [filled(schema, tree)]

    while waiting:
        node = waiting.pop()
        assert node["n"] == 5
        waiting += [node[side] for side in ("left", "right") if side in node]
