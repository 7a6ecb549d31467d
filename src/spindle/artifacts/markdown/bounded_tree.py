"""Trees of Markdown nodes with a size limit, which record the line where they were truncated."""

import json
from typing import TypeAlias

from spindle.json_types import JsonObject, JsonValue

Node: TypeAlias = JsonObject


def as_compact_json(value: JsonValue) -> str:
    """Serialize a tree as JSON on one line, without optional whitespace."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class BoundedTree:
    """A tree that accepts nodes in line order until its JSON would reach `max_chars`."""

    def __init__(self, start_line: int, end_line: int, *, max_chars: int | None = None) -> None:
        self.start_line, self.end_line = start_line, end_line
        self._nodes: list[Node] = []
        self._next_line: int | None = None
        self._room = None if max_chars is None else max_chars - len(as_compact_json(self._root(next_line=end_line))) - 1

    @property
    def is_full(self) -> bool:
        """Whether no more nodes are accepted."""
        return self._next_line is not None

    def add(self, nodes: list[Node]) -> None:
        """Add the next nodes, or as many of them as fit."""
        if self._room is None:
            self._nodes += nodes
            return
        if self.is_full:
            return
        # Only a first node is cut; any other is left to the next answer, which has more room for it.
        taken, self._room, self._next_line = _take_fitting(nodes, self._room, may_cut=not self._nodes)
        self._nodes += taken

    def finish(self) -> Node:
        """Return the root node."""
        return self._root(next_line=self._next_line)

    def _root(self, *, next_line: int | None) -> Node:
        position = {"start_line": self.start_line, "end_line": max(self.end_line, self.start_line + 1) - 1}
        root: Node = {"type": "root", "children": self._nodes, "position": position}
        return root if next_line is None else {**root, "truncated": True, "next_line": next_line}


def _take_fitting(nodes: list[Node], room: int, *, may_cut: bool) -> tuple[list[Node], int, int | None]:
    """Return the first nodes that fit, the remaining room, and the line of the first omitted node, if any."""
    taken: list[Node] = []
    for node in nodes:
        size = len(as_compact_json(node)) + 1
        if size <= room:
            taken.append(node)
            room -= size
            continue
        if may_cut and not taken:
            cut, next_line = _cut(node, room)
            return [cut] if len(as_compact_json(cut)) < room else [], 0, next_line
        return taken, room, _start_line(node)
    return taken, room, None


def _cut(node: Node, room: int) -> tuple[Node, int | None]:
    """Return the part of a node that fits, and the line to continue from, if known."""
    after: int | None = node["position"]["end_line"] + 1 if "position" in node else None
    if "children" in node:
        bare: Node = {**node, "children": [], "truncated": True}
        inside, _, next_line = _take_fitting(node["children"], room - len(as_compact_json(bare)) - 1, may_cut=True)
        return {**bare, "children": inside}, after if next_line is None else next_line
    if "value" not in node:
        return {"type": node["type"], "truncated": True}, after
    bare = {**node, "value": "", "truncated": True}
    return {**bare, "value": _cut_text(node["value"], room - len(as_compact_json(bare)) - 1)}, after


def _cut_text(text: str, room: int) -> str:
    """Return the longest prefix that fits as JSON, where a character may take up to six."""
    low, high = 0, max(min(len(text), room), 0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(as_compact_json(text[:middle])) - 2 <= room else (low, middle - 1)
    return text[:low]


def _start_line(node: Node) -> int | None:
    return node["position"]["start_line"] if "position" in node else None
