"""A JSON Schema as a graph: which subschemas look at the same value, which at a value inside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from spindle.errors import InvalidToolError
from spindle.tools.problems import quoted
from spindle.tools.raw_copy import as_list, as_object, pointer

Subschema: TypeAlias = dict[str, Any]

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
    """One subschema reached from another."""

    keyword: str
    """The one that holds it, or the reference."""
    name: str | None
    """The property it is for, where it is for one."""
    target: Subschema
    inside: bool
    """It looks at a value inside the one its owner looks at, not at the same."""


class SchemaGraph:
    """Finds every subschema and what each reference means, without fetching anything."""

    def __init__(self, root: Subschema, *, legacy: bool) -> None:
        self.root = root
        self._legacy = legacy  # drafts up to 7: `$ref` silences its neighbours, `$id` may be an anchor
        self._bases: dict[int, str] = {}
        self._places: dict[int, str] = {}
        self._resources: dict[str, Subschema] = {"": root}
        self._anchors: dict[str, Subschema] = {}
        self._dynamic: dict[str, list[Subschema]] = {}
        self._edges: dict[int, tuple[Edge, ...]] = {}
        self._shelve(root, "", "#")
        self.nodes = self._inner_first()
        """All that can be reached; what looks at the same value comes before the one that applies it."""

    def place(self, node: Subschema) -> str:
        """Give the JSON pointer of a subschema, for people."""
        return self._places.get(id(node), "#")

    def edges(self, node: Subschema) -> tuple[Edge, ...]:
        """Give what a subschema looks at, and through which subschemas.

        Raises:
            InvalidToolError: A reference leads nowhere, or out of the schema.
        """
        known = self._edges.get(id(node))
        if known is None:
            known = self._edges[id(node)] = (*self._references(node), *_applied(node))
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
        return _refused(
            f"refers from {self.place(node)} back to {self.place(target)} for the same value, which never ends; put a "
            "property or an item between them, or remove the reference"
        )

    def _shelve(self, start: Subschema, base: str, at: str) -> None:
        """Note the address of every subschema below `start`."""
        waiting = [(start, base, at)]
        while waiting:
            node, base, at = waiting.pop()
            if id(node) in self._bases:
                continue
            self._places[id(node)] = at
            _check_draft(node, at)
            self._bases[id(node)] = base = self._identified(node, base)
            for keyword, step, inner in subschemas(node):
                place = pointer(at, keyword)
                waiting.append((inner, base, place if step is None else pointer(place, step)))

    def _identified(self, node: Subschema, base: str) -> str:
        """Register a subschema's own names, and give the base address that holds inside it."""
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
            target = self._resolved(reference, node)
            targets = [target] if target is not None else []
            if keyword == "$dynamicRef":
                # Which of its namesakes is meant shows only on the way; any of them may be.
                namesakes = self._dynamic.get(urldefrag(reference)[1], [])
                targets += [each for each in namesakes if each is not target]
            yield from (Edge(keyword, None, each, inside=False) for each in targets)

    def _resolved(self, reference: str, node: Subschema) -> Subschema | None:
        address, fragment = urldefrag(_join(self._bases[id(node)], reference))
        resource = self._resources.get(address)
        if resource is None:
            if address.startswith(_META_SCHEMAS):
                return None
            raise _refused(
                f"refers to {quoted(reference)} at {self.place(node)}, which is not part of it; references are never "
                "fetched, so copy that schema into $defs and refer to it as '#/$defs/<name>'"
            )
        found = self._anchors.get(f"{address}#{fragment}")
        if found is None and (not fragment or fragment.startswith("/")):
            found = self._pointed(resource, address, fragment)
        if found is None:
            raise _refused(
                f"refers to {quoted(reference)} at {self.place(node)}, which it does not have; define it there, or "
                "correct the reference"
            )
        return as_object(found)  # a boolean has nothing further inside

    def _pointed(self, resource: Subschema, address: str, fragment: str) -> Any:
        """Follow a JSON pointer, also to where no keyword keeps a schema."""
        here: Any = resource
        base, at = address, self.place(resource)
        for raw in fragment.split("/")[1:]:
            step = unquote(raw).replace("~1", "/").replace("~0", "~")
            at = pointer(at, step)
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
        raise _refused(
            f"names {quoted(draft)} as $schema at {at}; use one of {known}, or leave it out for the last one"
        )


def _join(base: str, reference: str) -> str:
    # Python's own join does not keep the base of addresses such as `urn:`.
    return f"{urldefrag(base)[0]}{reference}" if reference.startswith("#") else urljoin(base, reference)


def _applied(node: Subschema) -> Iterator[Edge]:
    for keyword, step, inner in subschemas(node):
        if keyword not in _SHELVES:
            name = step if keyword == "properties" else None
            yield Edge(keyword, name, inner, inside=keyword not in _HERE)


def subschemas(node: Subschema) -> Iterator[tuple[str, str | None, Subschema]]:
    """Give every subschema that `node` holds, applied or only kept: its keyword, its name or index, itself."""
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


def _refused(reason: str) -> InvalidToolError:
    return InvalidToolError(reason, field="input_schema")
