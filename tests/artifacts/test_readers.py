from array import array
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.readers import (
    BLOCK_BYTES,
    MAX_TEXT_BYTES,
    LineIndex,
    LineIndexer,
    build_line_index,
    char_start,
    decode_text,
    encode_text,
    format_excerpt,
    is_utf8,
    nth_newline,
    replace_invalid_utf8,
    truncate_line,
)

# Few letters and long runs, so that lines and blocks meet in every way.
contents = st.lists(
    st.one_of(st.just(b"\n"), st.just(b"a"), st.just(b"x" * (BLOCK_BYTES - 1)), st.just(b"\n" * 300), st.just(b"bc\n")),
    max_size=12,
).map(b"".join)


def lines_of(data: bytes) -> list[bytes]:
    return data.split(b"\n") if data else []


def read_lines(index: LineIndex, data: bytes, start: int, end: int) -> list[bytes]:
    start, end = index.clamp(start, end)
    if start >= end:
        return []
    first, last = index.find_blocks(start, end)
    blocks = data[first:last]
    begin, stop = index.find_offsets(blocks, start, end)
    return blocks[begin:stop].split(b"\n")


@given(data=contents, start=st.integers(-2, 700), length=st.integers(0, 700))
def test_range_read_by_the_index_equals_the_lines(data: bytes, start: int, length: int) -> None:
    expected = lines_of(data)
    index = build_line_index(data)

    assert index.line_count == len(expected)
    assert index.byte_length == len(data)
    assert read_lines(index, data, start, start + length) == expected[max(start, 0) : max(start + length, 0)]


@given(data=contents)
def test_line_is_found_by_reading_two_blocks(data: bytes) -> None:
    index = build_line_index(data)
    asked: list[int] = []

    def read(start: int, end: int) -> bytes:
        asked.append(end - start)
        return data[start:end]

    place = 0
    for number, line in list(enumerate(lines_of(data)))[:50]:
        asked.clear()
        assert index.find_line(read, number) == (place, place + len(line))
        assert len(asked) <= 2
        assert max(asked, default=0) <= BLOCK_BYTES
        place += len(line) + 1


@given(data=contents, cuts=st.lists(st.integers(0, 200_000), max_size=5))
def test_the_index_does_not_depend_on_how_bytes_arrive(data: bytes, cuts: Sequence[int]) -> None:
    indexer = LineIndexer()
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(borders):
        indexer.feed(data[start:end])

    assert indexer.finish() == build_line_index(data)


def test_an_index_can_be_taken_while_bytes_still_arrive() -> None:
    indexer = LineIndexer()
    indexer.feed(b"a\n")
    early = indexer.finish()
    indexer.feed(b"b\n")

    assert (early.line_count, indexer.finish().line_count) == (2, 3)


def test_a_range_reads_only_the_blocks_it_touches() -> None:
    data = b"0123456\n" * 100_000
    index = build_line_index(data)

    first, last = index.find_blocks(50_000, 50_010)

    assert last - first == BLOCK_BYTES
    assert first <= 50_000 * 8 < last


def test_empty_content_has_no_lines() -> None:
    assert build_line_index(b"") == LineIndex(0, array("Q", [0]))
    assert build_line_index(b"").line_count == 0


def test_missing_newline_raises() -> None:
    assert nth_newline(b"a\nb\n", 2) == 3
    with pytest.raises(ValueError, match="not found"):
        nth_newline(b"a\nb\n", 3)


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_encoding_keeps_all_text(text: str) -> None:
    assert encode_text(text).decode("utf-8", "surrogatepass") == text


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    marked = "\ufefftext".encode()

    assert decode_text(marked, at_start=True) == "text"
    assert decode_text(marked) == "\ufefftext"
    assert decode_text(b"\xff\xef\xbb\xbf", at_start=True) == "\ufffd\ufeff"


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


def test_excerpt_says_what_was_cut_on_each_side() -> None:
    assert format_excerpt(b"abc") == "abc"
    assert format_excerpt(b"abc", before=5, after=7) == "[… 5 bytes cut] abc [7 bytes cut …]"


def test_a_line_is_whole_up_to_the_limit() -> None:
    whole = b"x" * MAX_TEXT_BYTES

    assert truncate_line(whole) == whole.decode()
    assert truncate_line(whole + b"y") == whole.decode() + " [1 bytes cut …]"
    assert truncate_line(whole, total=10**9) == whole.decode() + f" [{10**9 - MAX_TEXT_BYTES} bytes cut …]"


def test_char_start_moves_to_the_next_character() -> None:
    data = "a😀b".encode()

    assert [char_start(data, place) for place in range(8)] == [0, 1, 5, 5, 5, 5, 6, 6]
    assert char_start(b"\x80" * 9, 2) == 2
