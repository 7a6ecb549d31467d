"""Arguments described by a JSON Schema: the schema is applied as written, without coercion, and defaults are filled in.

Supports drafts 4 to 2020-12, selected by `$schema`; 2020-12 without one. `format` is an annotation, the specification's
default. References are never fetched, and patterns, references and depth are bounded before the first call.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.json_types import JsonObject, JsonValue, copy_object, is_list_or_tuple, is_object
from spindle.text import quote_name, to_printable
from spindle.tools.schema.base import Problem, build_refusal
from spindle.tools.schema.graph import (
    SchemaGraph,
    Subschema,
    append_pointer,
    as_list,
    as_object,
    copy_schema,
    estimate_work_by_depth,
    measure_value,
)
from spindle.tools.schema.json_schema_errors import JsonSchemaErrorTranslator, describe_expectation, find_non_json
from spindle.tools.schema.repair import is_type, suggest_type

if TYPE_CHECKING:
    # Only for types: importing it takes 25 ms, which only a process with such a tool should spend.
    from jsonschema_rs import ValidationError, Validator

    from spindle.trust.flow.roles import Role


_Nodes: TypeAlias = tuple[Subschema, ...]
_NOTHING: Final = object()
_SAME_VALUE = ("$ref", "allOf")  # these always apply; a branch of anyOf, oneOf, not or if may not
_INNER = frozenset(("properties", "additionalProperties", "items", "prefixItems", "additionalItems"))


@dataclass(frozen=True, slots=True)
class _Shape:
    """The subschemas that apply to the properties and items of a value, references included."""

    properties: dict[str, _Nodes]
    others: _Nodes
    """For properties without their own subschema."""
    first_items: tuple[_Nodes, ...]
    items: _Nodes


class Defaults:
    """The defaults of one schema."""

    def __init__(self, graph: SchemaGraph) -> None:
        self._graph = graph
        self._defaults = self._nearest_defaults()
        self._fruitful = self._with_defaults_inside()
        self._shapes: dict[int, _Shape] = {}

    @property
    def has_defaults(self) -> bool:
        """Whether the schema has any default that can be filled in."""
        return id(self._graph.root) in self._fruitful

    def apply(self, value: JsonObject) -> JsonObject:
        """Return a copy of the value with defaults filled in at any depth."""
        return self._complete(value, (self._graph.root,))

    def _complete(self, value: JsonValue, nodes: _Nodes) -> JsonValue:
        shapes = [self._shape(node) for node in _distinct(nodes) if id(node) in self._fruitful]
        if not shapes:
            return value
        if is_object(value):
            return self._complete_object({**value}, shapes)
        if is_list_or_tuple(value):
            return [self._complete(item, _at(shapes, index)) for index, item in enumerate(value)]
        return value

    def _complete_object(self, value: JsonObject, shapes: list[_Shape]) -> JsonObject:
        for shape in shapes:
            for name, nodes in shape.properties.items():
                if name not in value:
                    default = self._default(nodes)
                    if default is not _NOTHING:
                        value[name] = deepcopy(default)
        for name, inner in value.items():
            nodes = tuple(node for shape in shapes for node in shape.properties.get(name, shape.others))
            if nodes:
                value[name] = self._complete(inner, nodes)
        return value

    def _default(self, nodes: _Nodes) -> JsonValue:
        return next((self._defaults[id(node)] for node in nodes if id(node) in self._defaults), _NOTHING)

    def _nearest_defaults(self) -> dict[int, JsonValue]:
        """Return each subschema's default: its own, or that of a subschema it refers to."""
        found: dict[int, JsonValue] = {}
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
        """Return a subschema and those that always apply to the same value, nearest first."""
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
        """Return the subschemas that contain a property with a default; the others need no visit."""
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


_LEGACY = ("http://json-schema.org/draft-04/", "http://json-schema.org/draft-06/", "http://json-schema.org/draft-07/")
_BACKTRACKS = 100_000
_PATTERN_BYTES = 1_000_000
_MODEST_WORK = 1_000
_MAX_WORK = 20_000_000
_MAX_WORDED_WORK = 10_000
_ASKING = {
    *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if"),
    *("required", "minProperties"),
}


