"""Lowers objects (properties, their names, maps, required names) and arrays (items, tuples)."""

from spindle.bridges.provider_limits import property_name
from spindle.bridges.schema_lowering.draft import Draft, Node, Subschemas
from spindle.bridges.schema_lowering.restore import Property
from spindle.bridges.schema_lowering.source import Place
from spindle.bridges.schema_lowering.tally import is_same_json
from spindle.json_types import JsonObject, JsonValue
from spindle.text import extend_pointer
from spindle.tools.schema.graph import as_list, as_object


def emit_properties(draft: Draft) -> None:
    """Emit the properties of all parts together."""
    by_name: dict[str, list[Place]] = {}
    for part, _ in draft.find("properties"):
        for name, place in part.named("properties").items():
            by_name.setdefault(name, []).append(place)
    undefined = _find_undefined(draft, by_name)
    if not draft.find("properties") and not undefined:
        return
    draft.output["properties"] = {}
    for name, places in by_name.items():
        if draft.is_restricted and any(schema is False for schema, _ in places):
            _leave_out(draft, places)
        else:
            _emit_property(draft, name, places)
    for name, path in undefined.items():
        draft.state.losses.rewrite(path, "properties", f"the required name {name!r} is emitted as a property")
        place: Place = (True, extend_pointer(path, "required"))
        add_property(draft, name, [place], draft.state.descend([place]))


def _find_undefined(draft: Draft, properties: JsonObject) -> dict[str, str]:
    """Return required names that are not properties, with the part that requires them; most dialects reject those."""
    if not draft.is_restricted:
        return {}
    found = [(str(name), part.path) for part, value in draft.find("required") for name in as_list(value)]
    return {name: path for name, path in reversed(found) if name not in properties}


def _leave_out(draft: Draft, places: list[Place]) -> None:
    for schema, path in places:
        if schema is False:
            draft.state.losses.record(path, "false", "rewritten", "the property is omitted")


def _emit_property(draft: Draft, name: str, places: list[Place]) -> None:
    subschemas: Subschemas = [*places]
    add_property(draft, name, places, draft.state.descend(subschemas))


def add_property(draft: Draft, name: str, places: list[Place], node: Node) -> None:
    """Add a lowered property under a name that the dialect accepts."""
    limits = draft.rules.name_limits
    wire = name if limits is None else property_name(name, limits)
    if wire in draft.output["properties"]:
        raise draft.build_error(f"two properties would both be named {wire!r}", "rename one of them")
    if wire != name:
        draft.state.restores = True
        draft.explain("properties", f"{name!r} is named {wire!r}")
    draft.output["properties"][wire] = node.schema
    draft.properties[wire] = name, places, node
    if wire != name or node.shape is not None:
        draft.shape.properties[wire] = Property(name, drops_null=False, shape=node.shape)


def emit_required(draft: Draft) -> None:
    """Emit the required properties by their wire names."""
    values = [as_list(value) for _, value in draft.find("required")]
    if not values or not draft.accepts("required"):
        return
    names = list(dict.fromkeys(str(name) for value in values for name in value))
    draft.output["required"] = [wire_name(draft, name) for name in names]
    if draft.output["required"] != names:
        draft.explain("required", "uses the wire names")


def emit_dependencies(draft: Draft) -> None:
    """Emit dependent required properties by their wire names."""
    found = draft.find("dependentRequired")
    if found and draft.accepts("dependentRequired"):
        draft.output["dependentRequired"] = _rename(draft, found[0][1])
        draft.drop_rest("dependentRequired", "another value of this keyword is emitted")
    elif found:
        draft.describe_each("dependentRequired", reword=lambda needs: _rename(draft, needs))


def _rename(draft: Draft, needs: JsonValue) -> dict[str, list[str]]:
    named = as_object(needs) or {}
    return {wire_name(draft, name): [wire_name(draft, str(each)) for each in as_list(named[name])] for name in named}


def wire_name(draft: Draft, name: str) -> str:
    """Return the wire name of a property, which this part, another part, or no part of the schema may describe."""
    limits = draft.rules.name_limits
    wire = name if limits is None else property_name(name, limits)
    if wire == name or any(own == name for own, _, _ in draft.properties.values()):
        return wire
    if wire in draft.state.source.property_names:
        return name
    draft.state.restores = True
    draft.shape.properties.setdefault(wire, Property(name, drops_null=False, shape=None))
    return wire


