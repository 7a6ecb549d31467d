"""The outline and the tree of a Markdown text in pages, each parsed from a bounded part of it.

Everything here blocks, so it is for worker threads.
"""

from dataclasses import dataclass, field
from typing import Final

from spindle.artifacts import markdown
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.markdown.bounded_tree import BoundedTree, Node
from spindle.artifacts.markdown.index import (
    MAX_FRONTMATTER_LINES,
    MarkdownIndex,
    MarkdownIndexer,
    find_frontmatter_end,
)
from spindle.artifacts.markdown.model import Heading
from spindle.artifacts.readers import char_start, decode_text
from spindle.extras import needs_extra

OUTLINE_BYTES: Final = 8 << 20
"""The outline is that of the beginning of the text."""
MAX_HEADINGS: Final = 2_000
MAX_HEADING_CHARS: Final = 300
PAGE_BYTES: Final = 1 << 15
"""About this much is parsed for a page; markup that is nothing but emphasis takes a second."""
MAX_LINE_BYTES: Final = 1 << 13
"""A line that fills a page is cut to this length."""
MAX_TREE_CHARS: Final = 400_000
_CUT_TRIES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownOutline:
    """The headings of a text."""

    headings: tuple[Heading, ...]
    is_complete: bool
    """Whether there are no headings after these."""
    line_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownPage:
    """The blocks of some lines as a tree of plain dicts, like mdast's; see `MarkdownArtifact.ast`."""

    nodes: tuple[Node, ...]
    start_line: int
    next_line: int | None
    """Where the next page begins; `None` at the end."""
    line_count: int


@dataclass(slots=True)
class MarkdownPages:
    """The pages of one text; the outline is built once.

    Raises:
        MissingExtraError: The extra `markdown` is not installed.
    """

    content: BlockReader
    _known_index: MarkdownIndex | None = field(default=None, init=False)

    def read_outline(self) -> MarkdownOutline:
        """Return the headings of the first megabytes."""
        index = self._index()
        found = index.headings[:MAX_HEADINGS]
        return MarkdownOutline(
            headings=tuple(
                Heading(one.depth, one.text[:MAX_HEADING_CHARS], one.start_line, one.end_line) for one in found
            ),
            is_complete=len(found) == len(index.headings) and self._is_indexed_whole(),
            line_count=self.content.index.line_count,
        )

    def read_page(self, start_line: int = 0) -> MarkdownPage:
        """Return the tree of the lines from `start_line` (clamped) on, about 32 KiB of them."""
        with needs_extra("markdown"):
            parser_type = markdown.MarkdownParser
        index, count = self._index(), self.content.index.line_count
        start = max(min(start_line, count), 0)
        if start == count:
            return MarkdownPage(nodes=(), start_line=start, next_line=None, line_count=count)
        lines, is_cut = self._read_lines(start)
        fence = index.find_enclosing_fence(start) if start < index.line_count else None
        tree = BoundedTree(start, start + len(lines), max_chars=MAX_TREE_CHARS)
        skipped = 0
        if start == 0 and index.frontmatter_end is not None and index.frontmatter_end < len(lines):
            skipped = index.frontmatter_end + 1
            yaml = "\n".join(lines[1 : skipped - 1])
            tree.add([{"type": "yaml", "value": yaml, "position": {"start_line": 0, "end_line": skipped - 1}}])
        text = "\n".join(([] if fence is None else [fence]) + lines[skipped:])
        first = start + skipped
        parser = parser_type(index.definitions)
        tree.add(parser.tree(text, range(first, start + len(lines)), first - (fence is not None)))
        root = tree.finish()
        if is_cut:
            root["children"].append({"type": "cut", "position": {"start_line": start, "end_line": start}})
        after = root.get("next_line") or start + len(lines)
        # A node that is cut in its first line would be the first of every page.
        after = max(after, start + 1)
        return MarkdownPage(
            nodes=tuple(root["children"]),
            start_line=start,
            next_line=after if after < count else None,
            line_count=count,
        )

    def _read_lines(self, start: int) -> tuple[list[str], bool]:
        """Return about 32 KiB of lines, up to a blank one if possible, and whether the only one was cut."""
        read, index = self.content.read_range, self.content.index
        begin = index.find_line_start(read, start)
        data = read(begin, min(begin + PAGE_BYTES, index.byte_length))
        if begin + len(data) >= index.byte_length:
            return decode_text(data, at_start=start == 0).split("\n"), False
        end = self._find_cut(data, start)
        if end < 0:
            return [decode_text(data[: char_start(data, MAX_LINE_BYTES)], at_start=start == 0)], True
        return decode_text(data[:end], at_start=start == 0).split("\n"), False

    def _find_cut(self, data: bytes, start: int) -> int:
        """Return where to end a page: after the last blank line outside of code, else any, else the last line."""
        end = last = data.rfind(b"\n\n")
        for _ in range(_CUT_TRIES):
            line = start + data.count(b"\n", 0, end + 2)
            if end < 0 or line >= self._index().line_count or self._index().find_enclosing_fence(line) is None:
                break
            end = data.rfind(b"\n\n", 0, end)
        # The blank line belongs to this page, so that the next one begins with text.
        best = end if end >= 0 else last
        return best + 1 if best >= 0 else data.rfind(b"\n")

    def _index(self) -> MarkdownIndex:
        if self._known_index is None:
            data = self.content.read_range(0, min(OUTLINE_BYTES, self.content.index.byte_length))
            if not self._is_indexed_whole():
                data = data[: data.rfind(b"\n") + 1]
            lines = decode_text(data, at_start=True).split("\n")
            indexer = MarkdownIndexer(find_frontmatter_end(lines[:MAX_FRONTMATTER_LINES]))
            indexer.feed(lines)
            self._known_index = indexer.finish()
        return self._known_index

    def _is_indexed_whole(self) -> bool:
        return self.content.index.byte_length <= OUTLINE_BYTES
