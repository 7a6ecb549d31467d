from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts import BytesReader, IndexedReader, Search, Spool
from spindle.artifacts.artifact import Artifact
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.line_view import LineView
from spindle.artifacts.long_lines import CharMap, count_chars, cut_around, cut_line
from spindle.artifacts.queries import Bounds
from spindle.artifacts.readers import LineIndexer, LinePart, decode_text

pytestmark = pytest.mark.anyio

MEGABYTE = b"0123456789abcde\xc3\xa9" * 61_680 + b"x" * 16
"""A MiB of 986,896 characters."""
MEGABYTE_CHARS = 61_680 * 16 + 16


class LongLine:
    """One line of 100 MiB that is never in memory: the same megabyte again and again."""

    search_bytes = 1 << 20
    length = 100 << 20

    def __init__(self) -> None:
        self.largest = self.total = 0

    def read(self, start: int, end: int) -> bytes:
        self.largest = max(self.largest, end - start)
        self.total += end - start
        begin = start >> 20 << 20
        return (MEGABYTE * (((end - begin) >> 20) + 1))[start - begin : end - begin]

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        raise NotImplementedError


def open_long_line() -> tuple[BlockReader, LongLine]:
    assert len(MEGABYTE) == 1 << 20
    line, indexer = LongLine(), LineIndexer()
    for _ in range(100):
        indexer.feed(MEGABYTE)
    return BlockReader(line, indexer.finish()), line


async def test_line_of_100_megabytes_is_shown_without_loading_it() -> None:
    reader, line = open_long_line()
    view = LineView(Artifact(reader), Bounds())

    for (shown,) in (await view.head(10), await view.tail(10), await view.cat(None, 201)):
        assert shown.startswith("0123456789abcdeé")
        assert shown.endswith("x" * 16)
        assert "start_char=1000" in shown
        assert len(shown) < 1_700
    assert line.total < 1 << 20


async def test_match_at_the_end_of_a_line_of_100_megabytes_has_its_column() -> None:
    reader, line = open_long_line()
    view = LineView(Artifact(reader), Bounds())

    (match,) = await view.grep(pattern="[x]+$")

    assert match.column == 100 * MEGABYTE_CHARS - 16
    assert match.text.endswith("abcdeé" + "x" * 16)
    assert line.largest <= 5 << 20


async def test_pages_of_a_line_of_100_megabytes_cost_what_they_show_after_the_first() -> None:
    reader, line = open_long_line()
    last = 100 * MEGABYTE_CHARS - 20

    assert await reader.read_chars(0, last, None) == "cdeé" + "x" * 16
    first_cost, line.total = line.total, 0
    for start in range(last - 4_000_000, last, 20_000):
        assert await reader.read_chars(0, start, start + 20_000)

    assert first_cost < 110 << 20
    assert line.total < 200 * 3 * (1 << 20)
    assert line.largest <= 1 << 20


@given(data=st.binary(max_size=300).map(lambda data: data.replace(b"\n", b"")), step=st.integers(4, 50))
def test_any_range_of_characters_is_that_of_the_decoded_line(data: bytes, step: int) -> None:
    text = decode_text(data)
    chars = CharMap(lambda start, end: data[start:end], 0, len(data), step_bytes=step)
    for start in range(0, len(text) + 2, 3):
        while not chars.extend(start):
            pass
        part = chars.read_part(start, start + 7)
        assert text[start : start + 7].startswith(part)
        assert bool(part) == (start < len(text))


@given(data=st.binary(max_size=100))
def test_characters_are_counted_as_decoded(data: bytes) -> None:
    assert count_chars(data) == len(decode_text(data))
    assert count_chars(data * 7_000) == len(decode_text(data * 7_000))


def test_line_is_whole_up_to_its_limit_and_two_ends_above() -> None:
    assert cut_line("é".encode() * 20, 20) == LinePart("é" * 20)
    assert cut_line("é".encode() * 21, 20) == LinePart("é" * 10, "é" * 5, 12)
    assert cut_line(b"", 20) == LinePart("")
    assert cut_line(b"\xff" * 9, 8).head == "\ufffd" * 4
    assert LinePart("whole").describe(7) == "whole"
    assert (
        LinePart("ab", "yz", 30).describe(7)
        == "ab [… 30 bytes left out; artifact_cat start=7, start_char=2 reads on …] yz"
    )


@given(text=st.text(max_size=60, alphabet="aé漢😀"), at=st.integers(0, 60), max_chars=st.integers(3, 30))
def test_part_around_a_place_is_a_part_of_the_line(text: str, at: int, max_chars: int) -> None:
    at = min(at, len(text))

    part = cut_around(text.encode(), len(text[:at].encode()), max_chars)

    before, after = part.startswith("…"), part.endswith("…")
    inner = part.strip("…")
    assert len(inner) <= max_chars
    first = at - max_chars // 3 if before else 0
    assert text[first : first + len(inner)] == inner
    assert first <= at <= first + len(inner)
    assert after == (first + len(inner) < len(text))


async def test_byte_order_mark_is_not_a_character_of_a_line(tmp_path: Path) -> None:
    content = "\ufeffabc" * 3
    spooled: IndexedReader = await Spool.files(tmp_path).write("id", content)
    for reader in (BytesReader(content), spooled):
        assert await reader.read_chars(0, 0, 3) == "abc"
        assert await reader.read_chars(0, 3, None) == "\ufeffabc\ufeffabc"
        assert await reader.read_chars(1, 0, 3) is None
        assert await reader.read_chars(-1, 0, 3) is None
        assert await reader.read_line_ends(0, 9, 100) == [LinePart("abc\ufeffabc\ufeffabc")]
        (match,) = await reader.search(Search(pattern="c$", max_line_chars=5))
        assert match.column == 10
