"""A tool's source schema: its subschemas in draft 2020-12 form, and the resolution of references."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote

from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.restore import Shape
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import extend_pointer
from spindle.tools.schema.graph import SchemaGraph, as_list, as_object

if TYPE_CHECKING:
    # For types only: slow to import, rarely needed.
    from jsonschema_rs import Registry, Validator


Place: TypeAlias = tuple[JsonValue, str]
"""A subschema (or a boolean) and its JSON pointer."""

SINGLE_KEYWORDS = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedProperties", "unevaluatedItems", "additionalItems", "contentSchema"),
)
LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas")
DEFINITION_KEYWORDS = ("$defs", "definitions")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
IDENTIFIERS = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
ANNOTATIONS = (
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
)
"""Annotations: keywords that constrain no value."""

_LEGACY = ("http://json-schema.org/draft-04/", "http://json-schema.org/draft-06/", "http://json-schema.org/draft-07/")
_ROOT = "urn:spindle:schema"


@dataclass(frozen=True, slots=True)
class Part:
    """One subschema that a value must satisfy."""

    schema: Mapping[str, JsonValue]
    """In the keywords of draft 2020-12."""
    path: str
    written: JsonObject
    """As written in the tool's schema."""
    alias: Mapping[str, str] = field(default_factory=dict[str, str])
    """The tool's own keyword for each converted keyword."""

    def at(self, keyword: str, *steps: str | int) -> str:
        """Return the JSON pointer to a location inside a keyword, in the tool's own schema."""
        return extend_pointer(self.path, self.alias.get(keyword, keyword), *steps)

    def without(self, *keywords: str) -> "Part":
        """Return the part without some keywords."""
        if not any(keyword in self.written for keyword in keywords):
            return self
        remaining = {keyword: value for keyword, value in self.schema.items() if keyword not in keywords}
        written = {keyword: value for keyword, value in self.written.items() if keyword not in keywords}
        return Part(remaining, self.path, written, self.alias)

    def child(self, keyword: str) -> Place:
        """Return the subschema of a keyword."""
        return self.schema[keyword], self.at(keyword)

    def children(self, keyword: str) -> list[Place]:
        """Return the subschemas that a keyword lists."""
        return [(each, self.at(keyword, index)) for index, each in enumerate(as_list(self.schema.get(keyword)))]

    def named(self, keyword: str) -> dict[str, Place]:
        """Return the subschemas of a keyword by name."""
        named = as_object(self.schema.get(keyword)) or {}
        return {name: (each, self.at(keyword, name)) for name, each in named.items()}


