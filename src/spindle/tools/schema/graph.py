"""JSON Schema as a graph: copying, reference resolution without fetching, and bounds on validation work.

An edge leads from one subschema to another that applies to the same value, or to a value inside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from spindle.errors import InvalidToolError
from spindle.json_types import JsonObject, JsonValue, is_array, is_list_or_tuple, is_mapping, is_object
from spindle.text import extend_pointer, quote_name
from spindle.tools.schema.base import describe_kind

_MAX_DEPTH = 200
_MAX_VALUES = 250_000
_MAX_CHARACTERS = 5_000_000


def copy_schema(schema: Mapping[Any, JsonValue]) -> JsonObject:
    """Copy a schema, so that later changes by the caller have no effect.

    Raises:
        InvalidToolError: The schema is too large or too deep, or contains a non-JSON value.
    """
    return _Copier().copy(schema, "#", _MAX_DEPTH)


def append_pointer(at: str, step: str | int) -> str:
    """Append one step, shortened, to a JSON pointer for a message."""
    return extend_pointer(at, str(step)[:60])


def as_object(value: object) -> JsonObject | None:
    """Return a JSON value if it is an object, else None."""
    return value if is_object(value) else None


def as_list(value: object) -> list[JsonValue]:
    """Return a JSON value if it is a list, else an empty list."""
    return value if is_array(value) else []


def is_encodable(text: str) -> bool:
    """Return whether text has no lone surrogate, which cannot be encoded."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


class _Copier:
    """A copier with limits on size and depth, because a schema that contains itself never ends."""

    def __init__(self) -> None:
        self._values = _MAX_VALUES
        self._characters = _MAX_CHARACTERS

    def copy(self, value: object, at: str, levels: int) -> JsonValue:
        self._spend(values=1)
        if isinstance(value, str):
            return self._copy_text(value, at)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            if not isfinite(value):
                raise _invalid_schema(
                    f"contains NaN or an infinite number at {at}; JSON has neither, use null or leave it out"
                )
            return value
        if levels <= 0:
            raise _invalid_schema(
                f"is nested deeper than {_MAX_DEPTH} levels at {at[:200]}; use $defs and $ref for inner parts"
            )
        if is_mapping(value):
            return self._copy_object(value, at, levels)
        if is_list_or_tuple(value):
            return [self.copy(item, append_pointer(at, i), levels - 1) for i, item in enumerate(value)]
        raise _invalid_schema(
            f"contains {describe_kind(value)} at {at}; use only JSON: objects, lists, text, numbers, booleans, null"
        )

    def _spend(self, *, values: int = 0, characters: int = 0) -> None:
        self._values -= values
        self._characters -= characters
        if self._values < 0 or self._characters < 0:
            limits = f"{_MAX_VALUES:,} values and {_MAX_CHARACTERS:,} characters"
            raise _invalid_schema(
                f"is larger than {limits}; share repeated parts through $defs and $ref, or describe less"
            )

    def _copy_text(self, text: str, at: str) -> str:
        self._spend(characters=len(text))
        if not is_encodable(text):
            raise _invalid_schema(f"contains half of a surrogate pair at {at}; use whole characters")
        return str.__str__(text)

    def _copy_object(self, value: Mapping[object, object], at: str, levels: int) -> JsonObject:
        copied: JsonObject = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise _invalid_schema(f"has {describe_kind(key)} as a key at {at}; in JSON every key is text")
            copied[self._copy_text(key, at)] = self.copy(inner, append_pointer(at, key), levels - 1)
        return copied


def _invalid_schema(reason: str) -> InvalidToolError:
    return InvalidToolError(reason, field="input_schema")


Subschema: TypeAlias = JsonObject

