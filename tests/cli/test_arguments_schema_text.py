"""Schemas in words."""

from typing import Any

from spindle.cli.arguments import describe_schema, get_types, parameters

WHOLE: dict[str, Any] = {
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "x": {"type": "integer"}}}}
}


def test_types_are_found_through_references_and_unions() -> None:
    assert get_types({"anyOf": [{"type": "integer"}, {"type": "null"}]}, WHOLE) == ["integer", "null"]
    assert get_types({"$ref": "#/$defs/Node"}, WHOLE) == ["object"]
    assert get_types({"enum": ["a", 1, None, 1.5, True]}, WHOLE) == ["string", "integer", "null", "number", "boolean"]
    assert get_types({"type": ["string", "null"]}, WHOLE) == ["string", "null"]
    assert get_types({}, WHOLE) == []
    assert get_types({"$ref": "#/$defs/Missing"}, WHOLE) == []
    assert get_types(True, WHOLE) == []


def test_a_schema_that_holds_itself_ends() -> None:
    loop: dict[str, Any] = {"$defs": {"A": {"$ref": "#/$defs/A"}}}
    wide: dict[str, Any] = {"$defs": {"B": {"anyOf": [{"$ref": "#/$defs/B"}]}}}

    assert get_types({"$ref": "#/$defs/A"}, loop) == []
    assert get_types({"$ref": "#/$defs/B"}, wide) == []
    assert describe_schema({"$ref": "#/$defs/B"}, wide)
    tree = parameters({"type": "object", "properties": {"node": {"$ref": "#/$defs/Node"}}, **WHOLE})
    assert tree[0][0].startswith("node (object)")


def test_bounds_choices_defaults_and_descriptions_are_told() -> None:
    schema = {
        "type": "object",
        "required": ["n"],
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
            "c": {"enum": ["a", "b"], "default": "a"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"const": 3}}}},
        },
    }

    assert parameters(schema) == [
        ("n (integer, ≥ 1, ≤ 9) required · How many.", []),
        ('c (one of "a", "b") = "a"', []),
        ("l (list of object)", [("k (3)", [])]),
    ]
