from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts import BLOCK_BYTES, BytesReader, FileStore
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.browsing import find_line, read_bytes, read_page, read_piece
from spindle.artifacts.browsing.lines import MAX_HEX_BYTES, MAX_LINE_BYTES, MAX_PAGE_LINES
from spindle.artifacts.readers import LineIndexer

texts = st.lists(st.text(max_size=30), max_size=12).map("\n".join)
repeats = st.sampled_from([1, 1, 100, 1_000, BLOCK_BYTES])


@given(st.lists(st.tuples(st.text("aé\n\ufeff", max_size=4), repeats), max_size=6), st.integers(1, 7))
def test_pages_put_together_give_the_lines(parts: list[tuple[str, int]], count: int) -> None:
    text = "".join(part if "\n" in part else part * times for part, times in parts)
    content = BytesReader(text)
    found: list[str] = []
    line: int | None = 0
    while line is not None:
        page = read_page(content, line, count, max_line_bytes=10**9)
        found += [one.text for one in page.lines]
        line = page.next_line
    # A line of more than a block is cut by a page, whatever is asked for.
    expected = text.removeprefix("\ufeff").split("\n") if text else []
    assert len(found) == len(expected)
    for shown, whole in zip(found, expected, strict=True):
        assert whole.startswith(shown)
        assert shown == whole or len(shown.encode()) >= BLOCK_BYTES - 8


@given(st.binary(max_size=400), st.integers(16, 64))
def test_pages_of_bytes_put_together_give_the_content(data: bytes, count: int) -> None:
    content, found = BytesReader(data), b""
    while len(found) < len(data):
        page = read_bytes(content, len(found), count // 16 * 16)
        assert page.start == len(found)
        found += page.data
    assert found == data


@given(texts, st.integers(4, 90))
def test_pieces_of_a_line_put_together_give_the_line(text: str, max_bytes: int) -> None:
    text = text[:500].removeprefix("\ufeff")
    content, line = BytesReader(text), text.split("\n")[0]
    found, byte = "", 0
    while byte is not None:
        piece = read_piece(content, byte, max_bytes)
        assert piece.line == 0
        found, byte = found + piece.text, piece.next
    assert found == line


@given(texts, st.integers(0, 5_000))
def test_a_byte_belongs_to_the_line_with_the_newlines_before_it(text: str, byte: int) -> None:
    data = text.encode()
    assert find_line(BytesReader(text), byte) == data[: min(byte, max(len(data) - 1, 0))].count(b"\n")


def test_a_long_line_is_cut_and_read_on_where_it_was_cut() -> None:
    content = BytesReader("é" * 5_000 + "\nshort\n")
    page = read_page(content, 0, 10)
    long, short, empty = page.lines
    assert len(long.text.encode()) + long.more_bytes == 10_000
    assert len(long.text.encode()) <= MAX_LINE_BYTES + 4
    assert (short.number, short.byte, short.text) == (1, 10_001, "short")
    assert (empty.text, page.next_line, page.line_count) == ("", None, 3)
    rest = read_piece(content, long.byte + len(long.text.encode()))
    assert long.text + rest.text == "é" * 5_000


def test_a_place_outside_is_moved_inside() -> None:
    content = BytesReader("a\nb")
    assert read_page(content, 99, 5).lines == ()
    assert [line.text for line in read_page(content, -5, 5).lines] == ["a", "b"]
    assert read_piece(content, 10**12).line == 1
    assert read_bytes(content, 10**12).start == 0
    assert read_page(BytesReader(""), 0, 5).lines == ()
    assert read_piece(BytesReader(""), 3).text == ""
    assert read_bytes(BytesReader(""), 3).data == b""


def test_a_page_is_bounded_whatever_is_asked_for() -> None:
    assert len(read_page(BytesReader("\n" * 5_000), 0, 10**9).lines) == MAX_PAGE_LINES
    assert len(read_bytes(BytesReader(bytes(100_000)), 0, 10**9).data) == MAX_HEX_BYTES
    wide = read_page(BytesReader("\n".join(["x" * 1_900] * 1_000)), 0, 1_000)
    assert sum(len(line.text) for line in wide.lines) < 600_000
    assert wide.next_line == len(wide.lines)


def test_a_byte_order_mark_is_not_shown() -> None:
    content = BytesReader(b"\xef\xbb\xbfa\nb")
    assert read_page(content, 0, 1).lines[0].text == "a"
    assert read_piece(content, 0).text == "a"


class CountedRanges:
    """Sparse content of any size, with a count of the bytes that were read."""

    search_bytes = 1 << 20

    def __init__(self, path: Path) -> None:
        self.path, self.read_bytes = path, 0

    def read(self, start: int, end: int) -> bytes:
        self.read_bytes += end - start
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def local_path(self) -> object:
        raise NotImplementedError


@pytest.mark.slow
@pytest.mark.anyio
async def test_any_place_of_a_gigabyte_costs_a_few_blocks(tmp_path: Path) -> None:
    """Lines of 64 bytes, one of 100 MB, and lines again, written once through the real spool."""
    block, total = (b"%062d\n" % 7) * (1 << 14), 1 << 30
    indexer, path = LineIndexer(), tmp_path / "big"
    with path.open("wb") as file:
        written = 0
        while written < total:
            piece = b"x" * (1 << 20) if (400 << 20) < written < (500 << 20) else block
            file.write(piece)
            indexer.feed(piece)
            written += len(piece)
    ranges = CountedRanges(path)
    content = BlockReader(ranges, indexer.finish())  # type: ignore[arg-type]
    size = content.index.byte_length
    for share in (0, 0.1, 0.42, 0.5, 0.9, 1):
        ranges.read_bytes = 0
        line = find_line(content, int(size * share))
        page = read_page(content, line, 200)
        assert page.lines
        assert ranges.read_bytes < 2 << 20
        ranges.read_bytes = 0
        assert read_piece(content, int(size * share)).start <= size
        assert read_bytes(content, int(size * share)).data
        assert ranges.read_bytes < 1 << 20
    store = FileStore(tmp_path / "spool")
    assert store.list_stamps() == []
