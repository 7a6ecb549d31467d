"""Lowers unions: kept, emitted as another keyword, merged with their siblings, or flattened at the root."""

from spindle.bridges.schema_lowering.containers import add_property, wire_name
from spindle.bridges.schema_lowering.draft import Draft, Node, Subschemas, needed_names
from spindle.bridges.schema_lowering.restore import Shape
from spindle.bridges.schema_lowering.source import IDENTIFIERS, Part, Place, get_constraints
from spindle.bridges.schema_lowering.tally import is_same_json
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.schema.graph import as_list, as_object

_UNIONS = ("anyOf", "oneOf")
_PLAIN_CHOICE = {"type", "const", "enum", "title", "description"}


def emit_union(draft: Draft, keyword: str) -> None:
    """Emit a choice between alternatives."""
    part, value = draft.find(keyword)[0]
    draft.drop_rest(keyword, "another choice beside it is emitted")
    if draft.root and not draft.accepts(keyword) and not (keyword == "oneOf" and draft.accepts("anyOf")):
        if needed_names(as_list(value)) is None:
            merge_alternatives(draft, part, keyword)
        else:
            _describe_needs(draft, keyword, value)
        return
    emitted_as = keyword if draft.accepts(keyword) else "anyOf"
    if (
        not draft.accepts(emitted_as)
        or emitted_as in draft.output
        or (draft.is_restricted and needed_names(as_list(value)))
    ):
        _describe_needs(draft, keyword, value)
        return
    if emitted_as != keyword:
        draft.explain(keyword, "emitted as anyOf")
    branches = _possible(draft, part, keyword)
    if not branches:
        return
    beside = _beside(draft) if draft.is_restricted else []
    if beside:
        for other, keywords in beside:
            for each in keywords:
                # Each alternative reports its own losses.
                draft.state.losses.record(
                    other.path, other.alias.get(each, each), "rewritten", "moved to each alternative"
                )
                draft.moved.add((other.path, other.alias.get(each, each)))
                draft.done.add((other.path, each))
    _emit_branches(draft, emitted_as, branches, [_only(other, keywords) for other, keywords in beside])


def _describe_needs(draft: Draft, keyword: str, value: JsonValue) -> None:
    """Describe which properties are required, by their wire names, if the choice is about nothing else."""
    needed = needed_names(as_list(value))
    if needed is not None:
        draft.describe(keyword, [{"required": [wire_name(draft, name) for name in names]} for names in needed])


def _possible(draft: Draft, part: Part, keyword: str) -> list[Place]:
    """Return the alternatives that can be emitted; none if one of them accepts any value."""
    branches = part.children(keyword)
    if not draft.is_restricted:
        return branches
    if any(schema is True or schema == {} for schema, _ in branches):
        draft.explain(keyword, "omitted: one alternative accepts any value")
        return []
    for schema, path in branches:
        if schema is False:
            draft.state.losses.record(path, "false", "rewritten", "the alternative is omitted")
            draft.explain(keyword, "emitted without the alternative that accepts no value")
    return [branch for branch in branches if branch[0] is not False]


def _beside(draft: Draft) -> list[tuple[Part, list[str]]]:
    """Return the other constraints of the parts, which each alternative must repeat."""
    found = [
        (part, [each for each in get_constraints(part, *_UNIONS, *IDENTIFIERS) if (part.path, each) not in draft.done])
        for part in draft.parts
    ]
    return [(part, keywords) for part, keywords in found if keywords]


def _only(part: Part, keywords: list[str]) -> Part:
    written = {part.alias.get(each, each) for each in keywords}
    return Part(
        {each: part.schema[each] for each in keywords},
        part.path,
        {each: value for each, value in part.written.items() if each in written},
        part.alias,
    )


def _emit_branches(draft: Draft, keyword: str, branches: list[Place], beside: list[Part]) -> None:
    nodes: list[Node] = []
    for branch in branches:
        subschemas: Subschemas = [*beside, branch]
        nodes.append(draft.state.descend(subschemas))
    draft.output[keyword] = [node.schema for node in nodes]
    if any(node.shape for node in nodes):
        pairs = zip(nodes, branches, strict=True)
        draft.shape.unions.append(tuple(draft.state.branch(node.schema, path, node.shape) for node, (_, path) in pairs))


def merge_alternatives(draft: Draft, part: Part, keyword: str) -> None:
    """Emit the properties of all alternatives together, because the dialect accepts no union at the root."""
    detail = "the properties of all alternatives are merged; a call must still match one of them"
    draft.state.losses.explain(part.path, keyword, "rewritten", detail)
    closed = [value for _, value in draft.find("additionalProperties")] == [False]
    branches = [draft.state.source.properties_at(place) for place in part.children(keyword)]
    properties = draft.output.setdefault("properties", {})
    names = dict.fromkeys(name for branch in branches for name in branch)
    for name in names:
        if name not in properties and not closed:
            places = [branch[name] for branch in branches if name in branch]
            add_property(draft, name, places, _either(draft, places))


def _either(draft: Draft, places: list[Place]) -> Node:
    nodes = [draft.state.descend([place]) for place in places]
    distinct: list[tuple[Node, str]] = []
    for node, (_, path) in zip(nodes, places, strict=True):
        if not any(is_same_json(node.schema, other.schema) for other, _ in distinct):
            distinct.append((node, path))
    if len(distinct) == 1:
        return distinct[0][0]
    merged = _one_choice([node.schema for node, _ in distinct])
    if merged is not None:
        return Node(merged)
    shape = Shape(unions=[tuple(draft.state.branch(node.schema, path, node.shape) for node, path in distinct)])
    return Node({"anyOf": [node.schema for node, _ in distinct]}, shape if any(node.shape for node in nodes) else None)


def _one_choice(schemas: list[JsonValue]) -> JsonObject | None:
    """Merge constants of one type into one enum; return `None` if that is not possible."""
    values: list[JsonValue] = []
    for each in schemas:
        schema = as_object(each)
        if schema is None or not schema.keys() <= _PLAIN_CHOICE or not ("const" in schema or "enum" in schema):
            return None
        values += [schema["const"]] if "const" in schema else as_list(schema["enum"])
    types = {schema.get("type") if isinstance(schema.get("type"), str) else "?" for schema in schemas}
    if len(types) != 1 or "?" in types:
        return None
    distinct = [
        value for index, value in enumerate(values) if not any(is_same_json(value, other) for other in values[:index])
    ]
    return {"type": types.pop(), "enum": distinct}
