"""A tool's own schema, place by place: what each subschema says in today's words, and where its references lead."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import quote, unquote

from spindle.bridges.losses import pointer
from spindle.tools.raw_copy import as_list, as_object
from spindle.tools.raw_graph import SchemaGraph

if TYPE_CHECKING:
    # For its types alone: it is slow to import, and most tools never need it here.
    from jsonschema_rs import Registry, Validator

Place: TypeAlias = tuple[Any, str]
"""A subschema (or a boolean) and its JSON pointer."""

ONE = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedProperties", "unevaluatedItems", "additionalItems", "contentSchema"),
)
MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas")
SHELVES = ("$defs", "definitions")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
ADDRESSES = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
NOTES = ("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment")
"""What demands nothing of a value."""

_LEGACY = ("http://json-schema.org/draft-04/", "http://json-schema.org/draft-06/", "http://json-schema.org/draft-07/")
_ROOT = "urn:spindle:schema"


@dataclass(frozen=True, slots=True)
class Part:
    """One subschema that a value must satisfy."""

    schema: Mapping[str, Any]
    """In the words of draft 2020-12."""
    path: str
    written: Mapping[str, Any]
    """As the tool has it."""
    alias: Mapping[str, str] = field(default_factory=dict[str, str])
    """The tool's own word for a keyword, where it is another one."""

    def at(self, keyword: str, *steps: str | int) -> str:
        """Point at something inside a keyword, in the tool's own schema."""
        return pointer(self.path, self.alias.get(keyword, keyword), *steps)

    def without(self, *keywords: str) -> "Part":
        """Give the part as if it did not have some keywords."""
        if not any(keyword in self.written for keyword in keywords):
            return self
        kept = {keyword: value for keyword, value in self.schema.items() if keyword not in keywords}
        written = {keyword: value for keyword, value in self.written.items() if keyword not in keywords}
        return Part(kept, self.path, written, self.alias)

    def child(self, keyword: str) -> Place:
        """Give the subschema that a keyword holds."""
        return self.schema[keyword], self.at(keyword)

    def children(self, keyword: str) -> list[Place]:
        """Give the subschemas that a keyword lists."""
        return [(each, self.at(keyword, index)) for index, each in enumerate(as_list(self.schema.get(keyword)))]

    def named(self, keyword: str) -> dict[str, Place]:
        """Give the subschemas that a keyword names."""
        named = as_object(self.schema.get(keyword)) or {}
        return {name: (each, self.at(keyword, name)) for name, each in named.items()}


class Original:
    """A tool's schema as it was written, and what can be asked about it."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.is_legacy = str(root.get("$schema")).startswith(_LEGACY)
        self._paths: dict[int, str] = {}

    @cached_property
    def _graph(self) -> SchemaGraph:
        graph = SchemaGraph(self.root, legacy=self.is_legacy)
        for value, path in places(self.root):
            self._paths.setdefault(id(value), path)
        return graph

    def part(self, schema: dict[str, Any], path: str) -> Part:
        """Give a subschema in today's words."""
        return _modern(schema, path) if self.is_legacy or "dependencies" in schema else Part(schema, path, schema)

    def target(self, part: Part, keyword: str) -> Place | None:
        """Follow a reference; `None` where it is not one place of this schema that it leads to."""
        reference = str(part.schema[keyword])
        if keyword == "$ref" and (reference == "#" or reference.startswith("#/")) and not self._has_addresses:
            path = unquote(reference[1:])
            schema = self._at(path)
            return None if schema is None else (schema, path)
        node = cast("dict[str, Any]", part.written)
        targets = [edge.target for edge in self._graph.edges(self._own(node, part.path)) if edge.keyword == keyword]
        if len(targets) != 1:
            return None
        path = self._paths.get(id(targets[0]))
        return None if path is None else (targets[0], path)

    @cached_property
    def property_names(self) -> frozenset[str]:
        """Every name that is a property's anywhere in the schema."""
        found = (as_object(value.get("properties")) or {} for value, _ in places(self.root))
        return frozenset(name for names in found for name in names)

    @cached_property
    def _has_addresses(self) -> bool:
        """Whether a subschema has an address of its own, so that references inside it may lead elsewhere."""
        return any("$id" in value for value, _ in places(self.root))

    def _own(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        """Give the very object of the schema: a graph knows subschemas by identity, and parts may be copies."""
        return node if id(node) in self._paths else self._at(path) or {}

    def _at(self, path: str) -> dict[str, Any] | None:
        here: Any = self.root
        for step in path.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            listed, named = listing(here), as_object(here)
            if listed is not None and key.isdecimal() and int(key) < len(listed):
                here = listed[int(key)]
            elif named is not None and key in named:
                here = named[key]
            else:
                return None
        return as_object(here)

    def properties_at(self, place: Place) -> dict[str, Place]:
        """Give every property that a subschema speaks of, through references, parts and alternatives."""
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
        import jsonschema_rs  # noqa: PLC0415 - slow to import, and most tools never need it here

        return jsonschema_rs.Registry([(_ROOT, self.root)])

    def validator(self, path: str) -> "Validator":
        """Compile one place of the schema."""
        import jsonschema_rs  # noqa: PLC0415 - slow to import, and most tools never need it here

        schema = {"$ref": f"{_ROOT}#{quote(path, safe='/~')}"}
        return jsonschema_rs.validator_for(schema, registry=self._registry, validate_formats=False, offline=True)

    def takes_null(self, value: Any, path: str) -> bool:
        """Say whether a place of the schema is satisfied by null."""
        schema = as_object(value)
        if schema is None:
            return value is not False
        types = schema.get("type")
        if types is not None and "$ref" not in schema and "null" not in (as_list(types) or [types]):
            return False
        return self.validator(path).is_valid(None)


def listing(value: object) -> list[Any] | None:
    """Take a JSON value for a list, if it is one."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def places(root: dict[str, Any]) -> Iterator[Place]:
    """Walk every place where JSON Schema keeps a subschema, and every other object, for a reference may lead there."""
    waiting: list[Place] = [(root, "")]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, dict):
            yield value, path
            waiting += [(inner, pointer(path, key)) for key, inner in cast("dict[str, Any]", value).items()]
        elif isinstance(value, list):
            waiting += [(inner, pointer(path, index)) for index, inner in enumerate(cast("list[Any]", value))]


def _modern(written: dict[str, Any], path: str) -> Part:
    """Put a subschema of an older draft into the words of 2020-12."""
    schema = dict(written)
    alias: dict[str, str] = {}
    if "$ref" in schema:  # up to draft 7, a reference silences all that demands something beside it
        schema = {key: value for key, value in schema.items() if key in ("$ref", *SHELVES, *NOTES, *ADDRESSES)}
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
