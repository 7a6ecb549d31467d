"""How much work a JSON Schema can make of one value, worked out before any value is tried."""

from collections.abc import Mapping
from typing import Any, cast

from spindle.errors import InvalidToolError
from spindle.tools.raw_copy import as_list
from spindle.tools.raw_graph import SchemaGraph, Subschema

_MAX_HERE = 100_000
_MAX_DEPTH = 200
_ENOUGH = 10**9
_MAX_VALUES = 5_000_000


def work_by_depth(graph: SchemaGraph) -> list[int]:
    """Give, for values nested 0, 1, 2, … levels deep, how many subschemas may look along one line into them.

    The last entry holds for all deeper values, or is more than anyone should wait for. A validator goes through all of
    them, holding the interpreter's lock; twenty references that double make a million.

    Raises:
        InvalidToolError: The subschemas for one value alone are too many.
    """
    inside = {id(node): _groups(graph, node) for node in graph.nodes}
    before: dict[int, int] = {}
    table: list[int] = []
    for depth in range(_MAX_DEPTH + 1):
        now: dict[int, int] = {}
        for node in graph.nodes:
            here = sum(now[id(edge.target)] for edge in graph.edges(node) if not edge.inside)
            shared, named = inside[id(node)]
            deeper = sum(before.get(each, 0) for each in shared) + max(
                (before.get(each, 0) for each in named), default=0
            )
            now[id(node)] = min(_own(node) + here + deeper, _ENOUGH)
        if depth == 0:
            _check(graph, now)
        table.append(now[id(graph.root)])
        if now == before or table[-1] >= _ENOUGH:
            break
        before = now
    return table


def size_of(value: object) -> tuple[int, int]:
    """Count the levels of a value, and the values in it."""
    levels, values = 0, 0
    level: list[Any] = [value]
    while level and levels <= _MAX_DEPTH and values <= _MAX_VALUES:
        values += len(level)
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(cast("dict[Any, Any]", each).values())
            elif isinstance(each, (list, tuple)):
                inner.extend(cast("list[Any]", each))
        level = inner
        levels += bool(inner)
    return levels, values


def _groups(graph: SchemaGraph, node: Subschema) -> tuple[list[int], list[int]]:
    """Split what looks inside: what may meet in one inner value, and what each has a property of its own."""
    edges = [edge for edge in graph.edges(node) if edge.inside]
    return [id(e.target) for e in edges if e.name is None], [id(e.target) for e in edges if e.name is not None]


def _own(node: Subschema) -> int:
    """Weigh a subschema alone: long lists cost when they are told, and options that are no scalars when compared."""
    options = as_list(node.get("enum"))
    composite = sum(isinstance(option, (dict, list)) for option in options)
    return 1 + (len(options) + len(as_list(node.get("required")))) // 100 + 10 * composite


def _check(graph: SchemaGraph, now: Mapping[int, int]) -> None:
    for node in graph.nodes:
        if now[id(node)] > _MAX_HERE:
            raise _refused(
                f"multiplies to more than {_MAX_HERE:,} subschemas for one value at {graph.place(node)}; refer to each "
                "part once instead of repeating references inside allOf, anyOf or oneOf"
            )


def _refused(reason: str) -> InvalidToolError:
    return InvalidToolError(reason, field="input_schema")
