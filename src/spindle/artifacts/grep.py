"""Line search (`grep`): compiles patterns and finds matching lines with context; reads through a function parameter."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from anyio.to_thread import run_sync

from spindle.artifacts.long_lines import count_chars, cut_around, cut_line, has_at_most
from spindle.artifacts.readers import (
    BLOCK_BYTES,
    BOM,
    DIALECT,
    MAX_TEXT_BYTES,
    LineIndex,
    Match,
    Search,
    build_line_index,
    char_start,
    decode_text,
    encode_text,
    format_excerpt,
    is_instance,
    is_utf8,
    replace_invalid_utf8,
)
from spindle.errors import ArtifactQueryError
from spindle.text import shorten

MAX_MEMORY_BYTES = 8 << 20

_FLAGS = frozenset("imsu")
_META = frozenset("\\.+*?()|[]{}^$")
# These anchor to the whole text, or make `^` and `$` do so: correct only if each line is searched on its own.
_WHOLE_TEXT_SYNTAX = re.compile(r"\\[AzC]|\(\?[a-zA-Z]*-")


class _RegexMatch(Protocol):
    def start(self) -> int: ...

    def end(self) -> int: ...


class _Regex(Protocol):
    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> _RegexMatch | None: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern that searches UTF-8 bytes."""

    needle: bytes
    """The pattern's source as bytes."""
    regex: _Regex | None
    """`None` for literal text, which is searched directly: faster, and tolerant of invalid UTF-8 around it."""
    is_line_by_line: bool
    """Whether the pattern is only correct if each line is searched on its own."""

    @property
    def is_literal(self) -> bool:
        """Whether the pattern is searched as literal text."""
        return self.regex is None

    @property
    def size(self) -> int:
        """The number of states that a byte may be compared with, at worst; 1 for literal text."""
        return 1 if self.regex is None else max(self.regex.programsize, 1)

    def find(self, data: bytes, start: int, end: int) -> int | None:
        """Return the offset of the first match in `data[start:end]`; anchors also see the bytes around the range."""
        if self.regex is None:
            place = data.find(self.needle, start, end)
            return None if place < 0 else place
        found = self.regex.search(data, start, end)
        return None if found is None else found.start()


def compile_pattern(text: str, flags: str = "") -> Pattern:
    """Compile a pattern that matches inside lines.

    Raises:
        ArtifactQueryError: The pattern or a flag is not supported by the dialect.
    """
    if not is_instance(text, str):
        kind = type(text).__name__
        raise ArtifactQueryError(f"pattern must be text, got {kind}. The dialect: {DIALECT}", field="pattern")
    _check_flags(flags)
    try:
        needle = text.encode()
    except UnicodeEncodeError as error:
        raise ArtifactQueryError(
            f"the pattern has a lone surrogate at character {error.start}; write plain Unicode text", field="pattern"
        ) from error
    # Invalid bytes are displayed as U+FFFD, but are not its bytes; and no line contains a newline.
    if "i" not in flags and not _META.intersection(text) and "\n" not in text and "\ufffd" not in text:
        return Pattern(needle=needle, regex=None, is_line_by_line=False)
    source = f"(?{'mi' if 'i' in flags else 'm'}){text}"
    is_line_by_line = _WHOLE_TEXT_SYNTAX.search(text) is not None
    return Pattern(needle=needle, regex=_compile(source, text), is_line_by_line=is_line_by_line)


def _check_flags(flags: str) -> None:
    if not is_instance(flags, str):
        raise ArtifactQueryError(f"flags must be text such as 'i', got {type(flags).__name__}", field="flags")
    unknown = sorted(set(flags) - _FLAGS)
    if unknown:
        raise ArtifactQueryError(
            f"unknown flag {''.join(unknown)!r}; use any of i (ignore case), m, s, u, or none", field="flags"
        )


def _compile(source: str, text: str) -> _Regex:
    import re2  # noqa: PLC0415 - takes 20 ms, which only a search should cost

    module: Any = re2
    options = module.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True
    options.never_nl = True  # a match never spans lines
    try:
        return module.compile(source, options)
    except module.error as error:
        raise ArtifactQueryError(_explain(source, text, error), field="pattern") from error
    finally:
        # The module would cache 128 patterns of up to 8 MiB each, which a model chose.
        module.purge()


def _explain(source: str, text: str, error: Exception) -> str:
    reason = error.args[0] if error.args else "it cannot be compiled"
    if isinstance(reason, bytes):
        reason = reason.decode("utf-8", "replace")
    reason = str(reason).replace(source, text)[:200]
    return f"the pattern {shorten(text, 200)!r} is invalid: {reason}. The dialect: {DIALECT}"


MAX_LINE_BYTES = 4 << 20
"""A longer line is searched in pieces of this size."""
OVERLAP_BYTES = 1 << 16
"""The overlap of two such pieces: a longer match may be missed."""

