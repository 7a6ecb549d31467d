"""Parsing of Markdown content: links, images, plain text, tree and frontmatter. Nothing is rendered or executed.

This module needs the extra `markdown`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from spindle.artifacts.markdown.bounded_tree import Node
from spindle.artifacts.markdown.inline_text import find_bare_urls, get_text, get_title
from spindle.artifacts.markdown.model import Image, Link
from spindle.artifacts.markdown.tree import build_tree
from spindle.errors import InvalidArtifactError

MAX_FRONTMATTER_CHARS: Final = 64 * 1024
MAX_YAML_NODES: Final = 20_000
"""Maximum number of nodes after alias expansion: a small text may expand exponentially."""

_TAG = re.compile(r"<[^<>]*>")


class MarkdownParser:
    """A parser of CommonMark with GitHub's tables and strikethrough; `definitions` holds reference link definitions."""

    def __init__(self, definitions: str = "") -> None:
        self._markdown = MarkdownIt("gfm-like", {"linkify": False, "maxNesting": 40})
        # URLs are returned as written and never followed, so they are neither normalized nor validated.
        self._markdown.normalizeLink = _as_written
        self._markdown.validateLink = cast("Any", _any_link)
        known: dict[str, Any] = {}
        self._markdown.parse(definitions, known)
        self._references: dict[str, Any] = known.get("references", {})

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
        return self._markdown.parse(text, {"references": dict(self._references)})

    def _inlines(self, text: str) -> Iterator[Sequence[Token]]:
        return (token.children or [] for token in self._parse(text) if token.type == "inline")


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


def parse_frontmatter(text: str) -> Any:
    """Parse the YAML of a frontmatter; an empty one is `{}`.

    Raises:
        InvalidArtifactError: The text is not YAML of plain values, or is too large after alias expansion.
    """
    if len(text) > MAX_FRONTMATTER_CHARS:
        raise InvalidArtifactError(f"the frontmatter has {len(text)} characters; the limit is {MAX_FRONTMATTER_CHARS}")
    safe = cast("Any", yaml)
    loader = safe.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        _check_size(node)
        value = loader.construct_document(node)
    except (safe.YAMLError, ValueError, OverflowError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidArtifactError(f"the frontmatter is not valid YAML of plain values: {reason[:300]}") from error
    finally:
        loader.dispose()
    return {} if value is None else value


def _check_size(root: Any) -> None:
    """Reject a document with too many nodes after alias expansion; each node is visited once."""
    sizes: dict[int, int] = {}

    def size(node: Any, above: frozenset[int]) -> int:
        if id(node) in above:
            raise ValueError("an alias refers to a node that contains it")
        if id(node) not in sizes:
            inside = above | {id(node)}
            sizes[id(node)] = 1 + sum(size(child, inside) for child in _children(node))
        return sizes[id(node)]

    if size(root, frozenset()) > MAX_YAML_NODES:
        raise ValueError(f"it has more than {MAX_YAML_NODES} values after alias expansion")


def _children(node: Any) -> list[Any]:
    inside: object = node.value
    if not isinstance(inside, list):
        return []
    flat: list[Any] = []
    for child in cast("list[Any]", inside):
        flat.extend(cast("tuple[Any, Any]", child) if isinstance(child, tuple) else [child])
    return flat
