"""Pages of lines, pieces of long lines, and bytes: any place of any content at the cost of what is returned.

Everything here blocks, so it is for worker threads.
"""

from dataclasses import dataclass
from typing import Final

from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.readers import char_start, decode_text

MAX_PAGE_LINES: Final = 1_000
MAX_LINE_BYTES: Final = 2_000
"""Of a longer line, a page has the beginning."""
MAX_PIECE_BYTES: Final = 64 << 10
MAX_HEX_BYTES: Final = 16 << 10
HEX_ROW_BYTES: Final = 16

_STEP_BYTES = 1 << 16
_MAX_TEXT_BYTES = 512 << 10
_MAX_READ_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLine:
    """One line of a page."""

    number: int
    """0-based, as in `cat`."""
    byte: int
    """The offset of its first byte."""
    text: str
    """Without the terminator; of a long line, the beginning."""
    more_bytes: int = 0
    """The number of bytes that follow `text` in the line; read on at `byte` plus what was shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinePage:
    """Some lines in order, and the size of the content they are from."""

    lines: tuple[PageLine, ...]
    next_line: int | None
    """The line after the last one; `None` at the end."""
    line_count: int
    byte_length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LinePiece:
    """A part of one line; `start` and `end` are byte offsets in the content."""

    line: int
    text: str
    start: int
    end: int
    line_start: int
    line_end: int
    previous: int | None
    """The offset to ask for the piece before; `None` at the beginning of the line."""
    next: int | None
    """The offset to ask for the piece after; `None` at the end of the line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BytePage:
    """Some bytes from an offset that is a multiple of `HEX_ROW_BYTES`."""

    start: int
    data: bytes
    byte_length: int


def find_line(content: BlockReader, byte: int) -> int:
    """Return the number of the line that a byte belongs to; an offset out of range is clamped."""
    return content.index.find_line_at(content.read_range, byte) if content.index.byte_length else 0


def read_page(content: BlockReader, start: int, count: int, *, max_line_bytes: int = MAX_LINE_BYTES) -> LinePage:
    """Return up to `count` lines from line `start` (clamped); fewer where lines are long."""
    index = content.index
    count = max(min(count, MAX_PAGE_LINES), 1)
    start = max(min(start, index.line_count), 0)
    lines: list[PageLine] = []
    if start < index.line_count:
        _LineWalk(content, start, count, max_line_bytes).run(lines)
    after = start + len(lines)
    return LinePage(
        lines=tuple(lines),
        next_line=after if after < index.line_count else None,
        line_count=index.line_count,
        byte_length=index.byte_length,
    )


class _LineWalk:
    """A walk over lines that ends at a count of lines, of characters, or of bytes read."""

    def __init__(self, content: BlockReader, start: int, count: int, max_line_bytes: int) -> None:
        self._content, self._count, self._max_line_bytes = content, count, max_line_bytes
        self._line = start
        self._place = content.index.find_line_start(content.read_range, start)
        self._text_bytes = self._read_bytes = 0

    def run(self, lines: list[PageLine]) -> None:
        total = self._content.index.byte_length
        while not self._is_over(lines):
            data = self._content.read_range(self._place, min(self._place + _STEP_BYTES, total))
            self._read_bytes += len(data)
            found = data.split(b"\n")
            if self._place + len(data) < total:
                found.pop()  # it goes on after this step
            if found:
                self._take(found, lines)
            else:
                self._take_long(data, lines)

    def _is_over(self, lines: list[PageLine]) -> bool:
        is_full = self._text_bytes >= _MAX_TEXT_BYTES or self._read_bytes >= _MAX_READ_BYTES
        return len(lines) >= self._count or (is_full and bool(lines)) or self._line >= self._content.index.line_count

    def _take(self, found: list[bytes], lines: list[PageLine]) -> None:
        for line in found:
            self._add(line, len(line), lines)
            if self._is_over(lines):
                return

    def _take_long(self, data: bytes, lines: list[PageLine]) -> None:
        end = self._content.index.find_line(self._content.read_range, self._line)[1]
        self._read_bytes += 2 * _STEP_BYTES
        self._add(data, end - self._place, lines)

    def _add(self, line: bytes, total: int, lines: list[PageLine]) -> None:
        shown = line
        if total > self._max_line_bytes or total > len(line):
            # Of a line that goes on, the last character may be incomplete.
            shown = line[: char_start(line, min(self._max_line_bytes, max(len(line) - 4, 0)))]
        text = decode_text(shown, at_start=self._line == 0)
        lines.append(PageLine(number=self._line, byte=self._place, text=text, more_bytes=total - len(shown)))
        self._text_bytes += len(shown) + 64
        self._place += total + 1
        self._line += 1


def read_piece(content: BlockReader, byte: int, max_bytes: int = MAX_PIECE_BYTES) -> LinePiece:
    """Return up to `max_bytes` of the line at an offset (clamped), from there on and in whole characters."""
    max_bytes = max(min(max_bytes, MAX_PIECE_BYTES), 4)
    read, index = content.read_range, content.index
    if index.byte_length == 0:
        return LinePiece(line=0, text="", start=0, end=0, line_start=0, line_end=0, previous=None, next=None)
    line = find_line(content, byte)
    first, last = index.find_line(read, line)
    start = _align(content, max(min(byte, last), first), last)
    end = min(start + max_bytes, last)
    if end < last:
        end = _align(content, end, last)
    text = decode_text(read(start, end), at_start=start == 0)
    return LinePiece(
        line=line,
        text=text,
        start=start,
        end=end,
        line_start=first,
        line_end=last,
        previous=None if start <= first else _align(content, max(start - max_bytes, first), last),
        next=None if end >= last else end,
    )


def _align(content: BlockReader, place: int, last: int) -> int:
    """Return the next offset at which a character begins."""
    return place + char_start(content.read_range(place, min(place + 4, last)), 0)


def read_bytes(content: BlockReader, byte: int, count: int = MAX_HEX_BYTES) -> BytePage:
    """Return up to `count` bytes from the row of an offset (clamped)."""
    size = content.index.byte_length
    count = max(min(count, MAX_HEX_BYTES), HEX_ROW_BYTES)
    start = max(min(byte, size - 1), 0) // HEX_ROW_BYTES * HEX_ROW_BYTES
    return BytePage(start=start, data=content.read_range(start, min(start + count, size)), byte_length=size)
