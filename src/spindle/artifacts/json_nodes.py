"""Nodes and values as JSONPath (RFC 9535) sees them: children, slices, lengths, order, and patterns."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeGuard

import re2

from spindle.artifacts.grep import MAX_MEMORY_BYTES
from spindle.artifacts.json_stream import LargeArray, LargeObject
from spindle.errors import ArtifactQueryError
from spindle.json_types import is_array, is_object


class Nothing:
    """The type of `NOTHING`."""


NOTHING: Final = Nothing()
"""The value of a query that selects no node."""


def list_children(node: object) -> Iterable[object]:
    """Return the members of a container; nothing for other values."""
    if is_array(node) or isinstance(node, LargeArray):
        return node
    if is_object(node) or isinstance(node, LargeObject):
        return node.values()
    return ()


def slice_node(node: object, cut: slice) -> Iterable[object]:
    """Return the items of an array that a slice selects."""
    if cut.step == 0:
        return ()
    if is_array(node):
        return node[cut]
    return node.slice(cut) if isinstance(node, LargeArray) else ()


def has_nodes(nodes: Iterable[object]) -> bool:
    """Return whether there are any nodes."""
    return any(True for _ in nodes)


def count_nodes(nodes: Iterable[object]) -> object:
    """Return how many nodes there are."""
    return sum(1 for _ in nodes)


def get_only_value(nodes: Iterable[object]) -> object:
    """Return the value of the only node, or `NOTHING`."""
    found = list(islice(nodes, 2))
    return found[0] if len(found) == 1 else NOTHING


def get_length(value: object) -> object:
    """Return how many characters or members a value has, or `NOTHING`."""
    if isinstance(value, str) or is_array(value) or is_object(value) or isinstance(value, LargeArray | LargeObject):
        return len(value)
    return NOTHING


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_less(left: object, right: object) -> bool:
    """Return whether two texts or two numbers are in this order; other values have none."""
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    return _is_number(left) and _is_number(right) and left < right


@lru_cache(maxsize=8)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern of `match` and `search`.

    Raises:
        ArtifactQueryError: The pattern is invalid.
    """
    module: Any = re2
    options = module.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    try:
        return module.compile(_dots_without_newlines(pattern), options)
    except (module.error, UnicodeEncodeError) as error:
        raise ArtifactQueryError(
            f"the pattern {pattern!r} in the path is invalid: {error}. The dialect is RE2 (linear time): "
            "no look-around, no back-references",
            field="path",
        ) from error


def _dots_without_newlines(pattern: str) -> str:
    # In I-Regexp a dot matches neither \n nor \r; in RE2 only \n is excluded.
    parts: list[str] = []
    escaped = in_class = False
    for char in pattern:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "[]":
            in_class = char == "["
        elif char == "." and not in_class:
            parts.append(r"[^\n\r]")
            continue
        parts.append(char)
    return "".join(parts)
