"""Which bytes are text, and in which encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.kit.files import decode_text


@given(st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_text_that_is_read_is_written_back_byte_for_byte(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    found = decode_text(data)

    if found is None:
        assert encoding == "utf-8"
        assert "\0" in text
    else:
        assert found.encode(found.text) == data


def test_a_mark_of_utf_16_and_a_zero_is_not_taken_for_one_of_utf_32() -> None:
    found = decode_text("\x000".encode("utf-16"))

    assert found is not None
    assert (found.text, found.encoding) == ("\x000", "utf-16")


@given(st.binary())
def test_bytes_that_are_read_are_never_lost(data: bytes) -> None:
    found = decode_text(data)

    assert found is None or found.encode(found.text) == data


@pytest.mark.parametrize(
    ("data", "encoding"),
    [(b"plain", "utf-8"), (b"caf\xe9 au lait", "latin-1"), (b"\xfe\xff\0a", "utf-16"), (b"", "utf-8")],
)
def test_the_encoding_is_told(data: bytes, encoding: str) -> None:
    found = decode_text(data)

    assert found is not None
    assert found.encoding == encoding
    assert (found.note is None) == (encoding == "utf-8")


@pytest.mark.parametrize("data", [b"\0", b"a" * 100 + b"\0", b"\xff\xfe\xff", b"\x01\x02\x03\xff" * 20])
def test_what_is_no_text_is_none(data: bytes) -> None:
    assert decode_text(data) is None
