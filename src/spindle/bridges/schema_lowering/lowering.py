"""Lowers a tool's JSON Schema to a dialect: walks the subschemas, emits their keywords, and collects the losses."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.containers import (
    emit_additional_properties,
    emit_arrays,
    emit_dependencies,
    emit_named,
    emit_properties,
    emit_required,
)
from spindle.bridges.schema_lowering.draft import Draft, LoweringState, Node, Subschemas, flatten_parts
from spindle.bridges.schema_lowering.report import Loss
from spindle.bridges.schema_lowering.restore import Restorer
from spindle.bridges.schema_lowering.source import (
    ANNOTATIONS,
    DEFINITION_KEYWORDS,
    IDENTIFIERS,
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    REFERENCES,
    SINGLE_KEYWORDS,
    Part,
    References,
    SourceSchema,
)
from spindle.bridges.schema_lowering.strict import apply_strict, check_size
from spindle.bridges.schema_lowering.tally import LossTracker, can_combine, combine_values
from spindle.bridges.schema_lowering.types import apply_types
from spindle.bridges.schema_lowering.unions import emit_union
from spindle.errors import CannotLowerError
from spindle.json_types import JsonObject, JsonValue
from spindle.text import extend_pointer
from spindle.tools.schema.graph import as_object, iter_subschemas

_UNIONS = ("anyOf", "oneOf")
_OBJECTS = {"properties", "required", "dependentRequired", "additionalProperties"}
_ARRAYS = {"items", "prefixItems"}
_APART = {*_OBJECTS, *_ARRAYS, *_UNIONS}
_SAME_VALUE = ("then", "else")
_SAID_ELSEWHERE = {"const", "exclusiveMinimum", "exclusiveMaximum", "description"}
_SUBSCHEMAS = {*SINGLE_KEYWORDS, *LIST_KEYWORDS, *MAP_KEYWORDS} - _APART


def emit_keywords(draft: Draft) -> None:
    """Emit all keywords of the parts of a draft."""
    for keyword in _UNIONS:
        # Unions come first: they may move their sibling keywords into the alternatives.
        if draft.find(keyword) and not (draft.root and not draft.accepts(keyword)):
            emit_union(draft, keyword)
    keywords = dict.fromkeys(keyword for part in draft.parts for keyword in part.schema)
    for keyword in keywords:
        if keyword not in _APART and draft.find(keyword):
            _emit_keyword(draft, keyword)
    # Most subschemas describe a plain value, and are complete by now.
    if not _OBJECTS.isdisjoint(keywords):
        emit_properties(draft)
        emit_required(draft)
        emit_dependencies(draft)
        emit_additional_properties(draft)
    if not _ARRAYS.isdisjoint(keywords):
        emit_arrays(draft)
    for keyword in _UNIONS:
        if draft.find(keyword) and draft.root and not draft.accepts(keyword):
            emit_union(draft, keyword)


def _emit_keyword(draft: Draft, keyword: str) -> None:
    if keyword in DEFINITION_KEYWORDS or keyword in REFERENCES:
        _record_definitions(draft, keyword)
    elif keyword in IDENTIFIERS:
        for part, _ in draft.find(keyword):
            draft.state.losses.explain(part.path, keyword, "dropped", "the dialect does not accept schema identifiers")
    elif keyword == "nullable" and draft.is_restricted:
        for part, _ in draft.find(keyword):
            draft.state.losses.explain(
                part.path, keyword, "dropped", "not a JSON Schema keyword; the tool rejects null"
            )
    elif keyword in MAP_KEYWORDS:
        emit_named(draft, keyword)
    elif keyword in _SUBSCHEMAS:
        _emit_subschemas(draft, keyword)
    else:
        _emit_value(draft, keyword)


def _record_definitions(draft: Draft, keyword: str) -> None:
    for part, _ in draft.find(keyword):
        if part.path and keyword in DEFINITION_KEYWORDS:
            draft.state.losses.record(part.path, keyword, "rewritten", "referenced definitions are emitted elsewhere")


def _emit_subschemas(draft: Draft, keyword: str) -> None:
    part, value = draft.find(keyword)[0]
    if not draft.accepts(keyword):
        draft.describe_each(keyword)
    elif keyword in LIST_KEYWORDS:
        nodes = [draft.state.descend([place]) for place in part.children(keyword)]
        draft.output[keyword] = [node.schema for node in nodes]
        draft.shape.every += [node.shape for node in nodes if node.shape is not None]
    elif isinstance(value, dict):
        node = draft.state.descend([part.child(keyword)])
        draft.output[keyword] = node.schema
        if keyword in _SAME_VALUE and node.shape is not None:
            draft.shape.every.append(node.shape)
    else:
        draft.output[keyword] = value
    if keyword in draft.output:
        draft.drop_rest(keyword, "another value of this keyword is emitted")


def _emit_value(draft: Draft, keyword: str) -> None:
    value = combine_values(keyword, [value for _, value in draft.find(keyword)])
    if draft.accepts(keyword) and _fits(draft, keyword, value):
        draft.output[keyword] = value
        if not can_combine(keyword) and keyword not in ANNOTATIONS:
            draft.describe_each(keyword, value)
    elif keyword not in _SAID_ELSEWHERE:
        if can_combine(keyword):
            draft.describe(keyword, value)
        else:
            draft.describe_each(keyword)


def _fits(draft: Draft, keyword: str, value: JsonValue) -> bool:
    rules = draft.rules
    if keyword == "format":
        return rules.formats is None or value in rules.formats
    if keyword == "minItems":
        return rules.min_items is None or value in rules.min_items
    return True


_MAX_LEVELS = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowered:
    """A schema lowered to a dialect, with the fate of each keyword."""

    schema: JsonObject
    kept: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    restore: Restorer | None = None
    """`None` if arguments need no change on the way back."""


def lower(schema: Mapping[str, JsonValue], rules: Rules) -> Lowered:
    """Lower a schema to a dialect.

    Raises:
        CannotLowerError: The dialect cannot express it.
    """
    written = deepcopy(dict(schema))
    return _as_written(written) if rules.as_written else _Lowering(written, rules).run()


class _Lowering:
    """The lowering of one schema to one dialect."""

    def __init__(self, written: JsonObject, rules: Rules) -> None:
        original = SourceSchema(written)
        refs = References(original, rules)
        self._state = LoweringState(original, rules, refs, LossTracker(), self._descend)
        self._levels = 0

    def run(self) -> Lowered:
        state, refs = self._state, self._state.refs
        root = self._node([(state.source.root, "")], root=True)
        while refs.waiting:
            refs.owner, place = refs.waiting.popleft()
            node = self._descend([place])
            refs.store(refs.owner, node.schema, node.shape)
        refs.shapes["#"] = root.shape
        loop = None if state.rules.recursion else refs.find_recursion()
        if loop is not None:
            raise CannotLowerError(f"recursion at {loop or '/'}; remove the recursion", path=loop, why="recursion")
        self._append_definitions(root.schema)
        if state.rules.strict_limits is not None:
            check_size(root.schema, state.rules.strict_limits)
        restore = Restorer(root.shape, refs.shapes) if state.restores else None
        return Lowered(schema=root.schema, kept=state.losses.kept(), losses=state.losses.losses(), restore=restore)

    def _append_definitions(self, output: JsonObject) -> None:
        """Append the definitions that are still referenced."""
        state = self._state
        for shelf in DEFINITION_KEYWORDS:
            present = state.refs.definitions.get(shelf, {})
            written = as_object(state.source.root.get(shelf)) or {}
            ordered = {name: present[name] for name in [*written, *present] if name in present}
            if ordered:
                output[shelf] = ordered
            if shelf in state.source.root:
                detail = "inlined where it is used" if state.rules.inline else "unreferenced definitions are omitted"
                state.losses.explain("", shelf, "rewritten", detail)
                state.losses.compare([Part({}, "", {shelf: written})], {shelf: ordered} if ordered else {})

    def _descend(self, subschemas: Subschemas) -> Node:
        return self._node(subschemas, root=False)

    def _node(self, subschemas: Subschemas, *, root: bool) -> Node:
        first = subschemas[0]
        value, path = (None, first.path) if isinstance(first, Part) else first
        if isinstance(value, bool) and len(subschemas) == 1 and self._state.rules.keywords is None:
            return Node(value)
        if self._levels >= _MAX_LEVELS:
            why = f"more than {_MAX_LEVELS} levels of nesting"
            raise CannotLowerError(f"{why} at {path}; make the schema flatter", path=path, why=why)
        self._levels += 1
        draft = Draft(self._state, [], path, root)
        entered = flatten_parts(draft, subschemas)
        try:
            emit_keywords(draft)
            apply_types(draft)
            apply_strict(draft)
            draft.write_description()
        finally:
            self._levels -= 1
            for target in entered:
                self._state.refs.leave(target)
        moved = {path: [word for at, word in draft.moved if at == path] for path, _ in draft.moved}
        parts = [part.without(*DEFINITION_KEYWORDS, *moved.get(part.path, ())) for part in draft.parts]
        self._state.losses.compare(parts, draft.output)
        return Node(draft.output, None if draft.shape.is_plain else draft.shape, tuple(draft.parts))


def _as_written(schema: JsonObject) -> Lowered:
    """Return a schema unchanged, except for the root type, which is always object."""
    tally = LossTracker()
    written = {**schema, "type": "object"}
    tally.explain("", "type", "rewritten", "emitted as object: arguments are always an object")
    tally.compare([Part(schema, "", schema)], written)
    waiting = [(schema, "")]
    keywords: list[str] = []
    while waiting:
        node, path = waiting.pop()
        keywords += [
            extend_pointer(path, keyword) for keyword in node if path or keyword != "type" or node["type"] == "object"
        ]
        for keyword, step, inner in iter_subschemas(node):
            waiting.append(
                (inner, extend_pointer(path, keyword) if step is None else extend_pointer(path, keyword, step))
            )
    return Lowered(schema=written, kept=tuple(sorted(keywords)), losses=tally.losses())