_HERE = {"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"}
_SHELVES = {"$defs", "definitions"}
_MANY = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
_NAMED = {"properties", "patternProperties", "dependentSchemas", "dependencies", *_SHELVES}
_ONE = {
    *("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "additionalItems", "unevaluatedItems", "contains"),
}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DRAFTS = {
    *(f"http://json-schema.org/draft-{number}/schema" for number in ("04", "06", "07")),
    *(f"https://json-schema.org/draft/{date}/schema" for date in ("2019-09", "2020-12")),
}
_META_SCHEMAS = ("https://json-schema.org/draft/", "http://json-schema.org/draft-", "http://json-schema.org/schema")


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one subschema to another."""

    keyword: str
    """The keyword that contains the target, or the reference keyword."""
    name: str | None
    """The property that the target applies to, if it applies to one."""
    target: Subschema
    inside: bool
    """Whether the target applies to a value inside the owner's value instead of to the same value."""


class SchemaGraph:
    """The reachable subschemas of a schema and their edges, with references resolved without fetching."""

    def __init__(self, root: Subschema, *, legacy: bool) -> None:
        self.root = root
        self._legacy = legacy  # drafts up to 7: `$ref` disables its siblings, `$id` may be an anchor
        self._bases: dict[int, str] = {}
        self._places: dict[int, str] = {}
        self._resources: dict[str, Subschema] = {"": root}
        self._anchors: dict[str, Subschema] = {}
        self._dynamic: dict[str, list[Subschema]] = {}
        self._edges: dict[int, tuple[Edge, ...]] = {}
        self._shelve(root, "", "#")
        self.nodes = self._inner_first()
        """All reachable subschemas; those applied to the same value come before the subschema that applies them."""

    def get_pointer(self, node: Subschema) -> str:
        """Return the JSON pointer of a subschema, for error messages."""
        return self._places.get(id(node), "#")

    def edges(self, node: Subschema) -> tuple[Edge, ...]:
        """Return the edges of a subschema: its references and the subschemas it contains.

        Raises:
            InvalidToolError: A reference does not exist, or leads out of the schema.
        """
        known = self._edges.get(id(node))
        if known is None:
            known = self._edges[id(node)] = (*self._references(node), *_iter_applied(node))
        return known

    def _inner_first(self) -> list[Subschema]:
        order: list[Subschema] = []
        is_done: dict[int, bool] = {}
        later = [self.root]
        while later:
            stack = [(later.pop(), False)]
            while stack:
                node, is_left = stack.pop()
                if is_left:
                    is_done[id(node)] = True
                    order.append(node)
                elif id(node) not in is_done:
                    is_done[id(node)] = False
                    stack.append((node, True))
                    for edge in self.edges(node):
                        if edge.inside:
                            later.append(edge.target)
                        elif is_done.get(id(edge.target)) is False:
                            raise self._endless(node, edge.target)
                        else:
                            stack.append((edge.target, False))
        return order

    def _endless(self, node: Subschema, target: Subschema) -> InvalidToolError:
        return _invalid_schema(
            f"refers from {self.get_pointer(node)} back to {self.get_pointer(target)} "
            "for the same value, which never ends; put a property or an item between them, or remove the reference"
        )

    def _shelve(self, start: Subschema, base: str, at: str) -> None:
        """Record the pointer and the base URI of every subschema below `start`."""
        waiting = [(start, base, at)]
        while waiting:
            node, base, at = waiting.pop()
            if id(node) in self._bases:
                continue
            self._places[id(node)] = at
            _check_draft(node, at)
            self._bases[id(node)] = base = self._register_id(node, base)
            for keyword, step, inner in iter_subschemas(node):
                place = append_pointer(at, keyword)
                waiting.append((inner, base, place if step is None else append_pointer(place, step)))

    def _register_id(self, node: Subschema, base: str) -> str:
        """Register the `$id` and anchors of a subschema, and return the base URI inside it."""
        own = node.get("$id")
        if isinstance(own, str) and not (self._legacy and "$ref" in node):
            address, anchor = urldefrag(_join(base, own))
            if anchor and self._legacy:
                self._anchors.setdefault(f"{address}#{anchor}", node)
            if not own.startswith("#"):
                base = address
                self._resources.setdefault(base, node)
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = node.get(keyword)
            if isinstance(name, str):
                self._anchors.setdefault(f"{base}#{name}", node)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(name, []).append(node)
        return base

    def _references(self, node: Subschema) -> Iterator[Edge]:
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if not isinstance(reference, str):
                continue
            target = self._resolve(reference, node)
            targets = [target] if target is not None else []
            if keyword == "$dynamicRef":
                # The target depends on the dynamic scope, so every anchor with that name is possible.
                namesakes = self._dynamic.get(urldefrag(reference)[1], [])
                targets += [each for each in namesakes if each is not target]
            yield from (Edge(keyword, None, each, inside=False) for each in targets)

    def _resolve(self, reference: str, node: Subschema) -> Subschema | None:
        address, fragment = urldefrag(_join(self._bases[id(node)], reference))
        resource = self._resources.get(address)
        if resource is None:
            if address.startswith(_META_SCHEMAS):
                return None
            raise _invalid_schema(
                f"refers to {quote_name(reference)} at {self.get_pointer(node)}, "
                "which is not part of it; references are never "
                "fetched, so copy that schema into $defs and refer to it as '#/$defs/<name>'"
            )
        found = self._anchors.get(f"{address}#{fragment}")
        if found is None and (not fragment or fragment.startswith("/")):
            found = self._follow_pointer(resource, address, fragment)
        if found is None:
            raise _invalid_schema(
                f"refers to {quote_name(reference)} at {self.get_pointer(node)}, "
                "which it does not have; define it there, or "
                "correct the reference"
            )
        return as_object(found)  # a boolean schema has no subschemas

    def _follow_pointer(self, resource: Subschema, address: str, fragment: str) -> JsonValue:
        """Follow a JSON pointer, also to locations that no schema keyword covers."""
        here: JsonValue = resource
        base, at = address, self.get_pointer(resource)
        for raw in fragment.split("/")[1:]:
            step = unquote(raw).replace("~1", "/").replace("~0", "~")
            at = append_pointer(at, step)
            entries = as_object(here) or dict(zip(map(str, range(len(as_list(here)))), as_list(here), strict=True))
            if step not in entries:
                return None
            here = entries[step]
            base = self._bases.get(id(here), base)
        target = as_object(here)
        if target is not None:
            self._shelve(target, base, at)
        return here


def _check_draft(node: Subschema, at: str) -> None:
    draft = node.get("$schema")
    if isinstance(draft, str) and draft.removesuffix("#") not in _DRAFTS:
        known = ", ".join(sorted(_DRAFTS))
        raise _invalid_schema(
            f"names {quote_name(draft)} as $schema at {at}; use one of {known}, or leave it out for draft 2020-12"
        )


def _join(base: str, reference: str) -> str:
    # `urljoin` drops the base of URIs such as `urn:`.
    return f"{urldefrag(base)[0]}{reference}" if reference.startswith("#") else urljoin(base, reference)


def _iter_applied(node: Subschema) -> Iterator[Edge]:
    for keyword, step, inner in iter_subschemas(node):
        if keyword not in _SHELVES:
            name = step if keyword == "properties" else None
            yield Edge(keyword, name, inner, inside=keyword not in _HERE)


def iter_subschemas(node: Subschema) -> Iterator[tuple[str, str | None, Subschema]]:
    """Yield every subschema in `node`, definitions included: its keyword, its name or index, and itself."""
    for keyword, value in node.items():
        inner = as_object(value)
        if inner is not None and keyword in _ONE:
            yield keyword, None, inner
        elif keyword in _MANY or keyword in _NAMED:
            entries = as_object(value) if keyword in _NAMED else dict(enumerate(as_list(value)))
            for step, each in (entries or {}).items():
                inner = as_object(each)
                if inner is not None:
                    yield keyword, str(step), inner


_MAX_HERE = 100_000
_MAX_WORK_DEPTH = 200
_ENOUGH = 10**9
_MAX_WORK_VALUES = 5_000_000


def estimate_work_by_depth(graph: SchemaGraph) -> list[int]:
    """Return, for values nested 0, 1, 2, … levels deep, how many subschemas may apply along one path into them.

    The last entry applies to all deeper values, or exceeds any acceptable amount of work. A validator visits all of
    them while it holds the GIL; twenty references that each double make a million.

    Raises:
        InvalidToolError: Too many subschemas apply to a single value.
    """
    inside = {id(node): _groups(graph, node) for node in graph.nodes}
    before: dict[int, int] = {}
    table: list[int] = []
    for depth in range(_MAX_WORK_DEPTH + 1):
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


def measure_value(value: object) -> tuple[int, int]:
    """Return the number of levels of a value and the number of values in it."""
    levels, values = 0, 0
    level = [value]
    while level and levels <= _MAX_WORK_DEPTH and values <= _MAX_WORK_VALUES:
        values += len(level)
        inner: list[object] = []
        for each in level:
            if is_object(each):
                inner.extend(each.values())
            elif is_list_or_tuple(each):
                inner.extend(each)
        level = inner
        levels += bool(inner)
    return levels, values


def _groups(graph: SchemaGraph, node: Subschema) -> tuple[list[int], list[int]]:
    """Split inner targets into those that may apply to the same inner value and those for one property each."""
    edges = [edge for edge in graph.edges(node) if edge.inside]
    return [id(e.target) for e in edges if e.name is None], [id(e.target) for e in edges if e.name is not None]


def _own(node: Subschema) -> int:
    """Return the cost of a subschema alone: long lists cost in error texts, composite enum options in comparisons."""
    options = as_list(node.get("enum"))
    composite = sum(isinstance(option, (dict, list)) for option in options)
    return 1 + (len(options) + len(as_list(node.get("required")))) // 100 + 10 * composite


def _check(graph: SchemaGraph, now: Mapping[int, int]) -> None:
    for node in graph.nodes:
        if now[id(node)] > _MAX_HERE:
            raise _invalid_schema(
                f"multiplies to more than {_MAX_HERE:,} subschemas "
                f"for one value at {graph.get_pointer(node)}; "
                "refer to each part once instead of repeating references inside allOf, anyOf or oneOf"
            )
