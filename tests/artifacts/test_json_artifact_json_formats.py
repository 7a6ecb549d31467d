from pathlib import Path

import pytest

from spindle.artifacts.json_artifact import MAX_JSON5_CHARS, is_json, parse_document, parse_json5, parse_record
from spindle.errors import InvalidArtifactError


def test_integers_keep_every_digit_and_the_last_of_equal_keys_counts() -> None:
    assert parse_document("123456789012345678901234567890") == 123456789012345678901234567890
    assert parse_document('{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "[1,]", "{a: 1}", "'a'", "1 2", "", "[" * 5000])
def test_only_strict_json_is_json(text: str) -> None:
    assert not is_json(text)
    with pytest.raises(InvalidArtifactError):
        parse_document(text)
    with pytest.raises(InvalidArtifactError):
        parse_record(text, 7)


def test_json5_has_comments_bare_keys_and_nan() -> None:
    value = parse_json5("{a: 1, 'b': [.5, +1,], // c\n n: NaN}")

    assert value["a"] == 1
    assert value["b"] == [0.5, 1]
    assert value["n"] != value["n"]


@pytest.mark.parametrize("text", ["{a", "", "[" * 20_000, "a" * (MAX_JSON5_CHARS + 1)])
def test_what_is_no_json5_is_refused(text: str) -> None:
    with pytest.raises(InvalidArtifactError):
        parse_json5(text)


def test_the_public_suite_of_json_texts_is_judged_as_it_says(shared_data: Path) -> None:
    judged = 0
    for file in sorted((shared_data / "json-test-suite" / "test_parsing").glob("[yn]_*.json")):
        try:
            text = file.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        assert is_json(text) == file.name.startswith("y_"), file.name
        judged += 1
    assert judged > 200
