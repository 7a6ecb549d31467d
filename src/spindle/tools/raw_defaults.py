"""Fills in what a JSON Schema says is there when nothing is given."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from spindle.tools.raw_copy import as_list, as_object
from spindle.tools.raw_graph import SchemaGraph, Subschema

_Nodes: TypeAlias = tuple[Subschema, ...]
_NOTHING: Any = object()
_SAME_VALUE = ("$ref", "allOf")  # what certainly holds; never a branch of anyOf, oneOf, not or if
_INNER = frozenset(("properties", "additionalProperties", "items", "prefixItems", "additionalItems"))


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a subschema, with all it refers to, says about the inside of a value."""

    properties: dict[str, _Nodes]
    others: _Nodes
    """For the properties that have no subschema of their own."""
    first_items: tuple[_Nodes, ...]
    items: _Nodes


class Defaults:
    """Applies the defaults of one schema."""

    def __init__(self, graph: SchemaGraph) -> None:
        self._graph = graph
        self._defaults = self._nearest_defaults()
        self._fruitful = self._with_defaults_inside()
        self._shapes: dict[int, _Shape] = {}

    @property
    def any(self) -> bool:
        """Whether the schema can fill in anything at all."""
        return id(self._graph.root) in self._fruitful

    def applied(self, value: dict[str, Any]) -> dict[str, Any]:
        """Give the value with defaults filled in, to any depth; what was given stays untouched."""
        return self._completed(value, (self._graph.root,))

    def _completed(self, value: Any, nodes: _Nodes) -> Any:
        shapes = [self._shape(node) for node in _distinct(nodes) if id(node) in self._fruitful]
        if not shapes:
            return value
        if isinstance(value, dict):
            return self._completed_object({**cast("dict[str, Any]", value)}, shapes)
        if isinstance(value, (list, tuple)):
            items = cast("list[Any]", value)
            return [self._completed(item, _at(shapes, index)) for index, item in enumerate(items)]
        return value

    def _completed_object(self, value: dict[str, Any], shapes: list[_Shape]) -> dict[str, Any]:
        for shape in shapes:
            for name, nodes in shape.properties.items():
                if name not in value:
                    default = self._default(nodes)
                    if default is not _NOTHING:
                        value[name] = deepcopy(default)
        for name, inner in value.items():
            nodes = tuple(node for shape in shapes for node in shape.properties.get(name, shape.others))
            if nodes:
                value[name] = self._completed(inner, nodes)
        return value

    def _default(self, nodes: _Nodes) -> Any:
        return next((self._defaults[id(node)] for node in nodes if id(node) in self._defaults), _NOTHING)

    def _nearest_defaults(self) -> dict[int, Any]:
        """Find each subschema's default: its own, or that of what it refers to."""
        found: dict[int, Any] = {}
        for node in self._graph.nodes:
            same = (id(edge.target) for edge in self._graph.edges(node) if edge.keyword in _SAME_VALUE)
            if "default" in node:
                found[id(node)] = node["default"]
            else:
                inherited = next((each for each in same if each in found), None)
                if inherited is not None:
                    found[id(node)] = found[inherited]
        return found

    def _spread(self, node: Subschema) -> list[Subschema]:
        """Give a subschema and all that hold for the same value with it, nearest first."""
        found: dict[int, Subschema] = {}
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if id(each) not in found:
                found[id(each)] = each
                edges = self._graph.edges(each)
                waiting.extend(edge.target for edge in reversed(edges) if edge.keyword in _SAME_VALUE)
        return list(found.values())

    def _shape(self, node: Subschema) -> _Shape:
        known = self._shapes.get(id(node))
        if known is None:
            known = self._shapes[id(node)] = _shape_of(self._spread(node))
        return known

    def _with_defaults_inside(self) -> set[int]:
        """Find the subschemas under which a property has a default; the others need no visit."""
        owners: dict[int, list[Subschema]] = {}
        fruitful: set[int] = set()
        waiting: list[Subschema] = []
        for node in self._graph.nodes:
            for edge in self._graph.edges(node):
                if edge.keyword in _SAME_VALUE or edge.keyword in _INNER:
                    owners.setdefault(id(edge.target), []).append(node)
                if edge.keyword == "properties" and self._default((edge.target,)) is not _NOTHING:
                    waiting.append(node)
        while waiting:
            node = waiting.pop()
            if id(node) not in fruitful:
                fruitful.add(id(node))
                waiting.extend(owners.get(id(node), ()))
        return fruitful


def _shape_of(spread: list[Subschema]) -> _Shape:
    properties: dict[str, _Nodes] = {}
    others: _Nodes = ()
    first_items: list[_Nodes] = []
    items: _Nodes = ()
    for node in spread:
        for name, each in (as_object(node.get("properties")) or {}).items():
            properties[name] = properties.get(name, ()) + _one(each)
        if "patternProperties" not in node:
            others += _one(node.get("additionalProperties"))
        prefix = as_list(node.get("prefixItems")) or as_list(node.get("items"))
        for index, each in enumerate(prefix):
            first_items[index : index + 1] = [(first_items[index] if index < len(first_items) else ()) + _one(each)]
        items += _one(node.get("additionalItems" if as_list(node.get("items")) else "items"))
    return _Shape(properties, others, tuple(first_items), items)


def _one(value: object) -> _Nodes:
    node = as_object(value)
    return () if node is None else (node,)


def _at(shapes: list[_Shape], index: int) -> _Nodes:
    return tuple(
        node
        for shape in shapes
        for node in (shape.first_items[index] if index < len(shape.first_items) else shape.items)
    )


def _distinct(nodes: _Nodes) -> list[Subschema]:
    return list({id(node): node for node in nodes}.values())
