"""A search in pages: each page scans a bounded part of the content and says where the next one begins.

Unlike `grep.py`, which answers a model once, a search here has a place: it goes on from any byte, finds every match of
a long line that is not shown with the one before, and says which characters matched.
"""

import codecs
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.browsing.lines import PageLine, find_line, read_page
from spindle.artifacts.grep import Pattern, check_counts, compile_pattern, merge_context_ranges
from spindle.artifacts.readers import BOM, Search, char_start, decode_text
from spindle.concurrency import spool_threads

MAX_HITS: Final = 500
MAX_CONTEXT_LINES: Final = 20
SHOWN_BYTES: Final = 600
"""How much of a long line is shown with a hit."""

_LEAD_BYTES = 160
_WINDOW_BYTES = 2 << 20
_MIN_WINDOW_BYTES = 1 << 18
_WINDOW_STATES = 128 << 20
"""How many states a window may compare with bytes at worst."""
_OVERLAP_BYTES = 1 << 16
_ANCHOR_BYTES = 4
_SUBSTITUTE = "spindle-browsing-search"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchLimits:
    """How much one page of a search may cost."""

    max_hits: int = 200
    max_bytes: int = 64 << 20
    max_seconds: float = 2.0
    """After this time no further part is begun; the next page goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRow:
    """A matching line, or a line near one."""

    line: int
    byte: int
    """The offset of the match, or of a context line."""
    text: str
    """The line, or the part of a long line around the match."""
    is_context: bool = False
    match_start: int = 0
    """The character of `text` at which the match begins."""
    match_end: int = 0
    is_cut_before: bool = False
    is_cut_after: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchPage:
    """The hits of one part of the content, in order, with the lines around them."""

    rows: tuple[SearchRow, ...]
    hit_count: int
    scanned_from: int
    scanned_to: int
    """The search got this far, in bytes."""
    next_byte: int | None
    """Where the next page begins; `None` at the end of the content."""
    byte_length: int


def _substitute(error: UnicodeError) -> tuple[str, int]:
    """Replace invalid bytes by as many characters of one byte, so that offsets stay the same."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\x1a" * (error.end - error.start), error.end


codecs.register_error(_SUBSTITUTE, _substitute)


