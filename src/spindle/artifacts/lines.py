"""Where lines begin: a small index made while bytes pass by. No I/O.

Lines end at `\\n` only. Every 64 KiB the index notes how many newlines came before, so finding a line costs one look
into one block, however long the lines are, and the index takes 8 bytes for 64 KiB of content.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

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
