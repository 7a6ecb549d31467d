"""Conversion of Markdown tokens to a tree of plain dicts with mdast's node types.

Blocks have their lines in `position`, both ends inclusive; inline nodes belong to the lines of their block. Links and
images by reference carry the resolved URL.

This module needs the extra `markdown`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from markdown_it.token import Token

from spindle.artifacts.markdown.bounded_tree import Node
from spindle.artifacts.markdown.inline_text import find_bare_urls, get_text, get_title

MAX_DEPTH: Final = 48
"""Markup nested deeper than this is dropped and its text kept, because JSON encoders limit the depth."""

_CONTAINERS: Final = {
    "paragraph_open": "paragraph",
    "blockquote_open": "blockquote",
    "list_item_open": "listItem",
    "tr_open": "tableRow",
    "th_open": "tableCell",
    "td_open": "tableCell",
    "em_open": "emphasis",
    "strong_open": "strong",
    "s_open": "delete",
}
_TASK = re.compile(r"\[([ xX])\]\s+")
_ALIGNED = re.compile(r"text-align:(left|right|center)")


def build_tree(tokens: Sequence[Token], lines: range, first_line: int) -> list[Node]:
    """Build the top-level nodes of a text whose first line is `first_line`; positions are clipped to `lines`."""

    def nodes_of(token: Token) -> list[Node]:
        if token.type == "inline":
            return _inlines(token.children or [])
        return [_set_position(node, token, lines, first_line) for node in _block(token)]

    nodes = _nest(tokens, nodes_of)
    _finish(nodes)
    return nodes


def _nest(tokens: Sequence[Token], nodes_of: Callable[[Token], list[Node]]) -> list[Node]:
    """Nest the nodes of tokens; a token that yields no node, or is nested too deeply, adds no level."""
    levels: list[list[Node]] = [[]]
    for token in tokens:
        if token.nesting < 0:
            levels.pop()
            continue
        found = nodes_of(token) if token.nesting == 0 or len(levels) <= MAX_DEPTH else []
        levels[-1].extend(found)
        if token.nesting > 0:
            levels.append(found[0]["children"] if found else levels[-1])
    return levels[0]


def _set_position(node: Node, token: Token, lines: range, first_line: int) -> Node:
    if token.map is not None:
        start, end = (first_line + at for at in token.map)
        # A range may begin inside a code block; the opening fence is then outside the range.
        node["position"] = {"start_line": max(start, lines.start), "end_line": min(max(end, start + 1), lines.stop) - 1}
    return node


def _block(token: Token) -> list[Node]:
    match token.type:
        case "heading_open":
            return [{"type": "heading", "depth": int(token.tag[1:]), "children": []}]
        case "bullet_list_open":
            return [{"type": "list", "ordered": False, "children": []}]
        case "ordered_list_open":
            return [{"type": "list", "ordered": True, "start": token.attrs.get("start", 1), "children": []}]
        case "table_open":
            return [{"type": "table", "align": [], "children": []}]
        case "th_open":
            aligned = _ALIGNED.match(str(token.attrs.get("style", "")))
            return [{"type": "tableCell", "align": aligned and aligned[1], "children": []}]
        case "fence" | "code_block":
            lang, _, meta = token.info.strip().partition(" ")
            value = token.content.removesuffix("\n")
            return [{"type": "code", "lang": lang or None, "meta": meta.strip() or None, "value": value}]
        case "html_block":
            return [{"type": "html", "value": token.content.removesuffix("\n")}]
        case "hr":
            return [{"type": "thematicBreak"}]
        case _:
            return _container(token)


def _container(token: Token) -> list[Node]:
    kind = _CONTAINERS.get(token.type)
    return [{"type": kind, "children": []}] if kind else []


def _inlines(tokens: Sequence[Token]) -> list[Node]:
    nodes = _nest(tokens, _inline)
    _merge_texts(nodes, in_link=False)
    return nodes


def _inline(token: Token) -> list[Node]:
    match token.type:
        case "text" | "text_special":
            return [_text(token.content)]
        case "softbreak":
            return [_text("\n")]
        case "hardbreak":
            return [{"type": "break"}]
        case "code_inline":
            return [{"type": "inlineCode", "value": token.content}]
        case "html_inline":
            return [{"type": "html", "value": token.content}]
        case "link_open":
            return [{"type": "link", "url": str(token.attrs["href"]), "title": get_title(token), "children": []}]
        case "image":
            alt = get_text(token.children or [])
            return [{"type": "image", "url": str(token.attrs["src"]), "title": get_title(token), "alt": alt}]
        case _:
            return _container(token)


def _text(value: str) -> Node:
    return {"type": "text", "value": value}


def _split_links(text: str) -> Iterator[Node]:
    shown = 0
    for start, written, url in find_bare_urls(text):
        yield _text(text[shown:start])
        yield {"type": "link", "url": url, "title": None, "children": [_text(written)]}
        shown = start + len(written)
    yield _text(text[shown:])


def _merge_texts(nodes: list[Node], *, in_link: bool) -> None:
    """Merge adjacent text nodes recursively, and convert bare URLs in them to links."""
    merged: list[Node] = []
    for is_text, group in groupby(nodes, key=lambda node: node["type"] == "text"):
        if is_text:
            text = "".join(node["value"] for node in group)
            merged += [_text(text)] if in_link else _split_links(text)
        else:
            merged += group
    nodes[:] = [node for node in merged if node.get("value") != "" or node["type"] != "text"]
    for node in nodes:
        if "children" in node:
            _merge_texts(node["children"], in_link=in_link or node["type"] == "link")


def _finish(nodes: list[Node]) -> None:
    """Set `checked` of task list items and `align` of tables, recursively."""
    for node in nodes:
        if node["type"] == "listItem":
            _set_checked(node)
        elif node["type"] == "table":
            node["align"] = [cell.pop("align") for row in node["children"][:1] for cell in row["children"]]
        if node["type"] in ("list", "listItem", "blockquote"):
            _finish(node["children"])


def _set_checked(item: Node) -> None:
    first: list[Node] = item["children"][:1]
    inside: list[Node] = first[0]["children"] if first and first[0]["type"] == "paragraph" else []
    box = _TASK.match(inside[0]["value"]) if inside and inside[0]["type"] == "text" else None
    if box:
        item["checked"] = box[1] != " "
        inside[0]["value"] = inside[0]["value"][box.end() :]
