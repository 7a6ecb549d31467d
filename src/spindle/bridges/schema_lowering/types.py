"""Lowers types: single or several, null, constants, enums, and types missing from the schema."""

from spindle.bridges.schema_lowering.draft import Draft
from spindle.bridges.schema_lowering.tally import combine_values, is_same_json, to_type_list
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.schema.graph import as_list, as_object

_SCALARS: list[JsonObject] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "object"}]
_OF: dict[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
    ),
}
_OWNER = {keyword: kind for kind, keywords in _OF.items() for keyword in keywords}


def apply_types(draft: Draft) -> None:
    """Emit the type in the form the dialect requires."""
    if draft.root:
        _settle_root(draft)
    if draft.is_restricted:
        _settle_constant(draft)
        _settle_missing(draft)
        _settle_enum(draft)
        _settle_bounds(draft)
    if draft.rules.needs_items and "array" in to_type_list(draft.output.get("type")) and not _has_items(draft):
        _add_items(draft)
    if not draft.rules.type_lists:
        _settle_list(draft)
    if draft.rules.lone_unions and "anyOf" in draft.output:
        _settle_lone_union(draft)
    if draft.root and draft.rules.needs_properties and not draft.output.get("properties"):
        _leave_out(draft)


def _settle_root(draft: Draft) -> None:
    if draft.output.get("type") != "object":
        draft.output["type"] = "object"
        draft.explain("type", "emitted as object: arguments are always an object")


def _leave_out(draft: Draft) -> None:
    """Clear the output for arguments without properties."""
    is_open = [value for _, value in draft.find("additionalProperties")] != [False]
    for keyword in draft.output:
        draft.explain(keyword, "arguments without properties are omitted", narrows=is_open)
    draft.output.clear()
    draft.words.clear()


def _settle_constant(draft: Draft) -> None:
    """Emit a constant as an enum of one value if the dialect has no `const`."""
    found = draft.find("const")
    if not found or draft.accepts("const"):
        return
    value = found[0][1]
    known = draft.output.get("enum")
    if known is None or any(is_same_json(value, each) for each in known):
        draft.output["enum"] = [value]
        draft.explain("const", "emitted as an enum of one value")
    draft.drop_rest("const", "another value of this keyword is emitted")


def _settle_missing(draft: Draft) -> None:
    """Add a type if the dialect requires one."""
    output = draft.output
    if not draft.rules.needs_type or not {"type", "anyOf", "$ref"}.isdisjoint(output):
        return
    values = [output["const"]] if "const" in output else as_list(output.get("enum"))
    if draft.opened_types is not None:
        output["type"] = draft.opened_types
    elif values:
        kinds = list(dict.fromkeys(map(_type_of, values)))
        output["type"] = kinds[0] if len(kinds) == 1 else kinds
        draft.explain("type", "emitted as the type of its values")
    else:
        _infer(draft)


def _infer(draft: Draft) -> None:
    inferred = dict.fromkeys(_OWNER[keyword] for part in draft.parts for keyword in part.schema if keyword in _OWNER)
    kinds = list(inferred)
    if kinds:
        draft.output["type"] = kinds[0] if len(kinds) == 1 else kinds
        draft.explain("type", "emitted as the type its other keywords apply to", narrows=True)
    elif draft.rules.any_value:
        _emit_any(draft)
    else:
        raise draft.build_error("a value of any type", "declare its type")


def _emit_any(draft: Draft) -> None:
    draft.output["anyOf"] = [*_SCALARS, {"type": "array", "items": {"anyOf": [*_SCALARS]}}]
    draft.output["nullable"] = True
    draft.explain("anyOf", "a value of any type is emitted as a union of all types", narrows=True)


def _settle_enum(draft: Draft) -> None:
    """Remove an enum of values that the dialect cannot list, and describe it instead."""
    values = as_list(draft.output.get("enum"))
    if "enum" not in draft.output:
        return
    match draft.rules.enum_values:
        case "plain":
            fits = not any(isinstance(value, (dict, list)) for value in values)
        case "strings":
            listed = [value for value in values if value is not None]
            fits = bool(listed) and all(isinstance(value, str) and value for value in listed)
        case "any":
            fits = True
    if not fits:
        del draft.output["enum"]
        draft.describe("enum" if draft.find("enum") else "const", values if draft.find("enum") else values[0])


