"""Line search (`grep`): compiles patterns and finds matching lines with context; reads through a function parameter."""

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from spindle.artifacts.readers import (
    BLOCK_BYTES,
    BOM,
    MAX_TEXT_BYTES,
    LineIndex,
    Match,
    Search,
    build_line_index,
    char_start,
    decode_text,
    encode_text,
    format_excerpt,
    is_utf8,
    replace_invalid_utf8,
    truncate_line,
)
from spindle.errors import ArtifactQueryError

DIALECT = (
    "RE2 regular expressions, matched line by line in linear time: no look-around, no back-references; "
    r"\w, \d and \b are ASCII-only, use \pL and \p{Greek} for other scripts; "
    "flags: i (ignore case), m, s, u (no effect)"
)

MAX_MEMORY_BYTES = 8 << 20

_FLAGS = frozenset("imsu")
_META = frozenset("\\.+*?()|[]{}^$")
# These anchor to the whole text, or make `^` and `$` do so: correct only if each line is searched on its own.
_WHOLE_TEXT_SYNTAX = re.compile(r"\\[AzC]|\(\?[a-zA-Z]*-")


class _Found(Protocol):
    def start(self) -> int: ...


class _Regex(Protocol):
    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> _Found | None: ...


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
    if not isinstance(cast("object", text), str):
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
    if not isinstance(cast("object", flags), str):
        raise ArtifactQueryError(f"flags must be text such as 'i', got {type(flags).__name__}", field="flags")
    unknown = sorted(set(flags) - _FLAGS)
    if unknown:
        raise ArtifactQueryError(
            f"unknown flag {''.join(unknown)!r}; use any of i (ignore case), m, s, u, or none", field="flags"
        )


def _compile(source: str, text: str) -> _Regex:
    import re2  # noqa: PLC0415 - takes 20 ms, which only a search should cost

    module = cast("Any", re2)
    options = module.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True
    options.never_nl = True  # a match never spans lines
    compile_source = cast("Callable[[str, Any], _Regex]", module.compile)
    try:
        return compile_source(source, options)
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
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    return f"the pattern {shown!r} is invalid: {reason}. The dialect: {DIALECT}"


MAX_LINE_BYTES = 4 << 20
"""A longer line is searched in pieces of this size."""
OVERLAP_BYTES = 1 << 16
"""The overlap of two such pieces: a longer match may be missed."""

_ADVANCE_BYTES = 8 << 20
_LEAD_BYTES = 4096


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


class LineSearch:
    """A search that runs in steps."""

    def __init__(
        self, query: Search, index: LineIndex, read: Callable[[int, int], bytes], *, step_bytes: int = 1 << 20
    ) -> None:
        check_counts(query)
        self.matches: list[Match] = []
        """The matching lines so far, without context."""
        self._pattern = compile_pattern(query.pattern, query.flags)
        self._limit = query.limit
        self._index, self._read, self._step_bytes = index, read, max(step_bytes, BLOCK_BYTES)
        self._walk = self._regions()
        self._is_over = index.line_count == 0

    @property
    def is_done(self) -> bool:
        """Whether all content was searched, or the limit was reached."""
        return self._is_over or (self._limit is not None and len(self.matches) >= self._limit)

    def advance(self) -> None:
        """Search the next few megabytes."""
        left = _ADVANCE_BYTES
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
        """Search one line longer than a step; above `MAX_LINE_BYTES`, in overlapping pieces."""
        if stop - begin <= MAX_LINE_BYTES:
            self._scan(self._read(begin, stop), stop - begin, line)
            yield stop - begin
            return
        overlap = max(OVERLAP_BYTES, len(self._pattern.needle))
        place = begin
        while True:
            end = min(place + MAX_LINE_BYTES, stop)
            is_found = self._scan_piece(begin, stop, place, end, line)
            yield end - place
            if is_found or end == stop:
                return
            place = end - overlap

    def _scan_piece(self, begin: int, stop: int, place: int, end: int, line: int) -> bool:
        # Read a few more bytes on either side, so that anchors and word boundaries see the real context.
        offset = max(begin, place - 4)
        data = self._read(offset, min(stop, end + 4))
        first = char_start(data, place - offset)
        last = len(data) if end == stop else char_start(data, end - offset)
        if not self._pattern.is_literal and not is_utf8(data[first:last], last - first):
            head, body, rest = (replace_invalid_utf8(part) for part in (data[:first], data[first:last], data[last:]))
            data, first, last = head + body + rest, len(head), len(head) + len(body)
        found = self._pattern.find(data, first, last)
        if found is None:
            return False
        self._add(line, data, found, before=offset - begin, after=stop - min(stop, end + 4))
        return True

    def _add(self, line: int, data: bytes, found: int, *, before: int = 0, after: int = 0) -> None:
        if before + len(data) + after <= MAX_TEXT_BYTES:
            self.matches.append(Match(line, decode_text(data)))
            return
        begin = char_start(data, max(found - _LEAD_BYTES, 0))
        end = char_start(data, min(begin + MAX_TEXT_BYTES, len(data)))
        text = format_excerpt(data[begin:end], before=before + begin, after=after + len(data) - end)
        self.matches.append(Match(line, text))


