"""Schemas in words."""

from typing import Any

from spindle.cli.arguments import in_words, parameters, types_of

WHOLE: dict[str, Any] = {
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "x": {"type": "integer"}}}}
}


def test_types_are_found_through_references_and_unions() -> None:
    assert types_of({"anyOf": [{"type": "integer"}, {"type": "null"}]}, WHOLE) == ["integer", "null"]
    assert types_of({"$ref": "#/$defs/Node"}, WHOLE) == ["object"]
    assert types_of({"enum": ["a", 1, None, 1.5, True]}, WHOLE) == ["string", "integer", "null", "number", "boolean"]
    assert types_of({"type": ["string", "null"]}, WHOLE) == ["string", "null"]
    assert types_of({}, WHOLE) == []
    assert types_of({"$ref": "#/$defs/Missing"}, WHOLE) == []
    assert types_of(True, WHOLE) == []


def test_a_schema_that_holds_itself_ends() -> None:
    loop: dict[str, Any] = {"$defs": {"A": {"$ref": "#/$defs/A"}}}
    wide: dict[str, Any] = {"$defs": {"B": {"anyOf": [{"$ref": "#/$defs/B"}]}}}

    assert types_of({"$ref": "#/$defs/A"}, loop) == []
    assert types_of({"$ref": "#/$defs/B"}, wide) == []
    assert in_words({"$ref": "#/$defs/B"}, wide)
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