_ADVANCE_BYTES = 8 << 20
_ADVANCE_STATES = 256 << 20
"""How many states a step may compare with bytes at worst, which takes seconds; most patterns compare few."""
_LEAD_BYTES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """A piece of a long line: `data[first:last]` is searched, the other bytes are context for anchors."""

    data: bytes
    first: int
    last: int
    line: int
    column: int
    """The number of characters of the line before `first`."""
    around: tuple[int, int]
    """The number of bytes of the line before and after `data`."""


class LineSearch:
    """A search that runs in steps."""

    def __init__(
        self, query: Search, index: LineIndex, read: Callable[[int, int], bytes], *, step_bytes: int = 1 << 20
    ) -> None:
        check_counts(query)
        self.matches: list[Match] = []
        """The matching lines so far, without context."""
        self._pattern = compile_pattern(query.pattern, query.flags)
        self._limit, self._max_chars = query.limit, query.max_line_chars
        self._index, self._read = index, read
        self._advance_bytes = max(min(_ADVANCE_BYTES, _ADVANCE_STATES // self._pattern.size), BLOCK_BYTES)
        self._step_bytes = max(min(step_bytes, self._advance_bytes), BLOCK_BYTES)
        self._walk = self._regions()
        self._is_over = index.line_count == 0

    @property
    def is_done(self) -> bool:
        """Whether all content was searched, or the limit was reached."""
        return self._is_over or (self._limit is not None and len(self.matches) >= self._limit)

    def advance(self) -> None:
        """Search the next few megabytes, or fewer bytes if the pattern is complicated."""
        left = self._advance_bytes
        for looked_at in self._walk:
            left -= looked_at
            if left <= 0 or self.is_done:
                return
        self._is_over = True

    def _regions(self) -> Iterator[int]:
        """Search the content in runs of whole lines; yield the number of bytes searched after each."""
        total = self._index.byte_length
        place = len(BOM) if self._read(0, min(len(BOM), total)) == BOM else 0
        line = 0
        while True:
            data = self._read(place, min(place + self._step_bytes, total))
            if place + len(data) >= total:
                self._scan(data, len(data), line)
                yield len(data)
                return
            end = data.rfind(b"\n")
            if end >= 0:
                self._scan(data, end, line)
                yield end + 1
                line = self._line_after(data, end, place, line)
                place += end + 1
            else:
                stop = self._index.find_line(self._read, line)[1]
                yield from self._long_line(place, stop, line)
                if stop == total:
                    return
                place, line = stop + 1, line + 1

    def _line_after(self, data: bytes, end: int, place: int, line: int) -> int:
        """Return the number of the line after `data[end]`, counting newlines only from the last block border."""
        block = (place + end + 1) // BLOCK_BYTES
        border = block * BLOCK_BYTES - place
        if border < 0:
            return line + data.count(b"\n", 0, end + 1)
        return self._index.newlines[block] + data.count(b"\n", border, end + 1)

    def _scan(self, data: bytes, end: int, line: int) -> None:
        """Find the matching lines of `data[:end]`, whose first line is number `line`."""
        if not self._pattern.is_literal and not is_utf8(data, end):
            data = replace_invalid_utf8(data[:end])
            end = len(data)
        if self._pattern.is_line_by_line:
            self._scan_line_by_line(data[:end], line)
            return
        start = counted = 0
        while start <= end and not self.is_done:
            place = self._pattern.find(data, start, end)
            if place is None:
                return
            first = data.rfind(b"\n", start, place) + 1 or start
            last = data.find(b"\n", place, end)
            last = end if last < 0 else last
            line += data.count(b"\n", counted, first)
            self._add(line, data[first:last], place - first)
            counted, start = first, last + 1

    def _scan_line_by_line(self, data: bytes, first: int) -> None:
        for line, content in enumerate(data.split(b"\n"), start=first):
            place = self._pattern.find(content, 0, len(content))
            if place is not None:
                self._add(line, content, place)
            if self.is_done:
                return

    def _long_line(self, begin: int, stop: int, line: int) -> Iterator[int]:
        """Search one line longer than a step; above `MAX_LINE_BYTES`, or what a step may search, in pieces."""
        overlap = max(OVERLAP_BYTES, len(self._pattern.needle))
        piece_bytes = max(min(MAX_LINE_BYTES, self._advance_bytes), 4 * overlap)
        if stop - begin <= piece_bytes:
            self._scan(self._read(begin, stop), stop - begin, line)
            yield stop - begin
            return
        place, column = begin, 0
        while True:
            end = min(place + piece_bytes, stop)
            # Read a few more bytes on either side, so that anchors and word boundaries see the real context.
            offset = max(begin, place - 4)
            data = self._read(offset, min(stop, end + 4))
            piece = _Piece(
                data=data,
                first=place - offset,
                last=end - offset,
                line=line,
                column=column,
                around=(offset - begin, stop - offset - len(data)),
            )
            is_found = self._scan_piece(piece)
            yield end - place
            if is_found or end == stop:
                return
            following = char_start(data, end - overlap - offset)
            column += count_chars(data[place - offset : following])
            place = offset + following

    def _scan_piece(self, piece: "_Piece") -> bool:
        data, first, last = piece.data, piece.first, char_start(piece.data, piece.last)
        if not self._pattern.is_literal and not is_utf8(data[first:last], last - first):
            head, body, rest = (replace_invalid_utf8(part) for part in (data[:first], data[first:last], data[last:]))
            data, first, last = head + body + rest, len(head), len(head) + len(body)
        found = self._pattern.find(data, first, last)
        if found is None:
            return False
        self._add_part(piece.line, data, found, piece.column + count_chars(data[first:found]), piece.around)
        return True

    def _add(self, line: int, data: bytes, found: int) -> None:
        """Add a line that matches at offset `found`."""
        if len(data) <= MAX_TEXT_BYTES and (self._max_chars is None or has_at_most(data, self._max_chars)):
            self.matches.append(Match(line, decode_text(data)))
        else:
            self._add_part(line, data, found, count_chars(data[:found]), (0, 0))

    def _add_part(self, line: int, data: bytes, found: int, column: int, around: tuple[int, int]) -> None:
        """Add the part around a match of a line that has `around` more bytes before and after `data`."""
        before, after = around
        if self._max_chars is not None:
            text = cut_around(data, found, self._max_chars, before=before, after=after)
        else:
            begin = char_start(data, max(found - _LEAD_BYTES, 0))
            end = char_start(data, min(begin + MAX_TEXT_BYTES, len(data)))
            text = format_excerpt(data[begin:end], before=before + begin, after=after + len(data) - end)
        self.matches.append(Match(line, text, column=column))


def check_counts(query: Search) -> None:
    """Reject negative counts.

    Raises:
        ArtifactQueryError: `before`, `after` or `limit` is negative.
    """
    for name, count in (("before", query.before), ("after", query.after), ("limit", query.limit)):
        if count is not None and count < 0:
            raise ArtifactQueryError(f"{name} counts lines and must not be negative, got {count}", field=name)


async def search_in_steps(
    start: Callable[[], LineSearch], in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> list[Match]:
    """Run a search in threads, from compiling the pattern on; a cancelled caller waits for none of its steps.

    Raises:
        ArtifactQueryError: The pattern or a flag is not supported by the dialect.
    """
    search: LineSearch = await in_thread(start)
    while not search.is_done:
        await in_thread(search.advance)
    return search.matches


def merge_context_ranges(lines: Iterable[int], before: int, after: int, line_count: int) -> list[tuple[int, int]]:
    """Merge the half-open context ranges around ascending `lines`, so that no line is repeated."""
    merged: list[tuple[int, int]] = []
    for line in lines:
        start, end = max(line - before, 0), min(line + after + 1, line_count)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


async def search_line_ranges(
    wanted: Search,
    ranges: Iterable[range],
    read_lines: Callable[[int, int], Awaitable[list[str]]],
    line_count: int,
) -> list[Match]:
    """Return the matching lines in order, with their context.

    Raises:
        ArtifactQueryError: The pattern or a flag is not supported by the dialect.
    """
    # Search an empty block first, so that an invalid pattern is rejected even if there are no lines.
    found = await _search_block(wanted, 0, [])
    for part in ranges:
        found += await _search_block(wanted, part.start, await read_lines(part.start, part.stop))
        if wanted.limit is not None and len(found) >= wanted.limit:
            del found[wanted.limit :]
            break
    if not (wanted.before or wanted.after):
        return found
    matches = {match.line: match for match in found}
    answer: list[Match] = []
    for first, last in merge_context_ranges(matches, wanted.before, wanted.after, line_count):
        texts = await read_lines(first, last)
        if wanted.max_line_chars is not None:
            parts = [cut_line(encode_text(text), wanted.max_line_chars) for text in texts]
            texts = [part.describe(n) for n, part in enumerate(parts, first)]
        answer += [matches.get(n) or Match(n, text, is_context=True) for n, text in enumerate(texts, first)]
    return answer


async def _search_block(wanted: Search, start: int, lines: list[str]) -> list[Match]:
    # The trailing newline makes a block of one empty line count as one; the extra line it adds is dropped below.
    data = encode_text("\n".join(lines) + "\n") if lines else b""
    found = await search_in_steps(
        lambda: LineSearch(wanted, build_line_index(data), lambda begin, end: data[begin:end]),
        partial(run_sync, abandon_on_cancel=True),
    )
    return [replace(match, line=start + match.line) for match in found if match.line < len(lines)]
