"""Escaping of text and rows for PostgreSQL."""

from hypothesis import given
from hypothesis import strategies as st

from spindle.journal.backends.postgres_queries import digest, escape_text, escape_values, to_row, unescape_text
from spindle.journal.entries import to_claim
from tests.journal.sample_calls import intent

texts = st.text(st.characters(codec=None) | st.sampled_from("\\\0u0\ud800"), max_size=12)


@given(text=texts)
def test_escaped_text_is_storable_and_unescapes_to_the_original(text: str) -> None:
    stored = escape_text(text)

    assert unescape_text(stored) == text
    assert "\0" not in stored
    stored.encode()


@given(one=texts, other=texts)
def test_escaped_texts_are_equal_only_for_equal_texts(one: str, other: str) -> None:
    assert (escape_text(one) == escape_text(other)) == (one == other)
    assert (digest(one) == digest(other)) == (one == other)


def test_plain_text_is_stored_as_it_is() -> None:
    assert escape_text("café 😀 'quoted' \n") == "café 😀 'quoted' \n"


@given(text=texts)
def test_a_row_comes_back_and_its_json_is_stored_as_json(text: str) -> None:
    row = to_claim(intent("a", tool=text, session_id=text, args={text: "back\\slash"})).row
    stored = escape_values(row)

    assert to_row(stored) == row
    assert row.args in stored
