"""Arguments are read once, and only one whole JSON object passes."""

import json
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import InvalidToolArgsError
from spindle.tools.arguments import copy_plain, read_arguments
from spindle.tools.identity import checksum

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
DUPLICATES_REFUSED = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
"""JSON allows them; a call with two meanings is refused."""


def read(args: object, *, empty_ok: bool = False) -> dict[str, Any]:
    return read_arguments(args, tool="search", empty_ok=empty_ok)


def refused(args: object, *, empty_ok: bool = False) -> InvalidToolArgsError:
    with pytest.raises(InvalidToolArgsError) as caught:
        read(args, empty_ok=empty_ok)
    assert caught.value.tool == "search"
    assert caught.value.problems
    assert "search" in str(caught.value)
    return caught.value


def is_accepted(data: bytes) -> bool:
    try:
        read(data)
    except InvalidToolArgsError:
        return False
    return True


def nested(levels: int) -> dict[str, Any]:
    """An object nested to a given depth, with a number inside."""
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_dict_is_given_back_itself() -> None:
    args = {"customer": "alice", "limit": 5, "tags": ["a", "b"], "deep": {"x": [1.5, {"y": None}]}}

    assert read(args) is args


@pytest.mark.parametrize("text", ['{"a": 1}', b'{"a": 1}', bytearray(b'{"a": 1}'), memoryview(b' \n{"a": 1}\t')])
def test_text_of_every_kind_is_parsed(text: object) -> None:
    assert read(text) == {"a": 1}


@pytest.mark.parametrize("mapping", [OrderedDict[str, int](a=1), MappingProxyType({"a": 1})])
def test_any_mapping_becomes_a_plain_dict(mapping: object) -> None:
    got = read(mapping)

    assert type(got) is dict
    assert got == {"a": 1}


@given(st.dictionaries(st.text(), JSON_VALUES))
def test_json_values_cross_unchanged(value: dict[str, Any]) -> None:
    text = json.dumps(value)

    assert read(text) == read(text.encode()) == json.loads(text)
    assert read(value) is value


def list_containers(value: Any) -> list[int]:
    """The ids of all dicts and lists in a value."""
    if value.__class__ is dict:
        return [id(value), *(each for part in value.values() for each in list_containers(part))]
    return [id(value), *(each for part in value for each in list_containers(part))] if value.__class__ is list else []


@given(
    st.dictionaries(
        st.text(max_size=3) | st.integers(),
        JSON_VALUES | st.floats() | st.tuples(JSON_VALUES) | st.binary(max_size=2) | st.builds(dict, a=st.floats()),
        max_size=4,
    )
)
def test_a_plain_mapping_is_copied_whole_and_has_a_checksum(value: dict[Any, Any]) -> None:
    copied = copy_plain(value)
    if copied is None:
        return
    assert copied == value == read(value)
    assert checksum("search", copied) == checksum("search", value)
    assert not set(list_containers(copied)) & set(list_containers(value))


@pytest.mark.parametrize(
    "value",
    [
        {1: 2},
        {"a": float("nan")},
        {"a": [float("inf")]},
        {"a": (1, 2)},
        {"ä": 1},
        {"a": {1}},
        MappingProxyType({"a": 1}),
        [1],
        "{}",
    ],
)
def test_values_that_need_inspection_are_not_copied_as_plain(value: object) -> None:
    assert copy_plain(value) is None


def test_a_deep_or_cyclic_mapping_is_not_copied_as_plain() -> None:
    inner = list[Any]()
    inner += [inner, inner]

    assert copy_plain({"a": inner}) is None
    assert copy_plain(nested(100)) is None
    assert copy_plain(nested(20)) == nested(20)


@pytest.mark.parametrize("nothing", [None, "", b"", " \n"])
def test_nothing_is_an_empty_object_and_blank_text_only_where_nothing_is_required(nothing: object) -> None:
    assert read(nothing, empty_ok=True) == {}
    if nothing is None:
        assert read(nothing) == {}
    else:
        refused(nothing)


