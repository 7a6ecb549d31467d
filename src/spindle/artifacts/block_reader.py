"""Line access to stored bytes: one reader for every backend that can return a byte range."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

from spindle.artifacts.grep import LineSearch, merge_context_ranges, search_in_steps
from spindle.artifacts.long_lines import MAX_CHAR_BYTES, CharMap, cut_ends
from spindle.artifacts.readers import (
    BOM,
    MAX_TEXT_BYTES,
    LineIndex,
    LinePart,
    Match,
    Search,
    decode_text,
    truncate_line,
)
from spindle.concurrency import spool_threads

T = TypeVar("T")
Args = TypeVarTuple("Args")


class ByteRanges(Protocol):
    """Immutable bytes that can be read by range."""

    @property
    def search_bytes(self) -> int:
        """How many bytes to read at once during a search."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return bytes `start` to `end`; may block."""
        ...

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        """Return a context manager for a local file with all the bytes."""
        ...


class BlockReader:
    """A reader of the lines of `source`, located with its index."""

    def __init__(self, source: ByteRanges, index: LineIndex) -> None:
        self._source = source
        self._index = index
        self._char_map: tuple[int, CharMap] | None = None

    @property
    def stored_file(self) -> Path | None:
        """The file of a spool that holds the content; `None` if it is stored elsewhere."""
        return getattr(self._source, "path", None)

    @property
    def index(self) -> LineIndex:
        """The line index of the content."""
        return self._index

    @property
    def size(self) -> tuple[int, int]:
        """The number of bytes and of lines, known from the index."""
        return self._index.byte_length, self._index.line_count

    async def byte_length(self) -> int:
        """Count the bytes."""
        return self._index.byte_length

    async def line_count(self) -> int:
        """Count the lines."""
        return self._index.line_count

    async def line(self, i: int) -> str | None:
        """Return line `i` (0-based), or `None` if it is out of range."""
        if not 0 <= i < self._index.line_count:
            return None
        return (await self._run(self._read_lines, i, i + 1))[0]

    async def read_lines(self, start: int, end: int) -> list[str]:
        """Return lines `start` to `end` (half-open, clamped)."""
        start, end = self._index.clamp(start, end)
        return await self._run(self._read_lines, start, end) if start < end else []

    async def read_line_ends(self, start: int, end: int, max_chars: int) -> list[LinePart]:
        """Return lines `start` to `end` (half-open, clamped); of one with more than `max_chars`, both ends."""
        start, end = self._index.clamp(start, end)
        return await self._run(self._read_line_ends, start, end, max_chars) if start < end else []

    async def read_chars(self, line: int, start: int, end: int | None) -> str | None:
        """Return characters `start` to `end` of a line (half-open, clamped), or `None` if it is out of range."""
        if not 0 <= line < self._index.line_count:
            return None
        start = max(start, 0)
        # One step per thread call, so that cancellation waits for a few megabytes at most.
        chars = await self._run(self._map_chars, line)
        parts: list[str] = []
        while end is None or start < end:
            while not await self._run(chars.extend, start):
                pass
            part = await self._run(chars.read_part, start, end)
            if not part:
                break
            parts.append(part)
            start += len(part)
        return "".join(parts)

    async def read_all(self) -> bytes:
        """Return all bytes as they were written."""
        return await self._run(self._source.read, 0, self._index.byte_length)

    def read_range(self, start: int, end: int) -> bytes:
        """Return bytes `start` to `end`; blocks, so it is for worker threads."""
        return self._source.read(start, end)

    async def chunks(self, size: int = 1 << 20) -> AsyncIterator[bytes]:
        """Yield all bytes in chunks of at most `size`; every call starts at the beginning."""
        for start in range(0, self._index.byte_length, size):
            yield await self._run(self._source.read, start, min(start + size, self._index.byte_length))

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        """Return a context manager for a local file with the bytes; do not modify it, or use it after the block."""
        return self._source.local_path()

    async def search(self, query: Search) -> list[Match]:
        """Return the matching lines in order, with their context.

        Raises:
            ArtifactQueryError: The pattern or a flag is not supported by the dialect.
        """
        matches = await search_in_steps(
            lambda: LineSearch(query, self._index, self._source.read, step_bytes=self._source.search_bytes),
            spool_threads.run_abandonable,
        )
        return await self._add_context(matches, query) if query.before or query.after else matches

    async def _add_context(self, matches: list[Match], query: Search) -> list[Match]:
        found = {match.line: match for match in matches}
        answer: list[Match] = []
        for start, end in merge_context_ranges(found, query.before, query.after, self._index.line_count):
            if query.max_line_chars is None:
                texts = await self._run(self._read_cut_lines, start, end)
            else:
                parts = await self._run(self._read_line_ends, start, end, query.max_line_chars)
                texts = [part.describe(line) for line, part in enumerate(parts, start=start)]
            answer += [
                found.get(line) or Match(line, text, is_context=True) for line, text in enumerate(texts, start=start)
            ]
        return answer

    def _read_lines(self, start: int, end: int) -> list[str]:
        blocks = self._source.read(*self._index.find_blocks(start, end))
        begin, stop = self._index.find_offsets(blocks, start, end)
        return decode_text(blocks[begin:stop], at_start=start == 0).split("\n")

    def _read_cut_lines(self, start: int, end: int) -> list[str]:
        return [
            truncate_line(first, total=total) for first, _, total in self._read_ends(start, end, MAX_TEXT_BYTES + 4)
        ]

    def _read_line_ends(self, start: int, end: int, max_chars: int) -> list[LinePart]:
        return [
            cut_ends(first, last, total, max_chars)
            for first, last, total in self._read_ends(start, end, max_chars * MAX_CHAR_BYTES)
        ]

    def _read_ends(self, start: int, end: int, count: int) -> list[tuple[bytes, bytes, int]]:
        """Return at least the first and the last `count` bytes of each line, and its length."""
        begin, stop = self._index.find_blocks(start, end)
        if stop - begin <= (end - start + 2) * MAX_TEXT_BYTES:
            blocks = self._source.read(begin, stop)
            first, last = self._index.find_offsets(blocks, start, end)
            lines = blocks[first:last].split(b"\n")
            if start == 0:
                lines[0] = lines[0].removeprefix(BOM)
            return [(line, line, len(line)) for line in lines]
        if end - start > 1:
            middle = (start + end) // 2
            return self._read_ends(start, middle, count) + self._read_ends(middle, end, count)
        return [self._read_ends_of_line(start, count)]

    def _read_ends_of_line(self, line: int, count: int) -> tuple[bytes, bytes, int]:
        begin, stop = self._index.find_line(self._source.read, line)
        if line == 0 and self._source.read(0, min(len(BOM), stop)) == BOM:
            begin += len(BOM)
        first = self._source.read(begin, min(begin + count, stop))
        return first, self._source.read(max(stop - count, begin), stop), stop - begin

    def _map_chars(self, line: int) -> CharMap:
        if self._char_map is None or self._char_map[0] != line:
            begin, stop = self._index.find_line(self._source.read, line)
            self._char_map = line, CharMap(self._source.read, begin, stop, at_start=line == 0)
        return self._char_map[1]

    async def _run(self, func: Callable[[*Args], T], *args: *Args) -> T:
        return await spool_threads.run(func, *args)
