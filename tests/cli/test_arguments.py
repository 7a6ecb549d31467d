"""`key=value` becomes what the tool's schema wants."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.cli.arguments import describe_schema, get_types, parameters, parse_arguments
from spindle.errors import UsageError

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "size": {"type": "number"},
        "flag": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "words": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "box": {"$ref": "#/$defs/Box"},
        "level": {"enum": [1, 2, 3]},
        "colour": {"enum": ["red", "1"]},
        "any": {},
    },
    "$defs": {"Box": {"type": "object"}},
}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["text=5"], {"text": "5"}),
        (["text=a=b:=c"], {"text": "a=b:=c"}),
        (["text="], {"text": ""}),
        (["text=null", "maybe=null"], {"text": "null", "maybe": "null"}),
        (["count=5"], {"count": 5}),
        (["count=null"], {"count": None}),
        (["count=many"], {"count": "many"}),
        (["size=1.5"], {"size": 1.5}),
        (["size=2"], {"size": 2}),
        (["size=1e3"], {"size": 1000.0}),
        (["size=nan"], {"size": "nan"}),
        (["flag=yes"], {"flag": True}),
        (["flag=FALSE"], {"flag": False}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["numbers=1", "numbers=2"], {"numbers": [1, 2]}),
        (["words=one"], {"words": "one"}),
        (["words=one", "words=two"], {"words": ["one", "two"]}),
        (['box={"a": 1}'], {"box": {"a": 1}}),
        (["box:={}"], {"box": {}}),
        (["level=2"], {"level": 2}),
        (["colour=1"], {"colour": "1"}),
        (["any=1"], {"any": "1"}),
        (["unknown=1"], {"unknown": "1"}),
        (["text:=[1]"], {"text": [1]}),
        (["text=@@home"], {"text": "@home"}),
    ],
)
def test_a_pair_becomes_what_the_schema_wants(pairs: list[str], expected: dict[str, Any]) -> None:
    assert parse_arguments(pairs, None, SCHEMA) == expected


def test_a_number_of_too_many_digits_is_left_to_the_schema() -> None:
    assert parse_arguments(["count=" + "1" * 5_000], None, SCHEMA) == {"count": "1" * 5_000}


def test_pairs_come_on_top_of_the_json_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text('{"text": "file"}')

    assert parse_arguments(["count=2"], '{"count": 1, "text": "x"}', SCHEMA) == {"count": 2, "text": "x"}
    assert parse_arguments([], f"@{tmp_path}/a.json", SCHEMA) == {"text": "file"}
    for stdin in ("-", "@-"):
        monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "stdin"}'))
        assert parse_arguments([], stdin, SCHEMA) == {"text": "stdin"}


def test_a_file_is_taken_as_text_or_as_json(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("[1, 2]\n")

    assert parse_arguments([f"text=@{path}"], None, SCHEMA) == {"text": "[1, 2]\n"}
    assert parse_arguments([f"any:=@{path}"], None, SCHEMA) == {"any": [1, 2]}


@pytest.mark.parametrize(
    ("pairs", "given"),
    [
        (["text"], None),
        (["=x"], None),
        ([""], None),
        (["text:={"], None),
        (["count=1", "count=2"], None),
        (["text=@/no/such/file"], None),
        (["box=not json"], None),
        ([], "[1]"),
        ([], "{"),
        ([], '"text"'),
        ([], "[" * 100_000),
        ([], '{"text": "a", "text": "b"}'),
        (['box:={"w": 1, "w": 2}'], None),
        (["any:=" + "1" * 5_000], None),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else None,
)
def test_an_invalid_argument_is_rejected_by_its_name(pairs: list[str], given: str | None) -> None:
    with pytest.raises(UsageError):
        parse_arguments(pairs, given, SCHEMA)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,6}", fullmatch=True),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_json_after_a_colon_arrives_as_it_is(value: dict[str, Any]) -> None:
    pairs = [f"{key}:={json.dumps(part)}" for key, part in value.items()]

    assert parse_arguments(pairs, None, {"type": "object"}) == value


@given(st.text())
def test_a_text_for_a_text_is_never_touched(text: str) -> None:
    pair = f"text=@{text}" if text.startswith("@") else f"text={text}"

    assert parse_arguments([pair], None, SCHEMA) == {"text": text}


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


def test_bounds_choices_defaults_and_descriptions_are_shown() -> None:
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
