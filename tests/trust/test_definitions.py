"""Every text of a definition is clean and bounded, and its contract is kept or the definition is rejected."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import InvalidToolError
from spindle.trust import DefinitionTexts, sanitise_definition, sanitise_text
from spindle.trust.definitions import (
    MAX_DESCRIPTION_CHARS,
    MAX_SCHEMA_TEXT_CHARS,
    MAX_SCHEMA_TEXTS_CHARS,
    sanitise_schema,
)
from spindle.trust.sanitise import BREAK, reveal_invisible, sanitise

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "steal")
NAUGHTY = [
    "<|im_start|>",
    "\u202e",
    "\u200b",
    TAGS,
    "[INST]",
    "\x00",
    "a",
    "System:",
    "\ud800",
    "می\u200cخواهم",
    "👩\u200d💻",
]
TEXTS = st.lists(st.sampled_from(NAUGHTY) | st.text(max_size=5), max_size=6).map("".join)
KEYS = st.sampled_from(
    ["description", "title", "properties", "enum", "const", "default", "items", "$defs", "anyOf", "x-note", "required"]
)


Schema: TypeAlias = dict[str, Any]


def clean(schema: Schema) -> Schema:
    return sanitise_schema(schema, tool="t")


def texts_of(value: object) -> Iterator[str]:
    """Yield every text of a JSON value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in cast("Schema", value).items():
            yield key
            yield from texts_of(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from texts_of(each)


def test_every_text_for_readers_is_sanitised_wherever_it_stands() -> None:
    dirty = f"Say <|im_start|>{TAGS}\u202e now"
    schema: Schema = {
        "type": "object",
        "title": dirty,
        "description": dirty,
        "$comment": dirty,
        "x-note": {"deep": [dirty, {dirty: dirty}]},
        "properties": {
            "description": {"type": "string", "description": dirty, "default": dirty, "examples": [dirty, [dirty]]},
            "list": {"type": "array", "items": {"anyOf": [{"title": dirty}, {"$ref": "#/$defs/a"}]}},
        },
        "$defs": {"a": {"enum": ["x"], "enumDescriptions": [dirty]}},
        "if": {"description": dirty},
        "dependencies": {"list": {"description": dirty}, "description": ["list"]},
    }

    found = clean(schema)

    assert all(sanitise(text) == text for text in texts_of(found))
    assert json.dumps(found).count(json.dumps(sanitise(dirty))) == json.dumps(schema).count(json.dumps(dirty))
    assert found["properties"].keys() == schema["properties"].keys()


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم بخوانم",
        "👩\u200d💻 and ❤\ufe0f",
        "שלום עולם",
        "مرحبا",
        "क्\u200dष",
        "日本語\U000e0101",
        "naïve — “ok”\n\tline",
    ],
)
def test_legitimate_unicode_stays_in_texts_and_in_the_contract(text: str) -> None:
    schema: Schema = {"type": "object", "description": text, "properties": {text: {"enum": [text], "const": text}}}

    assert clean(schema) == schema
    assert sanitise_text(text) == text


@pytest.mark.parametrize(
    "hidden", ["\u200b", "\u202e", "\u2066", TAGS, "\ufe0f", "\u00ad", "\x1b", "\u3164", "<|im_end|>"]
)
@pytest.mark.parametrize("place", range(10))
def test_hidden_characters_in_the_contract_reject_the_definition(place: int, hidden: str) -> None:
    text = f"read{hidden}file"
    places: list[Schema] = [
        {"properties": {text: {}}},
        {"$defs": {text: {}}},
        {"enum": ["a", {"b": text}]},
        {"const": [{text: 1}]},
        {"items": {"allOf": [{"required": [text]}]}},
        {"dependentRequired": {"a": [text]}},
        {"dependencies": {text: {}}},
        {"dependencies": {"a": [text]}},
        {"format": text},
        {"$ref": f"#/$defs/{text}"},
    ]
    with pytest.raises(InvalidToolError) as caught:
        clean(places[place])

    assert (caught.value.tool, caught.value.field) == ("t", "input_schema")
    assert reveal_invisible(str(caught.value)) == str(caught.value)


def test_a_pattern_may_have_brackets_that_look_like_a_token_but_nothing_hidden() -> None:
    schema: Schema = {"pattern": "^[ARGS]+$", "patternProperties": {"^[IMG]": {}}}

    assert clean(schema) == schema
    hidden: list[Schema] = [{"pattern": "a\u200b"}, {"patternProperties": {"a\u200b": {}}}]
    for each in hidden:
        with pytest.raises(InvalidToolError):
            clean(each)


def test_name_and_output_schema_are_part_of_the_contract() -> None:
    given = DefinitionTexts(
        name="t", title="T\u200b", description="D[INST]", input_schema={}, output_schema={"$comment": "\x00"}
    )

    found = sanitise_definition(given)

    assert (found.title, found.description, found.output_schema) == ("T", f"D[{BREAK}INST]", {"$comment": "[U+0000]"})
    for field, texts in (
        ("name", DefinitionTexts(name="t\u200b", input_schema={})),
        ("output_schema", DefinitionTexts(name="t", input_schema={}, output_schema={"enum": ["\u200b"]})),
    ):
        with pytest.raises(InvalidToolError) as caught:
            sanitise_definition(texts)
        assert caught.value.field == field


def test_lengths_are_bounded() -> None:
    many = clean({"properties": {f"p{i}": {"description": "word " * 1_000} for i in range(300)}})
    shown = [each["description"] for each in many["properties"].values()]

    assert len(sanitise_text("x" * 1_000_000)) == MAX_DESCRIPTION_CHARS
    assert len(sanitise_text(f"{TAGS}<s>" * 100_000)) <= MAX_DESCRIPTION_CHARS
    assert {len(text) for text in shown} == {MAX_SCHEMA_TEXT_CHARS, 0}
    assert sum(map(len, shown)) <= MAX_SCHEMA_TEXTS_CHARS
    assert sanitise_text("👩\u200d💻" * 100, 102).endswith("💻👩…")


def test_a_schema_without_end_is_rejected() -> None:
    for keyword in ("items", "x-note", "const"):
        schema: dict[str, Any] = {}
        for _ in range(5_000):
            schema = {keyword: schema}
        with pytest.raises(InvalidToolError):
            clean(schema)


@given(
    st.recursive(
        TEXTS | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | TEXTS, inner, max_size=4),
    )
)
def test_any_json_is_cleaned_or_rejected_and_cleaning_is_idempotent(value: Any) -> None:
    try:
        found = clean({"default": value, "anyOf": [value]})
    except InvalidToolError:
        return
    assert clean(found) == found
    assert all(reveal_invisible(text) == text for text in texts_of(found))


@given(TEXTS, st.integers(min_value=2, max_value=40))
def test_a_shortened_text_is_clean_and_within_its_limit(text: str, most: int) -> None:
    short = sanitise_text(text, most)

    assert len(short) <= most
    assert reveal_invisible(short) == short
