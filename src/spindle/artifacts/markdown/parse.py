"""Parsing of Markdown content: links, images, plain text, tree and frontmatter. Nothing is rendered or executed.

This module needs the extra `markdown`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from markdown_it import MarkdownIt, helpers
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from spindle.artifacts.markdown.bounded_tree import Node
from spindle.artifacts.markdown.inline_text import find_bare_urls, get_text, get_title
from spindle.artifacts.markdown.model import Image, Link
from spindle.artifacts.markdown.tree import build_tree
from spindle.artifacts.yaml import load_yaml
from spindle.errors import InvalidArtifactError
from spindle.json_types import JsonObject, JsonValue

MAX_FRONTMATTER_CHARS: Final = 64 * 1024
MAX_YAML_NODES: Final = 20_000
"""Maximum number of nodes after alias expansion: a small text may expand exponentially."""

_LEFT_TO_SCAN: Final = "spindle_left_to_scan"
_MIN_SCANNED_CHARS: Final = 100_000
_MAX_SCANS: Final = 8
"""How often the characters of a text may be searched for the end of link labels, on average."""
_TAG = re.compile(r"<[^<>]*>")


class MarkdownParser:
    """A parser of CommonMark with GitHub's tables and strikethrough; `definitions` holds reference link definitions."""

    def __init__(self, definitions: str = "") -> None:
        self._markdown = MarkdownIt("gfm-like", {"linkify": False, "maxNesting": 40})
        # URLs are returned as written and never followed, so they are neither normalized nor validated.
        self._markdown.normalizeLink = _as_written
        self._markdown.validateLink = cast("Any", _any_link)
        self._markdown.helpers = cast("Any", _BoundedHelpers)
        known: JsonObject = {_LEFT_TO_SCAN: _count_scans(definitions)}
        self._markdown.parse(definitions, known)
        self._references: JsonObject = known.get("references", {})

    def links(self, text: str) -> list[Link]:
        """Return the links of a text."""
        return [link for children in self._inlines(text) for link in _links(children)]

    def images(self, text: str) -> list[Image]:
        """Return the images of a text."""
        tokens = (token for children in self._inlines(text) for token in children if token.type == "image")
        return [Image(get_text(token.children or []), str(token.attrs["src"]), get_title(token)) for token in tokens]

    def text(self, text: str) -> list[str]:
        """Return the plain text, one string per top-level block."""
        blocks: list[str] = []
        lines: list[str] = []
        cells: list[str] | None = None
        for token in self._parse(text):
            line = _block_text(token)
            if line is not None:
                (lines if cells is None else cells).append(line)
            elif token.type == "tr_open":
                cells = []
            elif token.type == "tr_close" and cells is not None:
                lines.append("\t".join(cells))
                cells = None
            if token.level == 0 and token.nesting <= 0:
                blocks.append("\n".join(lines))
                lines = []
        return [block for block in blocks if block]

    def tree(self, text: str, lines: range, first_line: int) -> list[Node]:
        """Return the top-level nodes; the text begins at `first_line`, and `lines` is the requested range."""
        return build_tree(self._parse(text), lines, first_line)

    def _parse(self, text: str) -> list[Token]:
        # A copy, so that definitions in this part do not leak into the next.
        return self._markdown.parse(text, {"references": dict(self._references), _LEFT_TO_SCAN: _count_scans(text)})

    def _inlines(self, text: str) -> Iterator[Sequence[Token]]:
        return (token.children or [] for token in self._parse(text) if token.type == "inline")


def _count_scans(text: str) -> int:
    return _MIN_SCANNED_CHARS + _MAX_SCANS * len(text)


class _BoundedHelpers:
    """The helpers of the parser, with a bound on the search for the end of link labels.

    For every `[` the parser searches the rest of the block, and again for every `[` inside. Each search is charged in
    advance, and what it did not need is given back. Once nothing is left, a `[` is plain text.
    """

    # The names are those of the parser.
    parseLinkDestination = staticmethod(helpers.parseLinkDestination)  # noqa: N815
    parseLinkTitle = staticmethod(helpers.parseLinkTitle)  # noqa: N815

    @staticmethod
    def parseLinkLabel(state: StateInline, start: int, disableNested: bool = False) -> int:  # noqa: FBT001, FBT002, N802, N803
        left = cast("dict[str, int]", state.env)
        charge = state.posMax - start
        if left[_LEFT_TO_SCAN] < charge:
            return -1
        left[_LEFT_TO_SCAN] -= charge
        end = helpers.parseLinkLabel(state, start, disableNested)
        if end >= 0:
            left[_LEFT_TO_SCAN] += state.posMax - end
        return end


def _as_written(url: str) -> str:
    return url


def _any_link(_url: str) -> bool:
    return True


def _block_text(token: Token) -> str | None:
    match token.type:
        case "inline":
            return get_text(token.children or [])
        case "fence" | "code_block":
            return token.content.rstrip("\n")
        case "html_block":
            return _TAG.sub("", token.content).strip()
        case _:
            return None


def _links(tokens: Sequence[Token]) -> Iterator[Link]:
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.type == "link_open":
            opened.append(place)
        elif token.type == "link_close" and opened:
            start = opened.pop()
            text = get_text(tokens[start + 1 : place])
            yield Link(text, str(tokens[start].attrs["href"]), get_title(tokens[start]))
        elif token.type == "text" and not opened:
            yield from (Link(written, url) for _, written, url in find_bare_urls(token.content))


def parse_frontmatter(text: str) -> JsonValue:
    """Parse the YAML of a frontmatter; an empty one is `{}`.

    Raises:
        InvalidArtifactError: The text is not YAML of plain values, or is too large after alias expansion.
    """
    if len(text) > MAX_FRONTMATTER_CHARS:
        raise InvalidArtifactError(f"the frontmatter has {len(text)} characters; the limit is {MAX_FRONTMATTER_CHARS}")
    try:
        value = load_yaml(text, max_values=MAX_YAML_NODES)
    except ValueError as error:
        raise InvalidArtifactError(f"the frontmatter is not valid YAML of plain values: {error!s:.300}") from error
    return {} if value is None else value
