import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.artifacts import json_stream
from spindle.artifacts.json_path import PathQuery
from spindle.artifacts.json_records import load_value, parse_json
from spindle.artifacts.json_stream import JsonDocument, LargeArray, LargeObject
from spindle.artifacts.readers import decode_text
from spindle.errors import ArtifactQueryError, InvalidArtifactError
from tests.fuzzing import examples

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    ['"', "\\", "}, {", "],[", ","]
)
# A number longer than a window is refused, and windows are small here.
numbers = st.integers(-(10**24), 10**24)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(texts, inner, max_size=9),
    max_leaves=60,
)
layouts: Any = st.fixed_dictionaries(
    {"indent": st.sampled_from([None, 0, 2]), "ensure_ascii": st.booleans()},
    optional={"separators": st.just((",", ":"))},
)


def open_document(text: str | bytes) -> JsonDocument:
    data = text.encode() if isinstance(text, str) else text
    return JsonDocument(lambda start, end: data[start:end], len(data))


@pytest.fixture(scope="module", autouse=True)
def small_windows() -> Any:
    """Windows so small that almost every container is a large one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "WINDOW_BYTES", 32)
        patch.setattr(json_stream, "_RUN_CHARS", 16)
        yield


@settings(max_examples=examples(100), deadline=None)
@given(values, layouts)
def test_a_document_is_read_in_windows_as_it_is_read_whole(value: Any, layout: dict[str, Any]) -> None:
    text = json.dumps(value, **layout)

    assert load_value(open_document(text).load(), 1 << 20) == json.loads(text)


@settings(max_examples=examples(100), deadline=None)
@given(values, st.data())
def test_a_document_that_ends_too_early_is_an_error(value: Any, data: st.DataObject) -> None:
    text = json.dumps({"all": value})
    cut = data.draw(st.integers(0, len(text) - 1))

    with pytest.raises(InvalidArtifactError):
        open_document(text[:cut]).load()


@settings(max_examples=examples(150), deadline=None)
@given(values, layouts, st.lists(st.tuples(st.integers(0, 1 << 30), st.binary(max_size=3)), max_size=3))
def test_any_bytes_are_judged_in_windows_as_they_are_judged_whole(
    value: Any, layout: dict[str, Any], damage: list[tuple[int, bytes]]
) -> None:
    data = json.dumps(value, **layout).encode()
    for place, put in damage:
        at = place % (len(data) + 1)
        data = data[:at] + put + data[at + place % 2 :]
    try:
        whole: Any = parse_json(decode_text(data, at_start=True))
    except ValueError:
        with pytest.raises(InvalidArtifactError):
            load_value(open_document(data).load(), 1 << 20)
    else:
        assert repr(load_value(open_document(data).load(), 1 << 20)) == repr(whole)


PATHS = (
    *("$.*", "$..*", "$[0]", "$[-1]", "$[1:3]", "$[::-2]", "$..[0]", "$[?@[0] == @[1]]", "$..[?@ == $[0]]"),
    *("$..[?@ != @]", "$[?length(@) > 2]", "$[?count(@.*) > 1]", "$[*][?@ == $[-1]]", "$[?@ == $[1]]"),
)


@settings(max_examples=examples(100), deadline=None)
@given(values, st.sampled_from(PATHS), st.booleans())
def test_a_path_finds_in_windows_what_it_finds_in_the_whole(value: Any, path: str, is_repeated: bool) -> None:
    text = json.dumps([value, "x" * 25, value] if is_repeated else value)
    whole = PathQuery(path).select(parse_json(text))
    try:
        found = PathQuery(path).select(open_document(text).load())
    except ArtifactQueryError as error:
        assert "two objects" in str(error)  # noqa: PT017 - the only reason to refuse
    else:
        assert repr([load_value(each, 1 << 20) for each in found]) == repr(whole)


@pytest.mark.parametrize(
    "text",
    [
        "[1 2]",
        "[1,]",
        "[,1]",
        "{1: 2}",
        '{"a" 1}',
        '{"a": 1,}',
        "[NaN]",
        "[-Infinity]",
        "[01]",
        "[1]]",
        '["\\ud800"]',
        "[",
    ],
)
def test_text_that_is_not_strict_json_is_an_error(text: str) -> None:
    for odd in (text, f'[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], {text}, "{"x" * 99}"]'):
        with pytest.raises(InvalidArtifactError):
            open_document(odd).load()


def test_nesting_has_a_limit() -> None:
    with pytest.raises(InvalidArtifactError):
        open_document("[" * 5000 + "]" * 5000).load()


@pytest.mark.parametrize("depth", [190, 250, 900])
@pytest.mark.parametrize("leaf", ["1", '"\\u00e9"'])
def test_nesting_has_the_same_limit_in_any_place_of_a_document(
    depth: int, leaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "WINDOW_BYTES", 1 << 20)
    deep = "[" * depth + leaf + "]" * depth
    for text in (deep, f"[{deep}]", f'["{"x" * (1 << 20)}", {deep}]', f'["{"x" * (1 << 20)}", {deep}, 2]'):
        if depth < json_stream.MAX_DEPTH:
            open_document(text).load()
        else:
            with pytest.raises(InvalidArtifactError):
                open_document(text).load()


def test_large_containers_know_their_length_after_one_reading() -> None:
    root = open_document(json.dumps({"a": list(range(50)), "b": {str(n): n for n in range(40)}, "a b": 1})).load()

    assert isinstance(root, LargeObject)
    numbers, members = root.get("a", None), root.get("b", None)
    assert isinstance(numbers, LargeArray)
    assert isinstance(members, LargeObject)
    assert (len(root), len(numbers), len(members)) == (3, 50, 40)
    assert list(numbers.slice(slice(-3, None))) == [47, 48, 49]
    assert list(numbers.slice(slice(None, None, -20))) == [49, 29, 9]
    assert list(numbers.slice(slice(60, 70))) == []
    assert members.get("39", None) == 39
    assert root.get("nothing", 5) == 5


def test_of_duplicate_names_the_last_counts() -> None:
    root = open_document('{"a": 1, "b": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], "a": 2}').load()

    assert isinstance(root, LargeObject)
    assert root.get("a", None) == 2
    assert load_value(root, 1000)["a"] == 2
