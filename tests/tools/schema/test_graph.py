"""Schemas and values made to keep us busy are refused or cut off."""

from typing import Any

import pytest

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.schema.base import Problem
from spindle.tools.schema.json_schema import RawSchema
from tests.bounds import bounded_cpu


def problems(schema: dict[str, Any], value: dict[str, Any]) -> tuple[Problem, ...]:
    with pytest.raises(InvalidToolArgsError) as caught:
        RawSchema(schema, tool="search").validate(value)
    return caught.value.problems


def refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError) as caught:
        RawSchema(schema, tool="search")
    assert (caught.value.tool, caught.value.field) == ("search", "input_schema")


def chain(levels: int, doubled: str) -> dict[str, Any]:
    """References that double with every level."""
    defs: dict[str, Any] = {
        f"d{k}": {doubled: [{"$ref": f"#/$defs/d{k + 1}"}, {"$ref": f"#/$defs/d{k + 1}"}]} for k in range(levels)
    }
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs | {f"d{levels}": {"type": "string"}}}


@pytest.mark.slow
@pytest.mark.parametrize("doubled", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [10, 18, 60, 2000])
def test_references_that_double_are_bounded(doubled: str, levels: int) -> None:
    with bounded_cpu():
        if levels > 15:
            refused(chain(levels, doubled))
        else:
            assert problems(chain(levels, doubled), {"a": 1})


def nested(levels: int) -> dict[str, Any]:
    value: Any = "x"
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize("doubled", ["allOf", "anyOf"])
def test_recursion_that_doubles_with_the_depth_of_the_value_is_bounded(doubled: str) -> None:
    node = {"type": "object", "properties": {"x": {doubled: [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}}}
    schema = {"$ref": "#/$defs/n", "$defs": {"n": node}}

    with bounded_cpu():
        for levels in (1, 8, 16, 20, 40, 190):
            assert problems(schema, nested(levels))


def test_ordinary_recursion_is_legal_at_every_depth() -> None:
    node = {"properties": {"x": {"$ref": "#"}, "y": {"$ref": "#"}}, "type": "object"}

    assert problems(node, nested(190))[0].received == "text"
    assert RawSchema(node, tool="search").validate({"x": {"y": {"x": {}}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]},
    ],
)
def test_a_reference_that_never_leaves_the_value_is_refused(schema: dict[str, Any]) -> None:
    refused(schema)


@pytest.mark.slow
def test_schemas_too_deep_or_too_large_are_refused_quickly() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"properties": {"a": deep}}
    endless: dict[str, Any] = {}
    endless["properties"] = {"a": endless, "b": endless}
    large = ({"enum": list(range(1_000_000))}, {"description": "x" * 10_000_000})

    for schema in (deep, endless, *large):
        with bounded_cpu():
            refused(schema)


def test_a_large_enum_is_accepted_and_shown_in_part() -> None:
    (problem,) = problems({"properties": {"a": {"enum": [f"v{i}" for i in range(50_000)]}}}, {"a": "v1o"})

    assert len(problem.expected) < 1000


@pytest.mark.parametrize("keyword", ["items", "contains"])
def test_comparing_many_values_with_many_objects_is_bounded(keyword: str) -> None:
    schema = {"properties": {"a": {keyword: {"enum": [{"v": i} for i in range(3000)]}}}}

    with bounded_cpu():
        assert problems(schema, {"a": [{"v": -1}] * 5000})


def test_a_value_with_very_many_mistakes_is_refused_quickly() -> None:
    with bounded_cpu():
        assert problems({"properties": {"a": {"items": {"type": "string"}}}}, {"a": [1] * 300_000})


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|aa)+\\1$", "^((a+)+)\\2b$", "(?:a|a)*(?=b)\\b(c)\\1"])
def test_patterns_that_explode_are_cut_off(pattern: str) -> None:
    with bounded_cpu():
        (problem,) = problems({"properties": {"a": {"pattern": pattern}}}, {"a": "a" * 30_000 + "!"})

    assert (problem.path, problem.received) == ("a", "text")