def _settle_bounds(draft: Draft) -> None:
    """Emit an exclusive bound of integers as an inclusive one if the dialect has no exclusive bounds."""
    for exclusive, bound, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        values = [value for _, value in draft.find(exclusive)]
        if not values or draft.accepts(exclusive):
            continue
        value = combine_values(exclusive, values)
        is_whole = draft.output.get("type") == "integer" and isinstance(value, int)
        if is_whole and draft.accepts(bound) and bound not in draft.output:
            draft.output[bound] = value + step
            draft.explain(exclusive, f"emitted as {bound} {value + step}")
        else:
            draft.describe(exclusive, value)


def _has_items(draft: Draft) -> bool:
    return "items" in draft.output


def _add_items(draft: Draft) -> None:
    if draft.rules.needs_type and not draft.rules.any_value:
        raise draft.build_error("a list of any values", "declare its items")
    draft.output["items"] = {"anyOf": [*_SCALARS]} if draft.rules.needs_type else {}
    detail = "a list must declare its items: emitted as " + ("any type" if draft.rules.needs_type else "anything")
    draft.explain("items", detail, narrows=draft.rules.needs_type)


def _settle_list(draft: Draft) -> None:
    """Express null by a flag, and other lists of types by alternatives."""
    output = draft.output
    kinds = to_type_list(output["type"]) if "type" in output else []
    values = output.get("enum")
    allows_null = ("null" in kinds and len(kinds) > 1) or (not kinds and values is not None and None in values)
    if (allows_null or draft.nullable_paths) and _nothing_forbids_null(draft):
        output["nullable"] = True
        draft.explain("type", "null is expressed by nullable")
    if values is not None and None in values:
        # If only null is left, the other values are of a type that another part forbids.
        output["enum"] = [value for value in values if value is not None and kinds != ["null"]]
        draft.explain("enum", "null is expressed by nullable")
        if not output["enum"]:
            del output["enum"]
    kinds = [kind for kind in kinds if kind != "null"] or kinds[:1]
    if len(kinds) == 1:
        output["type"] = kinds[0]
    elif kinds:
        _split(draft, kinds)


def _nothing_forbids_null(draft: Draft) -> bool:
    for part in draft.parts:
        if part.path in draft.nullable_paths:
            continue
        schema = part.schema
        if "type" in schema and "null" not in to_type_list(schema["type"]):
            return False
        if schema.get("const") is not None or None not in as_list(schema.get("enum", [None])):
            return False
    return True


def _split(draft: Draft, kinds: list[str]) -> None:
    """Split a list of types into alternatives, each with the keywords that apply to it."""
    output = draft.output
    alternatives: list[JsonObject] = []
    for kind in kinds:
        family = "number" if kind == "integer" else kind
        own = {keyword: output[keyword] for keyword in _OF.get(family, ()) if keyword in output}
        alternatives.append({"type": kind, **own})
    for keyword in [keyword for keyword in output if keyword in _OWNER]:
        del output[keyword]
        draft.explain(keyword, "moved to the alternative of its type")
    values = output.pop("enum", None)
    if values is not None:
        draft.explain("enum", "moved to the alternative of its type")
        for alternative in alternatives:
            if alternative["type"] == "string":
                alternative["enum"] = values
    del output["type"]
    output["anyOf"] = alternatives
    named = any("type" in part.written for part in draft.parts)
    draft.explain("type" if named else "anyOf", "several types are emitted as anyOf")


def _settle_lone_union(draft: Draft) -> None:
    """Move the sibling keywords of `anyOf` into its alternatives."""
    output = draft.output
    draft.write_description()
    draft.words.clear()
    beside = {keyword: output.pop(keyword) for keyword in list(output) if keyword != "anyOf"}
    for keyword in beside:
        draft.explain(keyword, "moved to each alternative")
    output["anyOf"] = [_with(alternative, beside) for alternative in output["anyOf"]]


def _with(alternative: JsonValue, beside: JsonObject) -> JsonObject:
    mixed = {**(as_object(alternative) or {})}
    if set(mixed) == {"anyOf"}:
        return {"anyOf": [_with(each, beside) for each in mixed["anyOf"]]}
    own = mixed.get("description")
    for keyword, value in beside.items():
        mixed.setdefault(keyword, value)
    if own and beside.get("description"):
        mixed["description"] = f"{beside['description']} {own}"
    return mixed


def _type_of(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
