"""Finds out, without the library's help, what a lowered schema no longer says of the original.

Both are walked side by side. Several places of the original may speak of one place of the lowered schema: a reference
that was written out, the parts of an `allOf`. Everything is reported by its path in the original and its keyword.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import unquote

At: TypeAlias = tuple[Any, str]

UNIONS = ("anyOf", "oneOf")
NOTES = {"title", "description", "default", "examples", "example", "deprecated", "$comment"}
ADDED_BY = {
    "type": {"type", "$ref", "true", "enum", "const"},
    "anyOf": {"anyOf", "oneOf", "type", "true", "$ref"},
    "nullable": {"type", "anyOf", "oneOf", "enum", "const", "true", "nullable"},
    "enum": {"const", "enum"},
    "minimum": {"exclusiveMinimum"},
    "maximum": {"exclusiveMaximum"},
    "maxItems": {"items", "prefixItems", "additionalItems"},
    "items": {"items", "prefixItems", "additionalItems"},
    "prefixItems": {"items"},
    "exclusiveMinimum": {"minimum", "exclusiveMinimum"},
    "exclusiveMaximum": {"maximum", "exclusiveMaximum"},
    "$ref": {"$ref"},
    "properties": {"properties", "anyOf", "oneOf"},
}


@dataclass
class Walk:
    """What was found, by path and keyword."""

    original: dict[str, Any]
    lowered: dict[str, Any]
    opened: set[str]
    """Paths of references that were left open."""
    flags_null: bool
    """Whether null is emitted as `nullable`, so that a union of null and one other schema is not a union."""
    changed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    kept: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    added: set[tuple[tuple[str, ...], str]] = field(default_factory=set[tuple[tuple[str, ...], str]])
    """The paths that speak of a place, and a keyword that none of them has."""
    shared: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """What is said together with other places: the sum of them may come back to what one of them said."""
    skipped: bool = False
    """Whether something was not looked at: a tuple emitted as a list, a name that was mapped. What it refers to may be
    emitted there in another way."""
    collapsed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    seen: set[tuple[tuple[str, ...], int]] = field(default_factory=set[tuple[tuple[str, ...], int]])

    def run(self) -> "Walk":
        self.pair([(self.original, "")], self.lowered, frozenset())
        self.kept -= self.changed
        return self

    def pair(self, places: list[At], low: Any, inherited: frozenset[str]) -> None:
        places = [place for place in places if place[0] is not True or self._boolean(place, low)]
        if not places or not is_object(low):
            return
        places = self._spread(places, low)
        key = (tuple(path for _, path in places), id(low))
        if key in self.seen:
            return
        self.seen.add(key)
        low = self._unwrapped(places, low)
        for node, path in places:
            for keyword, value in node.items():
                self._compare(places, path, keyword, value, low)
            if "$ref" in node and "$ref" in low and node["$ref"] != low["$ref"]:
                self.pair(
                    [self._target(self.original, node["$ref"])], self._target(self.lowered, low["$ref"])[0], frozenset()
                )
        self._children(places, low, inherited)
        known = {keyword for node, _ in places for keyword in node}
        for keyword in low:
            if keyword not in known and keyword not in inherited:
                self.added.add((tuple(path for _, path in places), keyword))

    def _boolean(self, place: At, low: Any) -> bool:
        if low is not True:
            self.changed.add((place[1], "true"))
        return False

    def _spread(self, places: list[At], low: dict[str, Any]) -> list[At]:
        spread: list[At] = []
        waiting = list(places)
        while waiting:
            node, path = waiting.pop(0)
            if node is False:
                self.changed.add((path, "false"))
                continue
            if not is_object(node):
                continue
            spread.append((node, path))
            if "$ref" in node and "$ref" not in self._core(low):
                target = self._target(self.original, node["$ref"])
                # A reference that was left open says nothing more of what it leads to than the type.
                if path not in self.opened or (set(target[0]) - {"type", "description"}) & set(low):
                    waiting.insert(0, target)
            if "allOf" in node and "allOf" not in low:
                waiting += [(each, f"{path}/allOf/{index}") for index, each in enumerate(node["allOf"])]
            for union in UNIONS:
                branches = node.get(union, [])
                others = [(each, f"{path}/{union}/{i}") for i, each in enumerate(branches) if not is_null(each)]
                is_lone = not set(node) - NOTES - {union}
                if self.flags_null and is_lone and len(others) == 1 < len(branches):
                    self.collapsed.add((path, union))
                    waiting += others
        return spread

    def _core(self, low: dict[str, Any]) -> dict[str, Any]:
        alternatives = low.get("anyOf")
        if (
            alternatives
            and len(alternatives) == 2
            and alternatives[1] == {"type": "null"}
            and "$ref" in alternatives[0]
        ):
            return alternatives[0]
        return low

    def _unwrapped(self, places: list[At], low: dict[str, Any]) -> dict[str, Any]:
        """Look through `anyOf: [it, null]`, by which an optional property is emitted as one that takes null."""
        alternatives: Any = low.get("anyOf")
        has_union = any(union in node for node, _ in places for union in UNIONS)
        if not has_union and set(low) == {"anyOf"} and len(low["anyOf"]) == 2 and alternatives[1] == {"type": "null"}:
            self.changed.add((places[0][1], "anyOf"))
            return low["anyOf"][0]
        return low

    def _target(self, root: dict[str, Any], reference: str) -> At:
        here: Any = root
        for step in unquote(reference).removeprefix("#").split("/")[1:]:
            here = here[int(step)] if is_array(here) else here[step.replace("~1", "/").replace("~0", "~")]
        return here, unquote(reference).removeprefix("#")

    def _compare(self, places: list[At], path: str, keyword: str, value: Any, low: dict[str, Any]) -> None:
        is_same = keyword in low and self._says(keyword, value, low[keyword]) and (path, keyword) not in self.collapsed
        if keyword == "properties" and is_same and not any(union in node for node, _ in places for union in UNIONS):
            known = {name for node, _ in places for name in node.get("properties", {})}
            is_same = set(low["properties"]) <= known
        (self.kept if is_same else self.changed).add((path, keyword))
        if len(places) > 1:
            self.shared.add((path, keyword))

    def _says(self, keyword: str, value: Any, reported: Any) -> bool:
        if keyword == "description":
            return value in reported
        if keyword in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
            return {name for name, each in value.items() if each is not False} <= set(reported)
        if keyword in ("anyOf", "oneOf", "allOf", "prefixItems") or (keyword == "items" and is_array(value)):
            return is_array(reported) and len(reported) == len(value)
        if is_object(value) and keyword not in ("const", "default", "dependentRequired", "example"):
            return is_object(reported)
        return repr(value) == repr(reported)

    def _children(self, places: list[At], low: dict[str, Any], inherited: frozenset[str]) -> None:
        for keyword in ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"):
            named: dict[str, list[At]] = {}
            for node, path in places:
                for name, inner in node.get(keyword, {}).items():
                    named.setdefault(name, []).append((inner, f"{path}/{keyword}/{escaped(name)}"))
            for name, inner in named.items():
                if name in low.get(keyword, {}):
                    self.pair(inner, low[keyword][name], frozenset())
                elif keyword == "properties":
                    self.skipped = True
                    self.changed |= {(path, "false") for value, path in inner if value is False}
        for keyword in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
            inner = [(node[keyword], f"{path}/{keyword}") for node, path in places if is_object(node.get(keyword))]
            if is_object(low.get(keyword)) and not any("prefixItems" in node for node, _ in places):
                self.pair(inner, low[keyword], frozenset())
        self.skipped |= "prefixItems" not in low and any("prefixItems" in node for node, _ in places)
        for keyword in ("allOf", "prefixItems", *UNIONS):
            self._listed(places, low, keyword, inherited)

    def _listed(self, places: list[At], low: dict[str, Any], keyword: str, inherited: frozenset[str]) -> None:
        is_alone = not any("anyOf" in node for node, _ in places)
        reported = low.get(keyword) or (low.get("anyOf") if keyword == "oneOf" and is_alone else None)
        having = (place for place in places if keyword in place[0] and (place[1], keyword) not in self.collapsed)
        first = next(having, None)
        if first is None or not is_array(reported) or not is_array(first[0][keyword]):
            return
        branches, path = first[0][keyword], first[1]
        possible = [(each, f"{path}/{keyword}/{index}") for index, each in enumerate(branches)]
        if "$schema" not in low and any(each is False for each, _ in possible) and len(reported) < len(branches):
            self.changed |= {(at, "false") for each, at in possible if each is False}
            possible = [(each, at) for each, at in possible if each is not False]
        moved = frozenset(key for other, _ in places for key in other if key not in low and key not in UNIONS)
        if len(reported) - len(possible) not in (0, 1):
            return
        for (each, at), low_each in zip(possible, reported, strict=False):
            self.pair([(each, at)], low_each, inherited | moved | self._moved_along(moved, low))

    def _moved_along(self, moved: frozenset[str], low: dict[str, Any]) -> frozenset[str]:
        """What stands beside a union may move into its alternatives, in a dialect's own words for it."""
        if not moved and set(low) != {"anyOf"}:
            return frozenset()
        return frozenset(("required", "additionalProperties", "description", *ADDED_BY))


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_null(schema: Any) -> bool:
    return is_object(schema) and schema.get("type") == "null"


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
