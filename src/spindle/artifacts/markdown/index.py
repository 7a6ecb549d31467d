"""The outline of a Markdown text, built in one pass over its lines, without I/O and with memory only for the outline.

Only headings with `#` at the start of a line are recognized; underlined (setext) ones are treated as text, because in
the output of tools a line of dashes is far more often a rule or a table.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from spindle.artifacts.markdown.model import CodeBlock, Heading, Section

MAX_FRONTMATTER_LINES = 200
PIECE_CHARS = 1 << 16
"""The approximate size of the pieces in which a text is parsed."""

_HEADING = re.compile(r"(#{1,6})\s+(.*)", re.DOTALL)
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)", re.DOTALL)
_DEFINITION = re.compile(r" {0,3}\[[^\]]+\]:")
_MAX_DEFINITION_CHARS = 1 << 20


@dataclass(frozen=True, slots=True)
class MarkdownIndex:
    """The outline of one text."""

    line_count: int
    frontmatter_end: int | None
    """The line that closes the frontmatter, which starts at line 0."""
    headings: Sequence[Heading]
    code_blocks: Sequence[CodeBlock]
    fences: Sequence[str]
    """The opening fence of each code block, with its language."""
    definitions: str
    """All lines outside code blocks that may define a link's target."""
    cuts: Sequence[int]
    """Blank lines outside code blocks at which the text may be split for parsing."""

    @property
    def body_start(self) -> int:
        """The first line after the frontmatter."""
        return 0 if self.frontmatter_end is None else self.frontmatter_end + 1

    def clamp(self, start: int | None, end: int | None) -> tuple[int, int]:
        """Return the clamped half-open range of lines, by default all lines."""
        first = min(max(start or 0, 0), self.line_count)
        return first, self.line_count if end is None else max(min(end, self.line_count), first)

    def pieces(self, start: int | None, end: int | None) -> list[range]:
        """Split a range of lines, by default all, into pieces to parse, without the frontmatter."""
        first, last = self.clamp(start, end)
        first = max(first, self.body_start)
        borders = [first, *(cut for cut in self.cuts if first < cut < last), last]
        return [range(a, b) for a, b in pairwise(borders) if a < b]

    def find_enclosing_fence(self, line: int) -> str | None:
        """Return the opening fence of the code block that a line is in, unless it is the block's first line."""
        at = bisect_left(self.code_blocks, line, key=lambda block: block.start_line) - 1
        return self.fences[at] if at >= 0 and line <= self.code_blocks[at].end_line else None

    def sections(self) -> list[Section]:
        """Return the sections, one per heading."""
        return [Section(h.depth, h.text, h.start_line, h.start_line + 1, h.end_line) for h in self.headings]


def find_frontmatter_end(first_lines: Sequence[str]) -> int | None:
    """Return the line that closes the frontmatter, or `None` if there is none or it is never closed."""
    if not first_lines or first_lines[0].strip() != "---":
        return None
    for number, line in enumerate(first_lines[1:MAX_FRONTMATTER_LINES], 1):
        if line.strip() == "---":
            return number
    return None


@dataclass(slots=True)
class MarkdownIndexer:
    """A builder of a `MarkdownIndex` from lines fed in order."""

    frontmatter_end: int | None = None
    _line: int = 0
    _headings: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])
    _blocks: list[CodeBlock] = field(default_factory=list[CodeBlock])
    _fences: list[str] = field(default_factory=list[str])
    _open: tuple[str, str | None, int] | None = None
    _definitions: list[str] = field(default_factory=list[str])
    _definition_chars: int = 0
    _definition_lines_left: int = 0
    _cuts: list[int] = field(default_factory=list[int])
    _piece_chars: int = 0

    def feed(self, lines: Sequence[str]) -> None:
        """Add the next lines."""
        for line in lines:
            if self.frontmatter_end is None or self._line > self.frontmatter_end:
                self._take(line)
            self._piece_chars += len(line) + 1
            if self._piece_chars > PIECE_CHARS and self._open is None and not line.strip():
                self._cuts.append(self._line)
                self._piece_chars = 0
            self._line += 1

    def finish(self) -> MarkdownIndex:
        """Return the outline of everything fed so far."""
        last = self._line - 1
        if self._open is not None:
            self._close(last)
        return MarkdownIndex(
            line_count=self._line,
            frontmatter_end=self.frontmatter_end,
            headings=_set_end_lines(self._headings, last),
            code_blocks=tuple(self._blocks),
            fences=tuple(self._fences),
            definitions="\n".join(self._definitions),
            cuts=tuple(self._cuts),
        )

    def _take(self, line: str) -> None:
        fence = _FENCE.match(line.lstrip())
        if self._open is not None:
            if fence and fence[1].startswith(self._open[0]):
                self._close(self._line)
        elif fence and not (line.lstrip()[0] == "`" and "`" in fence[2]):
            lang = re.match(r"\S+", fence[2])
            self._open = fence[1], lang[0] if lang else None, self._line
        else:
            self._take_text(line)

    def _take_text(self, line: str) -> None:
        heading = _HEADING.match(line)
        if heading:
            self._headings.append((len(heading[1]), heading[2].strip(), self._line))
        # A definition may put its target and its title on the two lines that follow.
        self._definition_lines_left = 3 if _DEFINITION.match(line) else self._definition_lines_left - 1
        if self._definition_lines_left > 0 and self._definition_chars < _MAX_DEFINITION_CHARS:
            self._definitions.append(line)
            self._definition_chars += len(line)
        elif self._definitions and self._definitions[-1]:
            self._definitions.append("")

    def _close(self, end: int) -> None:
        if self._open is None:
            return
        fence, lang, start = self._open
        self._blocks.append(CodeBlock(lang, start, end))
        self._fences.append(f"{fence}{lang or ''}")
        self._open = None


def _set_end_lines(found: Sequence[tuple[int, str, int]], last: int) -> tuple[Heading, ...]:
    """Return the headings with their last lines, found by walking backwards over the next heading of each depth."""
    next_at = dict.fromkeys(range(1, 7), last + 1)
    headings: list[Heading] = []
    for depth, text, line in reversed(found):
        headings.append(Heading(depth, text, line, min(next_at[d] for d in range(1, depth + 1)) - 1))
        next_at[depth] = line
    return tuple(reversed(headings))