async def search_page(
    content: BlockReader,
    query: Search,
    *,
    start_byte: int = 0,
    limits: SearchLimits | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchPage:
    """Search from an offset on, within limits; a cancelled caller waits for none of its steps.

    Raises:
        ArtifactQueryError: The pattern or a flag is not supported by the dialect.
    """
    limits = limits or SearchLimits()
    in_thread = spool_threads.run_abandonable
    scan = await in_thread(lambda: _Scan(content, query, start_byte, min(limits.max_hits, MAX_HITS)))
    deadline = clock() + limits.max_seconds
    while not scan.is_over and scan.scanned_bytes < limits.max_bytes and clock() < deadline:
        await in_thread(scan.advance)
    rows = await in_thread(_add_context, content, scan.hits, query)
    size = content.index.byte_length
    return SearchPage(
        rows=tuple(rows),
        hit_count=len(scan.hits),
        scanned_from=scan.start,
        scanned_to=min(scan.place, size),
        next_byte=scan.place if scan.place < size else None,
        byte_length=size,
    )


class _Scan:
    """A search of windows, each of whole lines, or a part of a line that fills more than a window."""

    def __init__(self, content: BlockReader, query: Search, start: int, max_hits: int) -> None:
        check_counts(query)
        self._pattern = compile_pattern(query.pattern, query.flags)
        self._read, self._size, self._max_hits = content.read_range, content.index.byte_length, max_hits
        most = _MIN_WINDOW_BYTES if self._pattern.is_line_by_line else _WINDOW_BYTES
        self._window_bytes = max(min(most, _WINDOW_STATES // self._pattern.size), _MIN_WINDOW_BYTES)
        if start <= 0:
            start = len(BOM) if self._read(0, min(len(BOM), self._size)) == BOM else 0
        self.start = self.place = min(start, self._size)
        self._line = find_line(content, self.place)
        self.hits: list[SearchRow] = []
        self.scanned_bytes = 0

    @property
    def is_over(self) -> bool:
        return self.place >= self._size or len(self.hits) >= self._max_hits

    def advance(self) -> None:
        """Search the next window."""
        begin, end = self.place, min(self.place + self._window_bytes, self._size)
        offset = max(begin - _ANCHOR_BYTES, 0)
        data = self._read(offset, min(end + _ANCHOR_BYTES, self._size))
        is_last, is_inside = end == self._size, False
        if not is_last:
            newline = data.rfind(b"\n", begin - offset, end - offset)
            is_inside = newline < 0
            end = end if is_inside else offset + newline + 1
        self.scanned_bytes += end - begin
        self.place = self._search(_Window(data, offset, begin, end, is_inside, is_last))

    def _search(self, window: "_Window") -> int:
        """Find the hits of a window; return where to go on."""
        data, offset = window.data, window.offset
        haystack = data if self._pattern.is_literal else _to_valid(data)
        last = window.end - offset
        # A newline at the end is the last line's; what follows it is the next window's first line.
        stop = last if window.is_last or window.is_inside else last - 1
        # A match that begins in the overlap is left to the next window, which has all of it.
        too_late = last - _OVERLAP_BYTES if window.is_inside else last + 1
        place = counted = window.begin - offset
        while place <= stop:
            found = _find(self._pattern, haystack, place, stop)
            if found is None or found[0] >= too_late:
                break
            self._line += data.count(b"\n", counted, found[0])
            counted = found[0]
            place = self._add(window, found)
            if len(self.hits) >= self._max_hits:
                self._line += data.count(b"\n", counted, place)
                return min(offset + place, self._size)
        following = char_start(data, max(too_late, place)) if window.is_inside else last
        self._line += data.count(b"\n", counted, following)
        return offset + following

    def _add(self, window: "_Window", found: tuple[int, int]) -> int:
        """Add a hit with its line, or a part of it; return where the search goes on."""
        data, (start, end) = window.data, found
        first = data.rfind(b"\n", 0, start) + 1
        last = data.find(b"\n", start, window.end - window.offset)
        last = window.end - window.offset if last < 0 else last
        begin, stop = first, last
        if last - first > SHOWN_BYTES:
            begin = char_start(data, max(first, start - _LEAD_BYTES))
            stop = min(char_start(data, min(begin + SHOWN_BYTES, last)), last)
        lead = decode_text(data[begin:start])
        self.hits.append(
            SearchRow(
                line=self._line,
                byte=window.offset + start,
                text=decode_text(data[begin:stop]),
                match_start=len(lead),
                match_end=len(lead) + len(decode_text(data[start : min(end, stop)])),
                is_cut_before=begin > first or (first == 0 and window.offset > 0),
                is_cut_after=stop < last or (window.is_inside and last == window.end - window.offset),
            )
        )
        return max(stop, start + 1) if stop < last else last + 1


@dataclass(frozen=True, slots=True)
class _Window:
    """The bytes `begin` to `end`, and a few around them, from `offset` on."""

    data: bytes
    offset: int
    begin: int
    end: int
    is_inside: bool
    """Whether the line at `end` goes on after it."""
    is_last: bool


def _find(pattern: Pattern, data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    """Return where the first match of `data[start:stop]` begins and ends."""
    if pattern.is_line_by_line:
        return _find_line_by_line(pattern, data, start, stop)
    if pattern.regex is None:
        place = data.find(pattern.needle, start, stop)
        return None if place < 0 else (place, place + len(pattern.needle))
    found = pattern.regex.search(data, start, stop)
    return None if found is None else (found.start(), found.end())


def _find_line_by_line(pattern: Pattern, data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    place = start
    for line in data[start:stop].split(b"\n"):
        found = pattern.regex.search(line) if pattern.regex else None
        if found is not None:
            return place + found.start(), place + found.end()
        place += len(line) + 1
    return None


def _to_valid(data: bytes) -> bytes:
    return data if data.isascii() else data.decode("utf-8", _SUBSTITUTE).encode()


def _add_context(content: BlockReader, hits: list[SearchRow], query: Search) -> list[SearchRow]:
    """Return the hits with the lines around them, each line that is not a hit once."""
    before, after = min(query.before, MAX_CONTEXT_LINES), min(query.after, MAX_CONTEXT_LINES)
    if not (before or after):
        return hits
    by_line: dict[int, list[SearchRow]] = {}
    for hit in hits:
        by_line.setdefault(hit.line, []).append(hit)
    rows: list[SearchRow] = []
    for start, end in merge_context_ranges(by_line, before, after, content.index.line_count):
        near = {line.number: line for line in _read_lines(content, start, end)}
        for number in range(start, end):
            if number in by_line:
                rows += by_line[number]
            elif number in near:
                rows.append(_to_context(near[number]))
    return rows


def _read_lines(content: BlockReader, start: int, end: int) -> list[PageLine]:
    lines: list[PageLine] = []
    while start < end:
        page = read_page(content, start, end - start, max_line_bytes=SHOWN_BYTES)
        lines += page.lines
        start += len(page.lines)
    return lines


def _to_context(line: PageLine) -> SearchRow:
    return SearchRow(
        line=line.number, byte=line.byte, text=line.text, is_context=True, is_cut_after=line.more_bytes > 0
    )
