"""Reader protocols of artifacts, the line index, and the decoding and truncation of lines."""

import codecs
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Protocol, runtime_checkable


def is_instance(value: object, kind: type | UnionType) -> bool:
    """Check a type at run time without narrowing it for type checkers: callers may be untyped."""
    return isinstance(value, kind)


DIALECT = (
    r"RE2, line by line, without look-around and back-references; \w, \d and \b are ASCII-only, \pL is any letter; "
    "flags: i (ignore case), m, s, u (no effect)"
)
"""The patterns of a `Search`, described for models."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """The parameters of a `grep`."""

    pattern: str
    flags: str = ""
    before: int = 0
    after: int = 0
    limit: int | None = None
    """Maximum number of matching lines; context lines are not counted."""
    max_line_chars: int | None = None
    """Of a longer line, only the part around the match is returned, or both ends of a context line."""


@dataclass(frozen=True, slots=True)
class Match:
    """A matching line, or a context line near one."""

    line: int
    """0-based, as in `cat`."""
    text: str
    """Without the terminator; a line over 64 KiB is truncated to the part around the match, with a note."""
    is_context: bool = field(default=False, compare=False)
    """Whether the line is not a match, but included because of `before` or `after`."""
    column: int | None = field(default=None, compare=False)
    """If `text` is only a part of the line: the number of characters of the line before the match."""


@dataclass(frozen=True, slots=True)
class LinePart:
    """A whole line, or both ends of a long one."""

    head: str
    tail: str = ""
    cut_bytes: int = 0
    """The number of bytes between head and tail that are left out; 0 if `head` is the whole line."""

    def describe(self, line: int) -> str:
        """Return the text, with a note of what is left out and how to read it."""
        if not self.cut_bytes:
            return self.head
        rest = f"artifact_cat start={line}, start_char={len(self.head)}"
        return f"{self.head} [… {self.cut_bytes} bytes left out; {rest} reads on …] {self.tail}"


@runtime_checkable
class SpoolReader(Protocol):
    """A reader of spooled content; lines end at `\\n` only and are returned without it.

    Text is UTF-8: invalid bytes are returned as U+FFFD, and a byte order mark is dropped from line 0. A reader may also
    have methods of `IndexedReader`; an artifact uses those that exist.
    """

    async def line(self, i: int) -> str | None:
        """Return line `i` (0-based), or `None` if it is out of range."""
        ...

    async def byte_length(self) -> int:
        """Count the bytes."""
        ...

    async def line_count(self) -> int:
        """Count the lines."""
        ...

    async def read_all(self) -> bytes:
        """Return all bytes as they were written."""
        ...


class IndexedReader(SpoolReader, Protocol):
    """A reader of a spool, with an index; each method costs what it returns, not what is stored."""

    @property
    def size(self) -> tuple[int, int]:
        """The number of bytes and of lines, known from the index."""
        ...

    async def read_lines(self, start: int, end: int) -> list[str]:
        """Return lines `start` to `end` (half-open, clamped)."""
        ...

    async def read_line_ends(self, start: int, end: int, max_chars: int) -> list[LinePart]:
        """Return lines `start` to `end` (half-open, clamped); of one with more than `max_chars`, both ends."""
        ...

    async def read_chars(self, line: int, start: int, end: int | None) -> str | None:
        """Return characters `start` to `end` of a line (half-open, clamped), or `None` if it is out of range."""
        ...

    async def search(self, query: Search) -> list[Match]:
        """Return the matching lines in order, with their context.

        Raises:
            ArtifactQueryError: The pattern or a flag is not supported by the dialect.
        """
        ...

    def chunks(self, size: int = 1 << 20) -> AsyncIterator[bytes]:
        """Yield all bytes in chunks of at most `size`; every call starts at the beginning."""
        ...

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        """Return a context manager for a local file with the bytes; do not modify it, or use it after the block."""
        ...


BLOCK_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"


def decode_text(data: bytes, *, at_start: bool = False) -> str:
    """Decode UTF-8 with invalid bytes as U+FFFD; `at_start` drops a byte order mark."""
    if at_start and data.startswith(BOM):
        data = data[len(BOM) :]
    return data.decode("utf-8", "replace")


def encode_text(text: str) -> bytes:
    """Encode as UTF-8; a lone surrogate is encoded as three bytes, so that nothing is lost."""
    return text.encode("utf-8", "surrogatepass")


def nth_newline(data: bytes, n: int, start: int = 0) -> int:
    """Return the offset of the `n`-th newline (1-based) of `data` from `start`; it must exist."""
    place = start - 1
    for _ in range(n):
        place = data.index(b"\n", place + 1)
    return place


@dataclass(frozen=True, slots=True)
class LineIndex:
    """The number of newlines before each block, and the total length in bytes."""

    byte_length: int
    newlines: "array[int]"
    """Entry b is the number of newlines before block b; the last entry is the total."""

    @property
    def line_count(self) -> int:
        """The number of lines: 0 if empty, otherwise the number of newlines plus one."""
        return self.newlines[-1] + 1 if self.byte_length else 0

    def clamp(self, start: int, end: int) -> tuple[int, int]:
        """Clamp a half-open range of lines to the existing lines."""
        start = max(start, 0)
        return start, max(start, min(end, self.line_count))

    def find_blocks(self, start: int, end: int) -> tuple[int, int]:
        """Return the byte range, in whole blocks, that holds lines `start` to `end` (clamped and not empty)."""
        first = 0 if start == 0 else self._block_of_newline(start) * BLOCK_BYTES
        if end >= self.line_count:
            return first, self.byte_length
        return first, min((self._block_of_newline(end) + 1) * BLOCK_BYTES, self.byte_length)

    def find_offsets(self, blocks: bytes, start: int, end: int) -> tuple[int, int]:
        """Return the offsets of lines `start` to `end` within the bytes of the range from `reach`."""
        offset = self.find_blocks(start, end)[0]
        begin = 0 if start == 0 else self._place_of_newline(blocks, offset, start) + 1
        if end >= self.line_count:
            return begin, len(blocks)
        return begin, self._place_of_newline(blocks, offset, end)

    def find_line(self, read: Callable[[int, int], bytes], line: int) -> tuple[int, int]:
        """Return the byte offsets at which a line begins and ends, reading only its first and last block."""
        begin = self.find_line_start(read, line)
        return begin, self.byte_length if line + 1 >= self.line_count else self._find_newline(read, line + 1)

    def find_line_start(self, read: Callable[[int, int], bytes], line: int) -> int:
        """Return the byte offset at which a line begins, reading only one block."""
        return 0 if line == 0 else self._find_newline(read, line) + 1

    def find_line_at(self, read: Callable[[int, int], bytes], offset: int) -> int:
        """Return the number of the line that a byte belongs to (clamped), reading only the block before it."""
        offset = max(min(offset, self.byte_length - 1), 0)
        block = offset // BLOCK_BYTES
        return self.newlines[block] + read(block * BLOCK_BYTES, offset).count(b"\n")

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
    """A builder of a `LineIndex` from bytes fed in order, in pieces of any size."""

    def __init__(self) -> None:
        self._newlines = array("Q", [0])
        self._byte_length = 0
        self._seen = 0

    def feed(self, data: bytes) -> None:
        """Add the next bytes."""
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
        """Return the index of everything fed so far."""
        newlines = self._newlines[:]
        if self._byte_length % BLOCK_BYTES:
            newlines.append(self._seen)
        return LineIndex(self._byte_length, newlines)


def build_line_index(data: bytes) -> LineIndex:
    """Build the index of complete content."""
    indexer = LineIndexer()
    indexer.feed(data)
    return indexer.finish()


MAX_TEXT_BYTES = 1 << 16
"""A longer line is truncated."""

_DECODE_BYTES = 1 << 18


def format_excerpt(part: bytes, *, before: int = 0, after: int = 0) -> str:
    """Decode a part of a line, with a note of how many bytes were cut on either side."""
    head = f"[… {before} bytes cut] " if before else ""
    tail = f" [{after} bytes cut …]" if after else ""
    return f"{head}{decode_text(part)}{tail}"


def truncate_line(line: bytes, *, total: int | None = None) -> str:
    """Decode a line, truncated if it is too long; `total` is its full length if `line` is only a part."""
    total = len(line) if total is None else total
    if total <= MAX_TEXT_BYTES:
        return decode_text(line)
    part = line[: char_start(line, MAX_TEXT_BYTES)]
    return format_excerpt(part, after=total - len(part))


def char_start(data: bytes, place: int) -> int:
    """Return the next offset where a character begins; it has at most three continuation bytes."""
    for step in range(4):
        if place + step >= len(data) or data[place + step] & 0xC0 != 0x80:
            return min(place + step, len(data))
    return place


def is_utf8(data: bytes, end: int) -> bool:
    """Return whether `data[:end]` is valid UTF-8; decodes in pieces, to avoid a wide copy of the whole."""
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


def replace_invalid_utf8(data: bytes) -> bytes:
    """Return valid UTF-8, with invalid bytes replaced by U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts = [
        decoder.decode(data[start : start + _DECODE_BYTES], final=start + _DECODE_BYTES >= len(data)).encode()
        for start in range(0, len(data), _DECODE_BYTES)
    ]
    return b"".join(parts)
