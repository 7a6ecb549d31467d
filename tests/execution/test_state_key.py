"""The state key signs texts and seals values; a changed text, another binding or another key is refused."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import SecretError, UsageError
from spindle.execution import StateKey


@given(st.text(string.ascii_letters + string.digits + "_-", min_size=1), st.text())
def test_only_signed_text_is_accepted(text: str, bound: str) -> None:
    key = StateKey("a key")
    signed = key.sign(text, bound=bound)

    assert key.verify(signed, bound=bound)
    assert not key.verify(signed, bound=f"{bound}x")
    assert not key.verify(signed[1:], bound=bound)
    assert not StateKey("another key").verify(signed, bound=bound)


def test_no_other_spelling_of_a_signature_is_accepted() -> None:
    key = StateKey(b"a key")
    signed = key.sign("text", bound="call")
    letters = string.ascii_letters + string.digits + "-_"

    for place in range(len(signed)):
        changed = {f"{signed[:place]}{letter}{signed[place + 1 :]}" for letter in letters} - {signed}
        assert not any(key.verify(each, bound="call") for each in changed)


@pytest.mark.parametrize("text", ["", ".", "text", "é.é", "text.", ".text", "\ud800.x"])
def test_a_text_without_a_signature_is_refused(text: str) -> None:
    assert not StateKey("a key").verify(text, bound="call")


@given(st.binary(), st.text(string.printable))
def test_a_sealed_value_is_read_with_its_binding_only(data: bytes, bound: str) -> None:
    key = StateKey("a key")
    sealed = key.seal(data, bound=bound)

    assert key.unseal(sealed, bound=bound) == data
    assert len(data) < 8 or data not in sealed
    for changed in (sealed[:-1], sealed[:-1] + bytes([sealed[-1] ^ 1]), b"", sealed[:10], b"xxxx" + sealed[4:]):
        with pytest.raises(SecretError, match="state key"):
            key.unseal(changed, bound=bound)
    with pytest.raises(SecretError):
        key.unseal(sealed, bound=f"{bound}x")


def test_after_a_rotation_the_older_key_is_accepted_and_the_newer_one_used() -> None:
    old, rotated, new = StateKey("old"), StateKey(["new", "old"]), StateKey("new")
    signed, sealed = old.sign("text", bound=""), old.seal(b"data", bound="")

    assert rotated.verify(signed, bound="")
    assert rotated.unseal(sealed, bound="") == b"data"
    assert new.verify(rotated.sign("text", bound=""), bound="")
    assert new.unseal(rotated.seal(b"data", bound=""), bound="") == b"data"
    assert not new.verify(signed, bound="")


@pytest.mark.parametrize("keys", ["", b"", [], [""], ["a", ""], None, 3, ["a", 3]])
def test_a_key_is_text_or_bytes(keys: object) -> None:
    with pytest.raises(UsageError, match="state_key must be text or bytes"):
        StateKey(keys)  # pyright: ignore[reportArgumentType]
