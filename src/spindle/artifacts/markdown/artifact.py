"""The Markdown artifact: queries by document structure."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

from annotated_types import Ge, Le
from anyio.to_thread import run_sync

from spindle.artifacts.artifact import Artifact, LineNumber
from spindle.artifacts.markdown.bounded_tree import BoundedTree, Node, as_compact_json
from spindle.artifacts.markdown.index import MAX_FRONTMATTER_LINES, MarkdownIndex, MarkdownIndexer, find_frontmatter_end
from spindle.artifacts.markdown.model import CodeBlock, Heading, Image, Link, Section
from spindle.artifacts.queries import query
from spindle.artifacts.readers import SpoolReader
from spindle.extras import needs_extra
from spindle.json_types import JsonValue

if TYPE_CHECKING:
    from spindle.artifacts.markdown.parse import MarkdownParser

T = TypeVar("T")
Depth: TypeAlias = Annotated[int | None, Ge(1), Le(6)]

_NARROW = "ask for a range with start_line and end_line"


class MarkdownArtifact(Artifact):
    """A Markdown text; headings, sections and code blocks are returned as line numbers, to be read with `cat`.

    The outline is built in one pass and cached. Links, images, text and tree are parsed piece by piece, so a long text
    takes time but little memory.
    """

    def __init__(self, reader: SpoolReader) -> None:
        super().__init__(reader)
        self._known_index: MarkdownIndex | None = None

    @query("artifact_md_frontmatter", "Read the YAML frontmatter.")
    async def frontmatter(self) -> JsonValue:
        """Return the parsed frontmatter: `{}` if it is empty, `None` if there is none.

        Raises:
            InvalidArtifactError: The frontmatter is not YAML of plain values.
        """
        lines = await self._lines(0, MAX_FRONTMATTER_LINES)
        end = find_frontmatter_end(lines)
        if end is None:
            return None
        with needs_extra("markdown"):
            from spindle.artifacts.markdown.parse import parse_frontmatter  # noqa: PLC0415 - an extra
        return await run_sync(parse_frontmatter, "\n".join(lines[1:end]))

    @query("artifact_md_headings", "List the headings with their lines, counted from 0.")
    async def headings(self, depth: Depth = None) -> list[Heading]:
        """Return all headings, or those of one depth."""
        index = await self._index()
        return [heading for heading in index.headings if depth in (None, heading.depth)]

    @query(
        "artifact_md_sections",
        "List the sections with the lines of their bodies, to be read with artifact_cat.",
    )
    async def sections(self, depth: Depth = None) -> list[Section]:
        """Return all sections, or those under headings of one depth."""
        index = await self._index()
        return [section for section in index.sections() if depth in (None, section.depth)]

    @query(
        "artifact_md_code_blocks",
        "List the fenced code blocks with their lines; lang keeps one language, an empty lang those without one.",
    )
    async def code_blocks(self, lang: str | None = None) -> list[CodeBlock]:
        """Return the fenced code blocks; `lang` selects one language, `""` the blocks without one."""
        index = await self._index()
        return [block for block in index.code_blocks if lang is None or (block.lang or "") == lang]

    @query("artifact_md_links", "List the links.", rest=_NARROW, hidden={"limit": "max_items"})
    async def links(
        self, start_line: LineNumber = None, end_line: LineNumber = None, *, limit: int | None = None
    ) -> list[Link]:
        """Return the links of a half-open range of lines, by default of the whole text."""
        return await self._collect(lambda parser, text: parser.links(text), start_line, end_line, limit)

    @query("artifact_md_images", "List the images.", rest=_NARROW, hidden={"limit": "max_items"})
    async def images(
        self, start_line: LineNumber = None, end_line: LineNumber = None, *, limit: int | None = None
    ) -> list[Image]:
        """Return the images of a half-open range of lines, by default of the whole text."""
        return await self._collect(lambda parser, text: parser.images(text), start_line, end_line, limit)

    @query(
        "artifact_md_text",
        "Read the Markdown as plain text, without its markup.",
        rest=_NARROW,
        hidden={"max_chars": "max_chars"},
    )
    async def text(
        self, start_line: LineNumber = None, end_line: LineNumber = None, *, max_chars: int | None = None
    ) -> str:
        """Return the plain text of a half-open range of lines; stop parsing once it has `max_chars`."""
        parser, blocks, chars = await self._parser(), list[str](), 0
        for piece in (await self._index()).pieces(start_line, end_line):
            found = await run_sync(parser.text, await self._read_piece(piece), abandon_on_cancel=True)
            blocks += found
            chars += sum(map(len, found))
            if max_chars is not None and chars >= max_chars:
                break
        return "\n\n".join(blocks)

    @query(
        "artifact_md_ast",
        "Read the Markdown as a JSON tree of nodes, blocks with their lines. A root with next_line was cut: ask again "
        "with start_line=next_line. A truncated node is read whole with artifact_cat.",
        rest=_NARROW,
        hidden={"max_chars": "max_chars"},
        render=as_compact_json,
    )
    async def ast(
        self, start_line: LineNumber = None, end_line: LineNumber = None, *, max_chars: int | None = None
    ) -> Node:
        """Return the tree of a half-open range of lines, by default of the whole text, as plain dicts like mdast's.

        A tree whose JSON would reach `max_chars` is truncated; `next_line` of its root is the line to continue from.
        """
        parser, index = await self._parser(), await self._index()
        tree = BoundedTree(*index.clamp(start_line, end_line), max_chars=max_chars)

        def grow(text: str, lines: range, first_line: int) -> None:
            tree.add(parser.tree(text, lines, first_line))

        if tree.start_line == 0 and index.frontmatter_end is not None and index.frontmatter_end < tree.end_line:
            yaml = "\n".join(await self._lines(1, index.frontmatter_end))
            place = {"start_line": 0, "end_line": index.frontmatter_end}
            tree.add([{"type": "yaml", "value": yaml, "position": place}])
        for piece in index.pieces(start_line, end_line):
            if tree.is_full:
                break
            first_line = piece.start - (index.find_enclosing_fence(piece.start) is not None)
            await run_sync(grow, await self._read_piece(piece), piece, first_line, abandon_on_cancel=True)
        return tree.finish()

    async def _collect(
        self,
        find: "Callable[[MarkdownParser, str], list[T]]",
        start_line: int | None,
        end_line: int | None,
        limit: int | None,
    ) -> list[T]:
        parser, found = await self._parser(), list[T]()
        for piece in (await self._index()).pieces(start_line, end_line):
            found += await run_sync(find, parser, await self._read_piece(piece), abandon_on_cancel=True)
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    async def _parser(self) -> "MarkdownParser":
        with needs_extra("markdown"):
            from spindle.artifacts.markdown.parse import MarkdownParser  # noqa: PLC0415 - an extra
        return await run_sync(MarkdownParser, (await self._index()).definitions)

    async def _index(self) -> MarkdownIndex:
        if self._known_index is None:
            indexer = MarkdownIndexer(find_frontmatter_end(await self._lines(0, MAX_FRONTMATTER_LINES)))
            for part in await self._line_ranges():
                await run_sync(indexer.feed, await self._lines(part.start, part.stop))
            self._known_index = indexer.finish()
        return self._known_index

    async def _read_piece(self, piece: range) -> str:
        lines = await self._lines(piece.start, piece.stop)
        # A range may begin inside a code block, and must not be parsed as prose then.
        fence = (await self._index()).find_enclosing_fence(piece.start)
        return "\n".join(lines if fence is None else [fence, *lines])