class RawSchema:
    """A tool's JSON Schema, checked and compiled when the tool is created.

    Raises:
        InvalidToolError: It is not a valid object schema, refers outside itself, or could make validation too costly.
    """

    def __init__(
        self, schema: Mapping[Any, JsonValue], *, tool: str, secret_fields: frozenset[str] = frozenset()
    ) -> None:
        self._tool = tool
        self._is_guarded = bool(secret_fields)
        try:
            self._schema = copy_schema(schema)
            _check_root(self._schema)
            graph = SchemaGraph(self._schema, legacy=str(self._schema.get("$schema")).startswith(_LEGACY))
            self._work = estimate_work_by_depth(graph)
            self._validator = _compile(self._schema)
        except InvalidToolError as error:
            message = f"Tool {quote_name(tool)}: its input_schema {error}."
            raise InvalidToolError(message, tool=tool, field="input_schema") from error
        self._defaults = Defaults(graph)
        self._problems = JsonSchemaErrorTranslator(self._schema, secret_fields=secret_fields)

    def json_schema(self) -> JsonObject:
        """Return a copy of the schema as written."""
        return deepcopy(self._schema)

    def roles(self) -> "Mapping[str, Role]":
        """Return no roles: the schema may be that of a server, which must not loosen a policy."""
        return {}

    def can_be_empty(self) -> bool:
        """Return whether empty argument text is accepted as an empty object."""
        return not any(self._schema.get(keyword) for keyword in _ASKING)

    def validator(self) -> Callable[[JsonObject], JsonObject]:
        """Return the function that validates a call's arguments."""
        return self.validate

    def copying_validator(self) -> Callable[[JsonObject], JsonObject]:
        """Return the same for arguments that are kept: the value shares nothing with them that can be changed."""
        return self._validate_copy

    def _validate_copy(self, arguments: JsonObject) -> JsonObject:
        return self.validate(copy_object(arguments))

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Validate arguments without coercion, then return them with defaults filled in.

        Raises:
            InvalidToolArgsError: The arguments do not match the schema.
        """
        if self._work[-1] > _MODEST_WORK and self._work_for(arguments) > _MAX_WORK:
            received = "one that would take this schema too long to check"
            raise build_refusal(
                self._tool, [Problem(path="", expected="a smaller or flatter object", received=received)]
            )
        try:
            fits = self._validator.is_valid(arguments)
        except ValueError:
            raise build_refusal(self._tool, find_non_json(arguments)) from None
        if not fits:
            raise self._refusal(arguments)
        return self._defaults.apply(arguments) if self._defaults.has_defaults else arguments

    def _refusal(self, arguments: JsonObject) -> InvalidToolArgsError:
        # With secret fields the text is built at once, so that the error does not keep their values alive.
        if self._is_guarded:
            return build_refusal(self._tool, self._explain(arguments))
        return build_refusal(self._tool, lambda: self._explain(arguments))

    def _explain(self, arguments: JsonObject) -> list[Problem]:
        """Return all problems, or only the first if finding all would take too long."""
        levels, _ = measure_value(arguments)
        found: list[Problem] = []
        try:
            if self._work_for(arguments) <= _MAX_WORDED_WORK:
                found = self._problems.translate(self._validator.iter_errors(arguments), arguments)
            elif self._work_at(levels) <= _MAX_WORDED_WORK:
                self._validator.validate(arguments)
        except ValueError as error:
            if not hasattr(error, "kind"):
                return find_non_json(arguments)
            found = self._problems.translate([cast("ValidationError", error)], arguments)
        unclear = Problem(path="", expected="arguments that fit the schema", received="an object that does not")
        return found or [unclear]

    def _work_at(self, levels: int) -> int:
        return self._work[min(levels, len(self._work) - 1)]

    def _work_for(self, arguments: JsonObject) -> int:
        levels, values = measure_value(arguments)
        return self._work_at(levels) * values // max(levels, 1)


def _check_root(schema: JsonObject) -> None:
    kind = schema.get("type", "object")
    if kind != "object" and "object" not in as_list(kind):
        remedy = "arguments are one object, so make it a property of one" if is_type(kind) else suggest_type(kind)
        shown = quote_name(kind) if isinstance(kind, str) else "something else"
        raise InvalidToolError(f"has type {shown} at #/type instead of 'object'; {remedy}")


def _compile(schema: JsonObject) -> "Validator":
    import jsonschema_rs  # noqa: PLC0415 - slow to import, and only needed for such tools

    bounds = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES
    )
    try:
        return jsonschema_rs.validator_for(schema, validate_formats=False, pattern_options=bounds, offline=True)
    except jsonschema_rs.ValidationError as error:
        raise InvalidToolError(_reason(error, schema)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidToolError(f"cannot be compiled ({type(error).__name__}); simplify it") from error


def _reason(error: "ValidationError", schema: JsonObject) -> str:
    """Return what is wrong with the schema itself and how to fix it."""
    at = "#"
    wrong: JsonValue = schema
    for step in error.instance_path:
        at = append_pointer(at, step)
        with suppress(KeyError, IndexError, TypeError):  # the path leaves out empty keys
            wrong = wrong[step]
    if not error.instance_path:
        return f"cannot be used: {to_printable(error.message)}; look at $schema and at every $ref and $id"
    keyword = error.instance_path[-1]
    if keyword == "type":
        words = [word for word in as_list(wrong) or [wrong] if not is_type(word)]
        remedy = suggest_type(words[0]) if words else "name each type once"
        return f"is not valid at {at}: that is not a JSON Schema type; {remedy}"
    if keyword in ("pattern", "patternProperties"):
        return f"is not valid at {at}: a pattern must be a regular expression of moderate size; simplify it"
    expected = describe_expectation(error)
    return f"is not valid at {at}: expected {expected}; spindle.tools.repair_schema fixes common mistakes"