def check_counts(query: Search) -> None:
    """Reject negative counts.

    Raises:
        ArtifactQueryError: `before`, `after` or `limit` is negative.
    """
    for name, count in (("before", query.before), ("after", query.after), ("limit", query.limit)):
        if count is not None and count < 0:
            raise ArtifactQueryError(f"{name} counts lines and must not be negative, got {count}", field=name)


async def search_blocks(query: Search, blocks: AsyncIterator[tuple[int, list[str]]]) -> list[Match]:
    """Search lines that arrive in order in blocks, each with the number of its first line.

    For readers without a search of their own; only one block is held in memory.

    Raises:
        ArtifactQueryError: The pattern or a flag is not supported by the dialect.
    """
    stream = _TextSearch(query)
    async for start, lines in blocks:
        if stream.is_done(start):
            break
        stream.feed(start, lines)
    return stream.answer


class _TextSearch:
    """A search over consecutive blocks; the context of a match may be in the block before or after it."""

    def __init__(self, query: Search) -> None:
        check_counts(query)
        self.answer: list[Match] = []
        self._query = query
        self._left = query.limit
        self._kept: dict[int, str] = {}
        self._shown_end = self._context_end = 0
        compile_pattern(query.pattern, query.flags)  # rejects an invalid pattern even if there are no lines

    def is_done(self, start: int) -> bool:
        return self._left == 0 and self._context_end <= start

    def feed(self, start: int, lines: list[str]) -> None:
        end = start + len(lines)
        found = [] if self._left == 0 else self._find(start, lines)
        texts = self._kept | dict(enumerate(lines, start=start))
        ranges = [
            (start, min(self._context_end, end)),
            *merge_context_ranges(found, self._query.before, self._query.after, end),
        ]
        self._show(ranges, texts, set(found))
        if found:
            self._context_end = found[-1] + self._query.after + 1
        if self._query.before:
            self._kept = {line: texts[line] for line in list(texts)[-self._query.before :]}

    def _find(self, start: int, lines: list[str]) -> list[int]:
        # The trailing newline makes a single empty line count as one; the extra line it adds is dropped below.
        data = encode_text("\n".join(lines) + "\n")
        only_lines = replace(self._query, before=0, after=0, limit=self._left)
        search = LineSearch(only_lines, build_line_index(data), lambda first, last: data[first:last])
        while not search.is_done:
            search.advance()
        found = [start + match.line for match in search.matches if match.line < len(lines)]
        if self._left is not None:
            self._left -= len(found)
        return found

    def _show(self, ranges: list[tuple[int, int]], texts: dict[int, str], found: Collection[int]) -> None:
        for first, last in ranges:
            for line in range(max(first, self._shown_end), last):
                text = truncate_line(encode_text(texts[line]))
                self.answer.append(Match(line, text, is_context=line not in found))
            self._shown_end = max(self._shown_end, last)
