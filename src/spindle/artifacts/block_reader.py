"""Line access to stored bytes: one reader for every backend that can return a byte range."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

from spindle.artifacts.grep import LineSearch, merge_context_ranges
from spindle.artifacts.readers import MAX_TEXT_BYTES, LineIndex, Match, Search, decode_text, truncate_line
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

    async def read_all(self) -> bytes:
        """Return all bytes as they were written."""
        return await self._run(self._source.read, 0, self._index.byte_length)

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
        search = LineSearch(query, self._index, self._source.read, step_bytes=self._source.search_bytes)
        # One step per thread call, so that cancellation waits for a few megabytes at most.
        while not search.is_done:
            await self._run(search.advance)
        if not (query.before or query.after):
            return search.matches
        return await self._add_context(search.matches, query)

    async def _add_context(self, matches: list[Match], query: Search) -> list[Match]:
        found = {match.line: match for match in matches}
        answer: list[Match] = []
        for start, end in merge_context_ranges(found, query.before, query.after, self._index.line_count):
            texts = await self._run(self._read_cut_lines, start, end)
            answer += [
                found.get(line) or Match(line, text, is_context=True) for line, text in enumerate(texts, start=start)
            ]
        return answer

    def _read_lines(self, start: int, end: int) -> list[str]:
        blocks = self._source.read(*self._index.find_blocks(start, end))
        begin, stop = self._index.find_offsets(blocks, start, end)
        return decode_text(blocks[begin:stop], at_start=start == 0).split("\n")

    def _read_cut_lines(self, start: int, end: int) -> list[str]:
        begin, stop = self._index.find_blocks(start, end)
        if stop - begin <= (end - start + 2) * MAX_TEXT_BYTES:
            blocks = self._source.read(begin, stop)
            first, last = self._index.find_offsets(blocks, start, end)
            return [
                truncate_line(line, at_start=start + n == 0) for n, line in enumerate(blocks[first:last].split(b"\n"))
            ]
        if end - start > 1:
            middle = (start + end) // 2
            return self._read_cut_lines(start, middle) + self._read_cut_lines(middle, end)
        return [self._read_cut_line(start)]

    def _read_cut_line(self, line: int) -> str:
        begin, stop = self._index.find_line(self._source.read, line)
        part = self._source.read(begin, min(begin + MAX_TEXT_BYTES + 4, stop))
        return truncate_line(part, at_start=line == 0, total=stop - begin)

    async def _run(self, func: Callable[[*Args], T], *args: *Args) -> T:
        return await spool_threads.run(func, *args)
