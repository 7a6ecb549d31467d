"""A key names one call of one turn, and no other."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from spindle.journal.entries import idempotency_key
from spindle.tools import canonical_json

texts = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(["", "a", '"', ",", '","', "\ud800", "null"])
parts = st.tuples(st.none() | texts, st.none() | texts, texts, texts)


def test_a_key_is_the_same_in_every_process() -> None:
    canonical = b'{"checksum":"abc","session_id":"s1","tool_call_id":"call_1","turn_id":null}'

    assert idempotency_key("s1", None, "call_1", "abc") == sha256(canonical).hexdigest()


@given(names=parts)
def test_a_key_is_the_hash_of_canonical_json(names: tuple[str | None, str | None, str, str]) -> None:
    session_id, turn_id, tool_call_id, checksum = names
    whole = {"session_id": session_id, "turn_id": turn_id, "tool_call_id": tool_call_id, "checksum": checksum}

    assert idempotency_key(*names) == sha256(canonical_json(whole)).hexdigest()


@given(one=parts, other=parts)
def test_two_calls_share_a_key_only_if_they_are_the_same(
    one: tuple[str | None, str | None, str, str], other: tuple[str | None, str | None, str, str]
) -> None:
    assert (idempotency_key(*one) == idempotency_key(*other)) == (one == other)


def test_no_session_is_not_a_session_without_a_name() -> None:
    keys = {idempotency_key(*names, "id", "sum") for names in [(None, None), ("", None), (None, ""), ("", "")]}

    assert len(keys) == 4


def test_what_stands_in_one_part_cannot_pass_for_another() -> None:
    assert idempotency_key("a", "b", "c", "d") != idempotency_key("a", "c", "b", "d")
    assert idempotency_key("ab", "", "c", "d") != idempotency_key("a", "b", "c", "d")