@pytest.mark.parametrize("other", [[], [1], 1, 1.5, True, object(), Path(), {1}, "null", "[]", b"1", '"text"'])
def test_a_value_that_is_not_an_object_is_refused(other: object) -> None:
    refused(other)
    refused(other, empty_ok=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": -1E+400}',
        '{"a": [{"b": 1.8e308}]}',
        '{"a": 1' + "0" * 400 + ".0}",
        '{"a": 1' + "0" * 300 + "e300}",
    ],
)
def test_numbers_that_json_cannot_say_are_refused(text: str) -> None:
    refused(text)


def test_an_overflow_is_reported_with_its_location() -> None:
    error = refused('{"a": 1, "rows": [{"b": 1}, {"b": 1e999}]}')

    assert error.field == "rows[1].b"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"x": [float("nan")]}])
def test_a_mapping_may_not_hold_them_either(value: object) -> None:
    assert refused({"a": value}).field is not None


def test_numbers_that_only_look_large_are_taken() -> None:
    args = {"id": "3e400", "int": 10**400, "small": 1e-300, "large": 1.7e308, "uuid": "1e999999-0000"}

    assert read(json.dumps(args)) == args
    assert read('{"a": 17e0000000000307}' + " " * 400) == {"a": 17e307}


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"a":{"b":1,"b":1}}', '{"a":[{"k":1,"\\u006b":2}]}'])
def test_a_key_that_comes_twice_is_refused(text: str) -> None:
    refused(text)


@pytest.mark.parametrize("text", ['{"a":1', '{"a":"x', '{"a":', "{", '{"a":[1,2', '{"a":tru'])
def test_text_that_ends_too_early_says_so(text: str) -> None:
    assert "ends too early" in refused(text).problems[0].received


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1} x',
        '{"a":1}{"a":1}',
        "{'a':1}",
        '{"a":1,}',
        '{"a":01}',
        '{"a":"\n"}',
        '{"a":"\\x"}',
        '{"a":"\\ud800"}',
        '{"a":"\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b"\xef\xbb\xbf{}",
        "\ufeff{}",
        b'{"a":1}\x00',
        '{"a":' + "9" * 5000 + "}",
    ],
)
def test_broken_text_is_refused(text: object) -> None:
    refused(text)


@pytest.mark.parametrize("levels", [1, 199, 200])
def test_two_hundred_levels_are_taken(levels: int) -> None:
    value = nested(levels)

    assert read(json.dumps(value)) == value
    assert read(value) is value


@pytest.mark.parametrize("value", [nested(201), nested(400), {"a": json.loads("[" * 200 + "]" * 200)}])
def test_deeper_nesting_is_refused_in_text_and_in_mappings(value: dict[str, Any]) -> None:
    refused(json.dumps(value))
    refused(value)


def test_a_hundred_thousand_brackets_are_refused_at_once() -> None:
    refused('{"a":' + "[" * 100_000)
    refused('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")


def test_a_mapping_that_contains_itself_is_refused_without_doubling() -> None:
    value: dict[str, Any] = {}
    value["left"] = value["right"] = value

    refused(value)


def test_names_must_be_text() -> None:
    refused({1: "a"})


def test_a_hostile_key_is_not_repeated_at_length() -> None:
    error = refused(json.dumps({"k" * 10_000 + "\u202e": [float("inf")]}).replace("Infinity", "1e999"))

    assert len(str(error)) < 1000
    assert str(error).replace("\n", "").isprintable()


def test_every_text_of_the_json_test_suite_is_judged_as_it_says(shared_data: Path) -> None:
    files = sorted((shared_data / "json-test-suite" / "test_parsing").glob("*.json"))
    assert len(files) > 300
    for file in files:
        data = file.read_bytes()
        accepted = is_accepted(data)
        is_object = data.strip().startswith(b"{")
        if file.name.startswith("n_"):
            assert not accepted, file.name
        elif file.name.startswith("y_"):
            assert accepted == (is_object and file.name not in DUPLICATES_REFUSED), file.name


def test_naughty_strings_pass_as_keys_and_as_values(shared_data: Path) -> None:
    strings: list[str] = json.loads((shared_data / "naughty-strings" / "blns.json").read_text(encoding="utf-8"))
    assert len(strings) > 500
    for text in strings:
        args = {"value": text, f"{text} ": [text, {text: text}]}

        assert read(json.dumps(args)) == read(json.dumps(args, ensure_ascii=False).encode()) == args