def emit_additional_properties(draft: Draft) -> None:
    """Emit the constraint on additional properties."""
    found = draft.find("additionalProperties")
    if not found:
        return
    shaped = [part for part in draft.parts if "properties" in part.schema or "patternProperties" in part.schema]
    value = found[0][1]
    if not draft.accepts("additionalProperties"):
        draft.describe_each("additionalProperties")
    elif len(found) > 1 or any(part is not found[0][0] for part in shaped):
        # Each part closes the object to properties it does not know; combined, they would exclude each other's.
        draft.drop_all("additionalProperties", "omitted: another part describes more properties")
        if (
            any(value is not False for _, value in found)
            and draft.output.pop("unevaluatedProperties", None) is not None
        ):
            draft.drop_all("unevaluatedProperties", "omitted: it depends on additionalProperties, which is omitted")
    elif isinstance(value, dict):
        node = draft.state.descend([found[0][0].child("additionalProperties")])
        draft.output["additionalProperties"], draft.shape.others = node.schema, node.shape
    else:
        draft.output["additionalProperties"] = value


def emit_named(draft: Draft, keyword: str) -> None:
    """Emit named subschemas that are not properties."""
    found = draft.find(keyword)
    if not draft.accepts(keyword):
        draft.describe_each(keyword)
        return
    named = found[0][0].named(keyword)
    if keyword == "dependentSchemas":
        named = {wire_name(draft, name): place for name, place in named.items()}
    nodes = {name: draft.state.descend([place]) for name, place in named.items()}
    draft.output[keyword] = {name: node.schema for name, node in nodes.items()}
    draft.drop_rest(keyword, "another value of this keyword is emitted")
    shapes = [node.shape for node in nodes.values() if node.shape is not None]
    if keyword == "dependentSchemas":
        draft.shape.every += shapes
    elif len(shapes) == len(nodes) == 1 and draft.shape.others is None:
        draft.shape.others = shapes[0]
    elif shapes:
        raise draft.build_error("property names that must be mapped under several patterns", "rename the properties")


def emit_arrays(draft: Draft) -> None:
    """Emit the items of an array."""
    if draft.find("prefixItems") and not draft.accepts("prefixItems"):
        _emit_tuple(draft)
        return
    found = draft.find("prefixItems")
    if found:
        nodes = [draft.state.descend([place]) for place in found[0][0].children("prefixItems")]
        draft.output["prefixItems"] = [node.schema for node in nodes]
        draft.shape.prefix = tuple(node.shape for node in nodes)
        draft.drop_rest("prefixItems", "another value of this keyword is emitted")
    _emit_items(draft)


def _emit_items(draft: Draft) -> None:
    found = draft.find("items")
    schemas = [part.child("items") for part, value in found if isinstance(value, dict)]
    if not found or not draft.accepts("items"):
        return
    if draft.is_restricted and any(value is False for _, value in found):
        _emit_none(draft, 0)
    elif schemas:
        node = draft.state.descend([*schemas])
        draft.output["items"], draft.shape.items = node.schema, node.shape
    elif not draft.is_restricted:
        draft.output["items"] = found[0][1]


def _emit_none(draft: Draft, at_most: int) -> None:
    """Emit the limit of an array that allows no items beyond a number."""
    most = min([at_most, *(value for _, value in draft.find("maxItems"))])
    if draft.accepts("maxItems"):
        draft.output["maxItems"] = most
        draft.explain("items", f"emitted as maxItems {most}")
    else:
        draft.words.append(f"at most {most} item{'' if most == 1 else 's'}")
        draft.explain("items", f"moved to the description: {draft.words[-1]}")


def _emit_tuple(draft: Draft) -> None:
    """Emit a tuple as a list of any of its item types."""
    part, _ = draft.find("prefixItems")[0]
    nodes = [draft.state.descend([place]) for place in part.children("prefixItems")]
    draft.shape.prefix = tuple(node.shape for node in nodes)
    kinds = _distinct(nodes)
    rest = [value for _, value in draft.find("items")]
    at_most = [value for _, value in draft.find("maxItems")]
    is_open = (not rest or rest[0] is True) and not any(count <= len(nodes) for count in at_most)
    if rest and isinstance(rest[0], dict):
        node = draft.state.descend([draft.find("items")[0][0].child("items")])
        draft.shape.items = node.shape
        kinds = _distinct([*nodes, node])
        draft.explain("items", "merged with the first items")
    elif rest and rest[0] is False:
        _emit_none(draft, len(nodes))
    draft.output["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if _order(kinds, nodes):
        draft.words.append(_order(kinds, nodes))
    draft.explain("prefixItems", "emitted as a list of any of its item types", narrows=is_open)
    for keyword in ("prefixItems", "items"):
        draft.drop_rest(keyword, "another value of this keyword is emitted")


def _distinct(nodes: list[Node]) -> list[JsonValue]:
    kinds: list[JsonValue] = []
    for node in nodes:
        if not any(is_same_json(node.schema, kind) for kind in kinds):
            kinds.append(node.schema)
    return kinds


def _order(kinds: list[JsonValue], nodes: list[Node]) -> str:
    schemas = [as_object(node.schema) or {} for node in nodes]
    names = [each.get("title") or each.get("type") for each in schemas]
    is_clear = len(kinds) > 1 and all(isinstance(name, str) for name in names)
    return f"in this order: {', '.join(map(str, names))}" if is_clear else ""