class SourceSchema:
    """A tool's schema as written, with lookups."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.is_legacy = str(root.get("$schema")).startswith(_LEGACY)
        self._paths: dict[int, str] = {}

    @cached_property
    def _graph(self) -> SchemaGraph:
        graph = SchemaGraph(self.root, legacy=self.is_legacy)
        for value, path in places(self.root):
            self._paths.setdefault(id(value), path)
        return graph

    def part(self, schema: JsonObject, path: str) -> Part:
        """Return a subschema in the keywords of draft 2020-12."""
        return _modern(schema, path) if self.is_legacy or "dependencies" in schema else Part(schema, path, schema)

    def target(self, part: Part, keyword: str) -> Place | None:
        """Resolve a reference; `None` if it does not lead to a single place of this schema."""
        reference = str(part.schema[keyword])
        if keyword == "$ref" and (reference == "#" or reference.startswith("#/")) and not self._has_addresses:
            path = unquote(reference[1:])
            schema = self._at(path)
            return None if schema is None else (schema, path)
        node = self._own(part.written, part.path)
        targets = [edge.target for edge in self._graph.edges(node) if edge.keyword == keyword]
        if len(targets) != 1:
            return None
        path = self._paths.get(id(targets[0]))
        return None if path is None else (targets[0], path)

    @cached_property
    def property_names(self) -> frozenset[str]:
        """Every property name anywhere in the schema."""
        found = (as_object(value.get("properties")) or {} for value, _ in places(self.root))
        return frozenset(name for names in found for name in names)

    @cached_property
    def _has_addresses(self) -> bool:
        """Whether a subschema has an `$id`, so that references inside it may lead elsewhere."""
        return any("$id" in value for value, _ in places(self.root))

    def _own(self, node: JsonObject, path: str) -> JsonObject:
        """Return the original object at a path: the graph compares by identity, and parts may be copies."""
        return node if id(node) in self._paths else self._at(path) or {}

    def _at(self, path: str) -> JsonObject | None:
        here: JsonValue = self.root
        for step in path.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            listed, named = to_list(here), as_object(here)
            if listed is not None and key.isdecimal() and int(key) < len(listed):
                here = listed[int(key)]
            elif named is not None and key in named:
                here = named[key]
            else:
                return None
        return as_object(here)

    def properties_at(self, place: Place) -> dict[str, Place]:
        """Return every property that a subschema mentions, through references, parts and alternatives."""
        found: dict[str, Place] = {}
        seen: set[int] = set()
        waiting = [place]
        while waiting:
            schema, path = waiting.pop(0)
            node = as_object(schema)
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            part = self.part(node, path)
            for name, inner in part.named("properties").items():
                found.setdefault(name, inner)
            targets = [self.target(part, keyword) for keyword in REFERENCES if keyword in part.schema]
            waiting += [target for target in targets if target is not None]
            waiting += [inner for keyword in ("allOf", "anyOf", "oneOf") for inner in part.children(keyword)]
        return found

    @cached_property
    def _registry(self) -> "Registry":
        import jsonschema_rs  # noqa: PLC0415  slow to import, rarely needed

        return jsonschema_rs.Registry([(_ROOT, self.root)])

    def validator(self, path: str) -> "Validator":
        """Compile a validator for one path of the schema."""
        import jsonschema_rs  # noqa: PLC0415  slow to import, rarely needed

        schema = {"$ref": f"{_ROOT}#{quote(path, safe='/~')}"}
        return jsonschema_rs.validator_for(schema, registry=self._registry, validate_formats=False, offline=True)

    def accepts_null(self, value: JsonValue, path: str) -> bool:
        """Return whether a place of the schema accepts null."""
        schema = as_object(value)
        if schema is None:
            return value is not False
        types = schema.get("type")
        if types is not None and "$ref" not in schema and "null" not in (as_list(types) or [types]):
            return False
        return self.validator(path).is_valid(None)


def to_list(value: object) -> list[JsonValue] | None:
    """Return a JSON value if it is a list, else `None`."""
    return value if is_array(value) else None


def places(root: JsonObject) -> Iterator[Place]:
    """Yield every object in the schema with its path: a reference may lead to any of them."""
    waiting: list[Place] = [(root, "")]
    while waiting:
        value, path = waiting.pop()
        if is_object(value):
            yield value, path
            waiting += [(inner, extend_pointer(path, key)) for key, inner in value.items()]
        elif is_array(value):
            waiting += [(inner, extend_pointer(path, index)) for index, inner in enumerate(value)]


def _modern(written: JsonObject, path: str) -> Part:
    """Convert a subschema of an older draft to draft 2020-12."""
    schema = dict(written)
    alias: dict[str, str] = {}
    if "$ref" in schema:  # up to draft 7, constraints beside a reference are ignored
        schema = {
            key: value
            for key, value in schema.items()
            if key in ("$ref", *DEFINITION_KEYWORDS, *ANNOTATIONS, *IDENTIFIERS)
        }
    if isinstance(schema.get("items"), list):
        schema["prefixItems"], alias["prefixItems"] = schema.pop("items"), "items"
        if "additionalItems" in schema:
            schema["items"], alias["items"] = schema.pop("additionalItems"), "additionalItems"
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    dependencies = as_object(schema.pop("dependencies", None)) or {}
    for name, needed in dependencies.items():
        keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        schema[keyword] = {**schema.get(keyword, {}), name: needed}
        alias[keyword] = "dependencies"
    return Part(schema, path, written, alias)


_LEGAL = "/~!$&'()*+,;=:@?"
"""Characters allowed in a URI fragment beside letters and digits."""
_ROUNDS = 2
"""How often a recursive reference is inlined."""
_MAX_WRITTEN_OUT = 2_000
"""Maximum number of references of one schema that are inlined; the rest is left open."""


class References:
    """The references of one schema and the definitions they lead to."""

    def __init__(self, original: SourceSchema, rules: Rules) -> None:
        self._rules = rules
        self._addresses: dict[int, str] = {id(original.root): "#"}
        self._paths: dict[str, str] = {"#": ""}
        self._taken: set[str] = set(original.root.get("$defs") or ())
        self._written_out = 0
        self._open: Counter[int] = Counter()
        self._leads: dict[str, set[str]] = {}
        self.owner = "#"
        """The address of the definition that is being lowered."""
        self.waiting: deque[tuple[str, Place]] = deque()
        self.shapes: dict[str, Shape | None] = {}
        self.definitions: dict[str, JsonObject] = {}

    def is_kept(self, part: Part, keyword: str, target: Place, *, alone: bool) -> bool:
        """Return whether a reference is kept; `alone` means that no other subschema constrains the same value."""
        if self._rules.inline or keyword != "$ref":
            return False
        if not alone or not has_siblings(part, keyword):
            return alone
        # Inlining expresses the sibling keywords best, but would never end for a recursive reference.
        return not self._rules.lone_refs or self._is_inside(target)

    def _is_inside(self, target: Place) -> bool:
        return self._open[id(target[0])] > 0 or self._addresses.get(id(target[0])) == self.owner

    def address(self, target: Place, written: str) -> str:
        """Return the text of a reference to `target`, as `written` if possible, and queue the target for lowering."""
        schema, path = target
        known = self._addresses.get(id(schema))
        if known is None:
            at = extend_pointer("", *self._find_definition_keys(path))
            known = written if unquote(written) == f"#{at}" else f"#{quote(at, safe=_LEGAL)}"
            self._addresses[id(schema)] = known
            self.waiting.append((known, target))
            self._paths[known] = path
        self._leads.setdefault(self.owner, set()).add(known)
        return known

    def _find_definition_keys(self, path: str) -> tuple[str, str]:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
        if len(steps) == 2 and steps[0] in DEFINITION_KEYWORDS:
            return steps[0], steps[1]
        name = base = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in steps[-1])
        number = 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return "$defs", name

    def store(self, address: str, lowered: JsonValue, shape: Shape | None) -> None:
        """Store a lowered definition."""
        shelf, name = (step.replace("~1", "/").replace("~0", "~") for step in unquote(address).split("/")[1:])
        self.definitions.setdefault(shelf, {})[name] = lowered
        self.shapes[address] = shape

    def enter(self, target: Place) -> str | None:
        """Start inlining a reference; return the reason if it must be left open instead."""
        if self._open[id(target[0])] >= _ROUNDS:
            return "recursive: inlined a few times, then left open"
        if self._written_out >= _MAX_WRITTEN_OUT:
            return "too large to inline further: left open"
        self._written_out += 1
        self._open[id(target[0])] += 1
        return None

    def leave(self, target: Place) -> None:
        """End the inlining started by `enter`."""
        self._open[id(target[0])] -= 1

    def find_recursion(self) -> str | None:
        """Return the path of a recursive definition, if there is one."""
        for start in self._leads:
            seen: set[str] = set()
            waiting = list(self._leads[start])
            while waiting:
                here = waiting.pop()
                if here == start:
                    return self._paths[start]
                if here not in seen:
                    seen.add(here)
                    waiting += self._leads.get(here, ())
        return None


def has_siblings(part: Part, keyword: str) -> bool:
    """Return whether a reference has sibling keywords."""
    return any(other not in (keyword, *DEFINITION_KEYWORDS, "$comment") for other in part.schema)


def get_constraints(part: Part, *besides: str) -> list[str]:
    """Return the keywords of a part that constrain a value."""
    return [keyword for keyword in part.schema if keyword not in (*ANNOTATIONS, *DEFINITION_KEYWORDS, *besides)]
