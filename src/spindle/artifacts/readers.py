"""The port an artifact reads through."""

import codecs
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What `grep` looks for."""

    pattern: str
    flags: str = ""
    before: int = 0
    after: int = 0
    limit: int | None = None
    """At most so many matching lines; context lines come on top."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line that was found, or stands beside one."""

    line: int
    """0-based, as in `cat`."""
    text: str
    """Without the terminator; of a line over 64 KiB only the part round the match, with a note of what was cut."""
    is_context: bool = field(default=False, compare=False)
    """The line matches nothing itself; it was asked for by `before` or `after`."""


@runtime_checkable
class SpoolReader(Protocol):
    """Reads what was spooled; lines end at `\\n` only and are given without it.

    Text is UTF-8: bad bytes are given as U+FFFD, and a byte order mark is left out of line 0. A reader may also have
    the methods of `IndexedReader`; an artifact uses those that are there.
    """

    async def line(self, i: int) -> str | None:
        """Give line `i` (0-based), or `None` out of range."""
        ...

    async def byte_length(self) -> int:
        """Count the bytes."""
        ...

    async def line_count(self) -> int:
        """Count the lines."""
        ...

    async def read_all(self) -> bytes:
        """Give every byte as it was written."""
        ...


class IndexedReader(SpoolReader, Protocol):
    """What the readers of a spool can do besides; each method costs what it returns, not what is stored."""

    async def read_lines(self, start: int, end: int) -> list[str]:
        """Give lines `start` to `end` (half-open, clamped)."""
        ...

    async def search(self, query: Search) -> list[Match]:
        """Give the lines that match, in order, with their context.

        Raises:
            ArtifactQueryError: The pattern or a flag is not of the dialect.
        """
        ...

    def chunks(self, size: int = 1 << 20) -> AsyncIterator[bytes]:
        """Give every byte in pieces of at most `size`; fresh each time."""
        ...

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        """Lend a real file with the bytes, for engines that read files; leave it unchanged, it ends with the block."""
        ...


BLOCK_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"


def decode_text(data: bytes, *, at_start: bool = False) -> str:
    """Decode as UTF-8, bad bytes as U+FFFD; `at_start` drops a byte order mark."""
    if at_start and data.startswith(BOM):
        data = data[len(BOM) :]
    return data.decode("utf-8", "replace")


def encode_text(text: str) -> bytes:
    """Encode as UTF-8; a lone surrogate keeps its three bytes, so that nothing is lost."""
    return text.encode("utf-8", "surrogatepass")


def nth_newline(data: bytes, n: int, start: int = 0) -> int:
    """Give the place of the `n`-th newline (1-based) of `data` from `start`; it must be there."""
    place = start - 1
    for _ in range(n):
        place = data.index(b"\n", place + 1)
    return place


@dataclass(frozen=True, slots=True)
class LineIndex:
    """How many newlines stand before each block, and the length of the whole."""

    byte_length: int
    newlines: "array[int]"
    """Entry b counts the newlines before block b; the last entry counts them all."""

    @property
    def line_count(self) -> int:
        """Lines of the whole: none when empty, else one more than there are newlines."""
        return self.newlines[-1] + 1 if self.byte_length else 0

    def clamp(self, start: int, end: int) -> tuple[int, int]:
        """Bring a half-open range of lines inside what is there."""
        start = max(start, 0)
        return start, max(start, min(end, self.line_count))

    def reach(self, start: int, end: int) -> tuple[int, int]:
        """Give the bytes to read, whole blocks, that hold lines `start` to `end`, a clamped range that is not empty."""
        first = 0 if start == 0 else self._block_of_newline(start) * BLOCK_BYTES
        if end >= self.line_count:
            return first, self.byte_length
        return first, min((self._block_of_newline(end) + 1) * BLOCK_BYTES, self.byte_length)

    def bounds(self, blocks: bytes, start: int, end: int) -> tuple[int, int]:
        """Give where lines `start` to `end` begin and end inside the bytes that `reach` named."""
        offset = self.reach(start, end)[0]
        begin = 0 if start == 0 else self._place_of_newline(blocks, offset, start) + 1
        if end >= self.line_count:
            return begin, len(blocks)
        return begin, self._place_of_newline(blocks, offset, end)

    def find_line(self, read: Callable[[int, int], bytes], line: int) -> tuple[int, int]:
        """Give where a line begins and ends in the whole, looking at its first and last block only."""
        begin = 0 if line == 0 else self._find_newline(read, line) + 1
        return begin, self.byte_length if line + 1 >= self.line_count else self._find_newline(read, line + 1)

    def _find_newline(self, read: Callable[[int, int], bytes], n: int) -> int:
        offset = self._block_of_newline(n) * BLOCK_BYTES
        block = read(offset, min(offset + BLOCK_BYTES, self.byte_length))
        return offset + self._place_of_newline(block, offset, n)

    def _block_of_newline(self, n: int) -> int:
        return bisect_left(self.newlines, n) - 1

    def _place_of_newline(self, blocks: bytes, offset: int, n: int) -> int:
        block = self._block_of_newline(n)
        return nth_newline(blocks, n - self.newlines[block], block * BLOCK_BYTES - offset)


