"""Applies the strict form: every object closed, every property required, and the size within the provider's limits."""

from dataclasses import dataclass

from spindle.bridges.provider_limits import ProviderLimits
from spindle.bridges.schema_lowering.draft import Draft, Node
from spindle.bridges.schema_lowering.restore import Property
from spindle.bridges.schema_lowering.source import DEFINITION_KEYWORDS, IDENTIFIERS, Place, get_constraints
from spindle.bridges.schema_lowering.tally import to_type_list
from spindle.errors import CannotLowerError
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.schema.graph import as_list, as_object

_NULL = {"type": "null"}
_PLAIN = ("type", "properties", "required", "additionalProperties", "minProperties")
_LEFT_OUT = "null means that it is omitted"


def apply_strict(draft: Draft) -> None:
    """Close an object and require all its properties, if the dialect demands it."""
    is_object = "object" in to_type_list(draft.output.get("type"))
    if draft.rules.closed and is_object:
        _close(draft)
    if draft.rules.all_required and is_object:
        _require_all(draft)


def _close(draft: Draft) -> None:
    output = draft.output
    others = [value for part in draft.parts for value in [part.schema.get("additionalProperties")] if value is not None]
    patterns = [part for part in draft.parts if part.schema.get("patternProperties")]
    if patterns or any(isinstance(value, dict) for value in others):
        raise draft.build_error("a map with arbitrary keys", "use a list of pairs instead")
    output.setdefault("properties", {})
    if not output["properties"] and False not in others:
        raise draft.build_error("an object without named properties", "name its properties")
    output["additionalProperties"] = False
    if False not in others:
        draft.explain("additionalProperties", "emitted as false: the strict form closes every object", narrows=True)
    if not any("properties" in part.schema for part in draft.parts):
        draft.explain("properties", "emitted as empty: an object must list its properties")


def _require_all(draft: Draft) -> None:
    output = draft.output
    required = set(as_list(output.get("required")))
    optional = [name for name in output["properties"] if name not in required]
    if optional or len(required) != len(output["properties"]):
        output["required"] = list(output["properties"])
    output.setdefault("required", [])
    draft.explain("required", "every property is required in the strict form; null means that it is omitted")
    for wire in optional:
        _emit_optional(draft, wire)


def _emit_optional(draft: Draft, wire: str) -> None:
    own, places, node = draft.properties[wire]
    takes_null = [draft.state.source.accepts_null(schema, path) for schema, path in places]
    unsure = any(takes_null) and _may_reject_null(draft)
    if all(takes_null) and not unsure:
        return
    if not all(takes_null):
        draft.output["properties"][wire] = _nullable(draft, node, places)
    draft.shape.properties[wire] = Property(own, drops_null=not all(takes_null), shape=node.shape, is_ambiguous=unsure)
    draft.state.restores = True
    if unsure and not draft.shape.validators:
        draft.shape.validators = tuple(draft.state.source_validator(part.path) for part in draft.parts)


def _may_reject_null(draft: Draft) -> bool:
    """Return whether an object may be rejected for a null property, although the property itself accepts null."""
    # With several parts, one may be closed to properties that another describes.
    return len(draft.parts) > 1 or any(get_constraints(part, *_PLAIN, *IDENTIFIERS) for part in draft.parts)


def _nullable(draft: Draft, node: Node, places: list[Place]) -> JsonObject:
    """Return the schema of a property extended to accept null."""
    schema = dict(node.schema)
    if "type" in schema and {"anyOf", "const", "$ref"}.isdisjoint(schema):
        schema["type"] = [*(kind for kind in to_type_list(schema["type"]) if kind != "null"), "null"]
        changed = ["type"]
        if None not in schema.get("enum", [None]):
            schema["enum"] = [*schema["enum"], None]
            changed.append("enum")
        _record_losses(draft, node, places, changed)
        return schema
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], _NULL]
        _record_losses(draft, node, places, ["anyOf"])
        return schema
    _record_losses(draft, node, places, ["anyOf"])
    return {"anyOf": [schema, _NULL]}


def _record_losses(draft: Draft, node: Node, places: list[Place], changed: list[str]) -> None:
    for keyword in changed:
        owners = [part.path for part in node.parts if keyword in part.written] or [places[0][1]]
        for path in owners:
            draft.state.losses.record(path, keyword, "rewritten", _LEFT_OUT)


@dataclass(slots=True)
class Size:
    """The size of a lowered schema, in the units that providers limit."""

    properties: int = 0
    optional: int = 0
    """Properties that are not required."""
    unions: int = 0
    """Properties of more than one type."""
    enum_values: int = 0
    longest_enum_chars: int = 0
    chars: int = 0
    depth: int = 0


def measure_size(schema: JsonObject, long_enum_values: int = 0) -> Size:
    """Measure a lowered schema, counting each definition once."""
    size = Size()
    waiting: list[tuple[JsonValue, int]] = [(schema, 1)]
    while waiting:
        value, depth = waiting.pop()
        node = as_object(value)
        if node is None:
            continue
        size.depth = max(size.depth, depth)
        _count(node, size, long_enum_values)
        for shelf in DEFINITION_KEYWORDS:
            named = as_object(node.get(shelf)) or {}
            size.chars += sum(map(len, named))
            waiting += [(inner, 1) for inner in named.values()]
        inside = [*(as_object(node.get("properties")) or {}).values(), node.get("items")]
        waiting += [(inner, depth + 1 if _is_container(inner) else depth) for inner in inside]
        waiting += [(inner, depth) for inner in [*as_list(node.get("anyOf")), *as_list(node.get("allOf"))]]
    return size


def _is_container(value: JsonValue) -> bool:
    return not {"object", "array"}.isdisjoint(to_type_list((as_object(value) or {}).get("type")))


def _is_union(value: JsonValue) -> bool:
    schema = as_object(value) or {}
    return "anyOf" in schema or len(to_type_list(schema.get("type", ""))) > 1


def _count(node: JsonObject, size: Size, long_enum_values: int) -> None:
    names = as_object(node.get("properties")) or {}
    size.properties += len(names)
    size.optional += len(names.keys() - set(as_list(node.get("required"))))
    size.unions += sum(map(_is_union, names.values()))
    values = [*as_list(node.get("enum")), *([node["const"]] if "const" in node else [])]
    size.enum_values += len(as_list(node.get("enum")))
    chars = sum(len(value) for value in values if isinstance(value, str))
    size.chars += chars + sum(map(len, names))
    if len(values) > long_enum_values:
        size.longest_enum_chars = max(size.longest_enum_chars, chars)


def check_size(schema: JsonObject, limits: ProviderLimits) -> None:
    """Check a lowered schema against the limits of the strict form.

    Raises:
        CannotLowerError: A limit is exceeded.
    """
    size = measure_size(schema, limits.long_enum_values or 0)
    checks = [
        ("levels", size.depth, limits.max_schema_depth),
        ("properties", size.properties, limits.max_properties),
        ("enum values", size.enum_values, limits.max_enum_values),
        ("characters in one enum", size.longest_enum_chars, limits.max_enum_chars),
        ("characters of names and values", size.chars, limits.max_schema_chars),
    ]
    for what, count, most in checks:
        if most is not None and count > most:
            why = f"{count} {what}, but the strict form accepts at most {most}"
            raise CannotLowerError(f"{why}; make the schema smaller", why=why)
