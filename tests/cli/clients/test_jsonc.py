"""Editing JSON with comments."""

import json
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.cli.clients import parse, put_member, remove_member
from spindle.errors import InvalidConfigError

JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]
PATH = ("mcpServers",)
ENTRY: JsonObject = {"command": "/bin/spindle", "args": ["serve", "--stdio"]}

scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
blanks = st.sampled_from(["", " ", "\n  ", "\n\t", "\r\n  ", " // note\n", " /* a, } */ ", "\n// {\n", "/**/"])
documents = st.dictionaries(st.text(max_size=4), values, max_size=3)


@st.composite
def written(draw: st.DrawFn, content: JsonValue) -> str:
    """Draw one of the ways to write a value, with comments, trailing commas and any white space."""

    def write(value: JsonValue) -> str:
        if isinstance(value, dict):
            pairs = cast("JsonObject", value).items()
            members = [f"{json.dumps(name)}{draw(blanks)}:{draw(blanks)}{write(part)}" for name, part in pairs]
            return _enclose("{", members, "}")
        if isinstance(value, list):
            return _enclose("[", [write(part) for part in cast("list[JsonValue]", value)], "]")
        return json.dumps(value)

    def _enclose(start: str, parts: list[str], end: str) -> str:
        comma = "," if parts and draw(st.booleans()) else ""
        joined = ",".join(f"{draw(blanks)}{part}{draw(blanks)}" for part in parts)
        return f"{start}{draw(blanks)}{joined}{comma}{draw(blanks)}{end}"

    return draw(blanks) + write(content) + draw(blanks)


@settings(max_examples=30)
@given(st.data(), documents, st.one_of(st.none(), st.dictionaries(st.text(max_size=4), values, max_size=3)))
def test_only_the_inserted_member_changes(
    data: st.DataObject, document: JsonObject, servers: JsonObject | None
) -> None:
    content = document if servers is None else document | {"mcpServers": servers}
    content = content if servers is not None else {name: v for name, v in content.items() if name != "mcpServers"}
    text = data.draw(written(content))

    after = put_member(text, PATH, "spindle", ENTRY)

    assert parse(text).value == content
    assert parse(after).value == content | {"mcpServers": (servers or {}) | {"spindle": ENTRY}}
    if servers is None or "spindle" not in servers:
        rest = iter(after)
        assert all(character in rest for character in text), "characters of the file were changed or moved"


@settings(max_examples=30)
@given(st.data(), documents, st.dictionaries(st.text(max_size=4), values, max_size=3))
def test_removal_takes_one_member_and_nothing_else(
    data: st.DataObject, document: JsonObject, servers: JsonObject
) -> None:
    content = document | {"mcpServers": servers | {"spindle": ENTRY}}
    text = data.draw(written(content))

    after = remove_member(text, PATH, "spindle")

    assert parse(after).value == document | {"mcpServers": servers}


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "mcpServers": {\n    "a": {"command": "x"} // keep\n  }\n}\n',
        '{\r\n\t"mcpServers": {\r\n\t\t"a": 1,\r\n\t},\r\n}\r\n',
        '{"mcpServers": {"a": 1}}',
        '// head\n{\n    // servers\n    "mcpServers": {\n        "a": 1 /* x */\n        // end\n    }\n}',
    ],
)
def test_insertion_follows_the_style_of_the_file_and_removal_restores_it(text: str) -> None:
    after = put_member(text, PATH, "spindle", {"command": "x"})

    assert remove_member(after, PATH, "spindle") == text
    assert ("\r\n" in after) == ("\r\n" in text)


def test_an_entry_is_written_like_its_neighbours() -> None:
    text = '{\n\t"mcpServers": {\n\t\t"a": {}, // first\n\t},\n}'

    assert put_member(text, PATH, "spindle", {"command": "x"}) == (
        '{\n\t"mcpServers": {\n\t\t"a": {}, // first\n\t\t"spindle": {\n\t\t\t"command": "x"\n\t\t},\n\t},\n}'
    )


def test_a_name_that_occurs_twice_is_replaced_where_it_counts_and_removed_everywhere() -> None:
    text = '{"mcpServers": {"spindle": 1, "spindle": 2}}'

    assert parse(put_member(text, PATH, "spindle", ENTRY)).value == {"mcpServers": {"spindle": ENTRY}}
    assert remove_member(text, PATH, "spindle") == '{"mcpServers": {}}'


@pytest.mark.parametrize("text", ["", "\ufeff", "\n\n"])
def test_an_empty_file_becomes_a_document(text: str) -> None:
    assert parse(put_member(text, ("a", "b"), "c", 1)).value == {"a": {"b": {"c": 1}}}


@pytest.mark.parametrize(
    "text",
    ["{", "[1", '{"a" 1}', '{"a": }', '{"a": 1} x', "{'a': 1}", '{"a": 01}', '{"a": 1 "b": 2}', "/* open", '"\n"',
     "[" * 5_000, '{"a":' * 5_000, "// only a comment", "1" * 5_000, '{"a": "\\x"}', "[,]", "NaN"],
)  # fmt: skip
def test_a_broken_file_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"line [12]"):
        parse(text)


@pytest.mark.parametrize("text", ["[]", '{"mcpServers": []}', '{"mcpServers": null}'])
def test_something_else_than_an_object_on_the_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError):
        put_member(text, PATH, "spindle", ENTRY)


def test_a_comment_ends_at_its_first_end_mark() -> None:
    text = '{\n  "a": 1 /* x */ /* y */\n}'

    assert put_member(text, (), "b", 2) == '{\n  "a": 1, /* x */ /* y */\n  "b": 2\n}'
