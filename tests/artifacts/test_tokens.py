import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.tokens import (
    KNOWN_ENCODINGS,
    estimate_from_bytes,
    estimate_from_text,
    find_counter,
    is_prose,
    register_counter,
)
from spindle.errors import ArtifactQueryError, UsageError

PROSE = "The spindle turns, and the thread is wound upon it. Nobody hurries; the wheel keeps its own time. " * 20


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', "[1, 2]", "<html>", "eyJhbGciOiJIUzI1NiJ9" * 20, "2024-01-01T10:00:00 GET /a/b 200 17ms\n" * 9, ""],
)
def test_machine_text_is_not_prose(text: str) -> None:
    assert not is_prose(text)


def test_sentences_are_prose() -> None:
    assert is_prose(PROSE)


def test_a_script_without_spaces_counts_as_machine_text() -> None:
    assert not is_prose("漢字かな交じり文" * 50)


@given(st.integers(min_value=0, max_value=10**12), st.booleans())
def test_an_estimate_rounds_up_and_never_falls(size: int, prose: bool) -> None:
    ratio = 3.5 if prose else 2
    assert estimate_from_bytes(size, prose=prose) * ratio >= size
    assert estimate_from_bytes(size + 1, prose=prose) >= estimate_from_bytes(size, prose=prose)


@given(st.text(), st.text())
def test_the_estimate_of_a_longer_text_is_never_lower(text: str, more: str) -> None:
    whole = (text + more).encode("utf-8", "surrogatepass")

    assert estimate_from_text(whole) >= estimate_from_text(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("run", ["a", "7", "[", "é", "漢"])
def test_a_long_run_of_one_character_has_tokens(run: str) -> None:
    assert estimate_from_text((run * 1_000).encode()) >= 100


def test_an_empty_text_has_no_tokens() -> None:
    assert estimate_from_text(b"") == 0


def test_a_registered_counter_answers_for_its_encoding_until_it_is_undone() -> None:
    first = register_counter("words", lambda text: len(text.split()))
    second = register_counter("words", len)
    count = find_counter("words")
    assert count is not None
    assert count("a b") == 3

    second()
    count = find_counter("words")
    assert count is not None
    assert count("a b") == 2

    first()
    with pytest.raises(ArtifactQueryError):
        find_counter("words")


def test_known_encodings_without_a_counter_are_estimated() -> None:
    assert all(find_counter(name) is None for name in [*KNOWN_ENCODINGS, None])


def test_a_counter_needs_a_name() -> None:
    with pytest.raises(UsageError):
        register_counter("", len)
