from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.readers import (
    MAX_TEXT_BYTES,
    char_start,
    format_excerpt,
    is_utf8,
    replace_invalid_utf8,
    truncate_line,
)

pieces = st.lists(
    st.sampled_from(
        [b"a" * 200_000, "é".encode(), "😀".encode() * 65_536, b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\n"]
    ),
    max_size=6,
).map(b"".join)


@given(data=pieces)
def test_text_is_repaired_as_python_decodes_it(data: bytes) -> None:
    assert replace_invalid_utf8(data) == data.decode("utf-8", "replace").encode()


def decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(data=st.one_of(pieces, st.text().map(str.encode)), rest=st.binary(max_size=3))
def test_bytes_that_decode_are_utf8_whatever_follows(data: bytes, rest: bytes) -> None:
    assert is_utf8(data + rest, len(data)) == decodes(data)


def test_what_was_cut_is_said_on_either_side() -> None:
    assert format_excerpt(b"abc") == "abc"
    assert format_excerpt(b"abc", before=5, after=7) == "[… 5 bytes cut] abc [7 bytes cut …]"


def test_a_line_is_whole_up_to_the_limit() -> None:
    whole = b"x" * MAX_TEXT_BYTES

    assert truncate_line(whole) == whole.decode()
    assert truncate_line(whole + b"y") == whole.decode() + " [1 bytes cut …]"
    assert truncate_line(whole, total=10**9) == whole.decode() + f" [{10**9 - MAX_TEXT_BYTES} bytes cut …]"
    assert truncate_line(b"\xef\xbb\xbfabc", at_start=True) == "abc"
    assert truncate_line(b"\xef\xbb\xbfabc") == "\ufeffabc"


def test_a_place_moves_to_the_next_character() -> None:
    data = "a😀b".encode()

    assert [char_start(data, place) for place in range(8)] == [0, 1, 5, 5, 5, 5, 6, 6]
    assert char_start(b"\x80" * 9, 2) == 2
