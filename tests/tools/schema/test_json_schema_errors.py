"""What a JSON Schema finds wrong, in our own words."""

from typing import Any

import pytest

from spindle.errors import InvalidToolArgsError
from spindle.tools.schema.base import Problem
from spindle.tools.schema.json_schema import RawSchema


def problems(schema: dict[str, Any], value: dict[str, Any]) -> tuple[Problem, ...]:
    with pytest.raises(InvalidToolArgsError) as caught:
        RawSchema(schema, tool="search").validate(value)
    return caught.value.problems


def test_each_problem_has_its_path_its_expectation_its_kind_and_the_nearest_option() -> None:
    schema = {
        "properties": {
            "limit": {"type": "integer", "minimum": 1},
            "status": {"enum": ["open", "closed"]},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "filters": {"$ref": "#/$defs/filters"},
        },
        "required": ["limit", "customer"],
        "additionalProperties": False,
        "$defs": {
            "filters": {
                "properties": {
                    "dates": {"items": {"required": ["start"], "properties": {"start": {"type": "string"}}}}
                },
                "additionalProperties": False,
            }
        },
    }
    value = {"limit": 0, "status": "Opne", "when": 3, "lmit": 1, "filters": {"dates": [{}, {"start": 1}], "date": 1}}

    found = {problem.path: problem for problem in problems(schema, value)}

    def at(path: str, expected: str, received: str, hint: str | None = None) -> Problem:
        return Problem(path=path, expected=expected, received=received, hint=hint)

    assert found == {
        problem.path: problem
        for problem in (
            at("limit", "a number of at least 1", "a whole number"),
            at("status", "'open' or 'closed'", "text", "nearest: 'open'"),
            at("when", "text or null", "a whole number"),
            at("filters.dates[0].start", "text, for it is required", "missing"),
            at("filters.dates[1].start", "text", "a whole number"),
            at("filters.date", "only 'dates'", "unknown argument", "did you mean 'dates'?"),
            at("customer", "a value, for it is required", "missing"),
            at(
                "lmit",
                "only 'limit', 'status', 'when' or 'filters'",
                "unknown argument",
                "did you mean 'limit'?",
            ),
        )
    }


KEYWORDS: list[tuple[Any, Any]] = [
    ({"const": 3}, 4),
    ({"multipleOf": 2}, 3),
    ({"exclusiveMinimum": 2}, 2),
    ({"exclusiveMaximum": 2}, 2),
    ({"maximum": 2}, 3),
    ({"minLength": 2}, "a"),
    ({"maxLength": 2}, "aaa"),
    ({"pattern": "^a"}, "b"),
    ({"minItems": 2}, []),
    ({"maxItems": 0}, [1]),
    ({"uniqueItems": True}, [1, 1]),
    ({"contains": {"type": "string"}}, [1]),
    ({"prefixItems": [{}], "items": False}, [1, 2]),
    ({"unevaluatedItems": False}, [1]),
    ({"minProperties": 1}, {}),
    ({"maxProperties": 0}, {"a": 1}),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}),
    ({"additionalProperties": False}, {"ab": 1}),
    ({"unevaluatedProperties": False}, {"ab": 1}),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    ({"not": {}}, 1),
    ({"oneOf": [{}, {}]}, 1),
    ({"oneOf": [{"type": "string"}, {"required": ["a"]}]}, {}),
    ({"if": {}, "then": False}, 1),
    ({"enum": []}, 1),
    (False, 1),
]


@pytest.mark.parametrize(("schema", "value"), KEYWORDS)
def test_every_keyword_has_words_and_never_shows_the_value(schema: Any, value: Any) -> None:
    (problem,) = problems({"properties": {"field": schema}}, {"field": value})

    assert problem.path.startswith("field")
    assert problem.expected != "a value that fits the schema"


def test_of_several_alternatives_the_nearest_speaks() -> None:
    circle: dict[str, Any] = {
        "type": "object",
        "required": ["radius"],
        "additionalProperties": False,
        "properties": {"radius": {}},
    }
    square: dict[str, Any] = {"type": "object", "required": ["side", "unit"], "properties": {"side": {}, "unit": {}}}
    schema = {"properties": {"shape": {"oneOf": [circle, square, {"type": "null"}]}}}

    (problem,) = problems(schema, {"shape": {}})

    assert (problem.path, problem.received) == ("shape.radius", "missing")


def test_nothing_of_a_secret_field_shows() -> None:
    schema = {
        "properties": {
            "password": {"enum": ["hunter1"]},
            "vault": {"additionalProperties": {"type": "integer"}},
            "token": {"anyOf": [{"pattern": "^x"}, {"type": "null"}]},
        }
    }
    value = {"password": "hunter2", "vault": {"hunter2": "hunter2"}, "token": "hunter2"}
    secret = frozenset(("password", "vault", "token"))

    with pytest.raises(InvalidToolArgsError) as caught:
        RawSchema(schema, tool="search", secret_fields=secret).validate(value)

    assert {problem.path for problem in caught.value.problems} == {"password", "vault", "token"}
    assert "hunter2" not in str(caught.value)
    assert all(problem.hint is None for problem in caught.value.problems)
