"""Roles of arguments in a JSON Schema: where annotated types declare them, and which paths a schema has.

Pydantic writes the role of an annotated type into its JSON Schema. It is removed before a model sees the schema.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from spindle.json_types import JsonObject, JsonValue
from spindle.tools.schema.graph import SchemaGraph, Subschema, as_list, as_object, iter_subschemas
from spindle.trust.flow.roles import ROLE_KEY, Content, Free, Ref, Role, Setting, Target, read_role

Path: TypeAlias = tuple[str, ...]

_STRICTEST_FIRST: Final = (Target, Ref, Setting, Content, Free)
_MAX_VISITS: Final = 5_000
_MAX_DEPTH: Final = 32
_MAX_REPEATS: Final = 2
"""How often a recursive type is unrolled into paths."""


def take_roles(schema: JsonObject) -> dict[str, Role]:
    """Remove the roles in the schema of an annotated type, and return them by dotted path; `*` stands for items.

    If the types of a union declare different roles for one path, the strictest counts.
    """
    if not any(ROLE_KEY in node for node in iter_all_subschemas(schema)):
        return {}
    roles = _RoleWalk(schema).find_roles()
    remove_roles(schema)
    return roles


def remove_roles(schema: JsonObject) -> None:
    """Remove the roles in a schema that a library made from annotated types."""
    for node in list(iter_all_subschemas(schema)):
        names = as_object(node.get("propertyNames"))
        if names is not None and names.pop(ROLE_KEY, None) is not None and names in ({}, {"type": "string"}):
            del node["propertyNames"]  # pydantic wrote it for the role alone
        node.pop(ROLE_KEY, None)


def iter_all_subschemas(schema: JsonObject) -> Iterator[Subschema]:
    """Yield a schema and every subschema in it, definitions included."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(inner for _, _, inner in iter_subschemas(node))


class _RoleWalk:
    """Finds the roles of a schema by path."""

    def __init__(self, schema: JsonObject) -> None:
        self._graph = SchemaGraph(schema, legacy=False)
        self._declared: dict[Path, list[Role]] = {}
        self._undeclared: list[tuple[Path, Role]] = []
        """Values without a role, and what they count as."""
        self._cut: list[Path] = []
        """Where a recursive or very large type was not followed."""

    def find_roles(self) -> dict[str, Role]:
        waiting: list[tuple[Subschema, Path, bool, tuple[int, ...]]] = [(self._graph.root, (), False, ())]
        visits = 0
        while waiting:
            node, path, is_covered, trail = waiting.pop()
            visits += 1
            if visits > _MAX_VISITS or len(path) > _MAX_DEPTH or trail.count(id(node)) >= _MAX_REPEATS:
                self._cut.append(path[:_MAX_DEPTH])
                continue
            is_covered = self._read(node, path) or is_covered
            edges = self._graph.edges(node)
            if not edges and not is_covered and node.get("type") != "null":
                self._undeclared.append((path, Target() if _may_be_text(node) else Setting()))
            for edge in reversed(edges):
                inner = (*path, edge.name or "*") if edge.inside else path
                waiting.append((edge.target, inner, is_covered, (*trail, id(node))))
        return self._merge()

    def _read(self, node: Subschema, path: Path) -> bool:
        if ROLE_KEY not in node or not path:
            return False
        self._declared.setdefault(path, []).append(read_role(node[ROLE_KEY]))
        return True

    def _merge(self) -> dict[str, Role]:
        found = {path: list(roles) for path, roles in self._declared.items()}
        # A declared path also covers what is inside it, so another type of the same union needs a role of its own.
        for path, role in self._undeclared:
            if any(path[:end] in self._declared for end in range(1, len(path) + 1)):
                found.setdefault(path, []).append(role)
        if any(isinstance(role, Target) for roles in self._declared.values() for role in roles):
            for path in self._cut:
                found.setdefault(path, [Target()])
        return {".".join(path): min(roles, key=_get_rank) for path, roles in found.items() if path}


def _get_rank(role: Role) -> int:
    return _STRICTEST_FIRST.index(type(role))


def _may_be_text(node: Subschema) -> bool:
    kinds = as_list(node.get("type")) or [node.get("type", "string")]
    return "string" in kinds


_LEGACY: Final = "http://json-schema.org/draft-0"
"""How the names of drafts 4 to 7 begin."""


def find_unknown_path(schema: JsonObject, paths: Mapping[str, object]) -> tuple[str, list[str]] | None:
    """Return the first path that is not an argument of the schema, and the paths that are known instead."""
    graph = SchemaGraph(schema, legacy=str(schema.get("$schema")).startswith(_LEGACY))
    for path in paths:
        known = _list_known(graph, tuple(path.split(".")))
        if known is not None:
            return path, known
    return None


def _list_known(graph: SchemaGraph, steps: Path) -> list[str] | None:
    """Follow a path; return `None` if the schema has it, else the paths where it ends."""
    nodes: list[Subschema] = [graph.root]
    for at, step in enumerate(steps):
        nodes = _spread(graph, nodes)
        edges = [edge for node in nodes for edge in graph.edges(node) if edge.inside]
        inner = [edge.target for edge in edges if step == (edge.name or "*") or edge.keyword in _ANY_NAME]
        if not inner:
            if any(_is_open(graph, node, is_root=at == 0) for node in nodes):
                return None
            names = dict.fromkeys(edge.name or "*" for edge in edges)
            # A boolean schema is not a subschema with edges, but its property is an argument.
            names |= dict.fromkeys(name for node in nodes for name in _get_properties(node))
            return None if step in names else [".".join((*steps[:at], name)) for name in names]
        nodes = inner
    return None


_ANY_NAME: Final = frozenset(("additionalProperties", "patternProperties", "unevaluatedProperties"))


def _spread(graph: SchemaGraph, nodes: list[Subschema]) -> list[Subschema]:
    """Return the subschemas that may apply to the same value as these."""
    found: dict[int, Subschema] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting.extend(edge.target for edge in graph.edges(node) if not edge.inside)
    return list(found.values())


def _is_open(graph: SchemaGraph, node: Subschema, *, is_root: bool) -> bool:
    """Return whether a value may have parts that the schema does not describe."""
    if node.get("additionalProperties") is True:
        return True
    kinds = as_list(node.get("type")) or [node.get("type", "object")]
    return not is_root and not graph.edges(node) and bool({"object", "array"}.intersection(kinds))


def collect_keys(schema: JsonObject) -> frozenset[str]:
    """Return every property name of a schema, at any depth."""
    return frozenset(name for node in iter_all_subschemas(schema) for name in _get_properties(node))


def collect_defaults(schema: JsonObject) -> dict[str, JsonValue]:
    """Return the defaults of the arguments themselves."""
    described = {name: as_object(each) or {} for name, each in _get_properties(schema).items()}
    return {name: each["default"] for name, each in described.items() if "default" in each}


def _get_properties(node: Subschema) -> JsonObject:
    return as_object(node.get("properties")) or {}