class LineIndexer:
    """Builds a `LineIndex` from bytes fed in order, in pieces of any size."""

    def __init__(self) -> None:
        self._newlines = array("Q", [0])
        self._byte_length = 0
        self._seen = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        place = 0
        while place < len(data):
            room = BLOCK_BYTES - self._byte_length % BLOCK_BYTES
            end = min(place + room, len(data))
            self._seen += data.count(b"\n", place, end)
            self._byte_length += end - place
            if end - place == room:
                self._newlines.append(self._seen)
            place = end

    def finish(self) -> LineIndex:
        """Give the index of everything fed so far."""
        newlines = self._newlines[:]
        if self._byte_length % BLOCK_BYTES:
            newlines.append(self._seen)
        return LineIndex(self._byte_length, newlines)


def index_of(data: bytes) -> LineIndex:
    """Index bytes that are all there."""
    indexer = LineIndexer()
    indexer.feed(data)
    return indexer.finish()


MAX_TEXT_BYTES = 1 << 16
"""A longer line is shown in part."""

_DECODE_BYTES = 1 << 18


def excerpt(part: bytes, *, before: int = 0, after: int = 0) -> str:
    """Decode a part of a line and say how much of it was cut on either side."""
    head = f"[… {before} bytes cut] " if before else ""
    tail = f" [{after} bytes cut …]" if after else ""
    return f"{head}{decode_text(part)}{tail}"


def cut_line(line: bytes, *, total: int | None = None, at_start: bool = False) -> str:
    """Give a line, or its beginning when it is too long; `total` is its true length when `line` is only a part."""
    if at_start and line.startswith(BOM):
        line, total = line[len(BOM) :], None if total is None else total - len(BOM)
    total = len(line) if total is None else total
    if total <= MAX_TEXT_BYTES:
        return decode_text(line)
    part = line[: char_start(line, MAX_TEXT_BYTES)]
    return excerpt(part, after=total - len(part))


def char_start(data: bytes, place: int) -> int:
    """Move forward to where a character begins; a character has at most three bytes after its first."""
    for step in range(4):
        if place + step >= len(data) or data[place + step] & 0xC0 != 0x80:
            return min(place + step, len(data))
    return place


def is_utf8(data: bytes, end: int) -> bool:
    """Check `data[:end]`; in pieces, so that no wide copy of the whole is made."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, end, _DECODE_BYTES):
            stop = min(start + _DECODE_BYTES, end)
            decoder.decode(data[start:stop], final=stop == end)
    except UnicodeDecodeError:
        return False
    return True


def repaired(data: bytes) -> bytes:
    """Give what the text of these bytes is in UTF-8: bad bytes become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts = [
        decoder.decode(data[start : start + _DECODE_BYTES], final=start + _DECODE_BYTES >= len(data)).encode()
        for start in range(0, len(data), _DECODE_BYTES)
    ]
    return b"".join(parts)
