"""Lowers a tool's JSON Schema to a dialect: walks the subschemas, emits their keywords, and collects the losses."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.containers import (
    tell_arrays,
    tell_dependencies,
    tell_named,
    tell_others,
    tell_properties,
    tell_required,
)
from spindle.bridges.schema_lowering.draft import Asked, Draft, Job, Node, flatten_parts
from spindle.bridges.schema_lowering.report import Loss, pointer
from spindle.bridges.schema_lowering.restore import Restorer
from spindle.bridges.schema_lowering.source import (
    ADDRESSES,
    DEFINITION_KEYWORDS,
    MANY,
    NAMED,
    NOTES,
    ONE,
    REFERENCES,
    Part,
    References,
    SourceSchema,
)
from spindle.bridges.schema_lowering.strict import check_size, settle_strict
from spindle.bridges.schema_lowering.tally import Tally, combined, is_combined
from spindle.bridges.schema_lowering.types import settle_types
from spindle.bridges.schema_lowering.unions import tell_union
from spindle.errors import CannotLowerError
from spindle.tools.schema.graph import as_object, subschemas

_UNIONS = ("anyOf", "oneOf")
_OBJECTS = {"properties", "required", "dependentRequired", "additionalProperties"}
_ARRAYS = {"items", "prefixItems"}
_APART = {*_OBJECTS, *_ARRAYS, *_UNIONS}
_SAME_VALUE = ("then", "else")
_SAID_ELSEWHERE = {"const", "exclusiveMinimum", "exclusiveMaximum", "description"}
_SUBSCHEMAS = {*ONE, *MANY, *NAMED} - _APART


def emit_keywords(draft: Draft) -> None:
    """Emit all keywords of the parts of a draft."""
    for keyword in _UNIONS:
        # Unions come first: they may move their sibling keywords into the alternatives.
        if draft.found(keyword) and not (draft.root and not draft.takes(keyword)):
            tell_union(draft, keyword)
    keywords = dict.fromkeys(keyword for part in draft.parts for keyword in part.schema)
    for keyword in keywords:
        if keyword not in _APART and draft.found(keyword):
            _tell_one(draft, keyword)
    # Most subschemas describe a plain value, and are complete by now.
    if not _OBJECTS.isdisjoint(keywords):
        tell_properties(draft)
        tell_required(draft)
        tell_dependencies(draft)
        tell_others(draft)
    if not _ARRAYS.isdisjoint(keywords):
        tell_arrays(draft)
    for keyword in _UNIONS:
        if draft.found(keyword) and draft.root and not draft.takes(keyword):
            tell_union(draft, keyword)


def _tell_one(draft: Draft, keyword: str) -> None:
    if keyword in DEFINITION_KEYWORDS or keyword in REFERENCES:
        _note_shelf(draft, keyword)
    elif keyword in ADDRESSES:
        for part, _ in draft.found(keyword):
            draft.job.tally.why(part.path, keyword, "dropped", "the dialect does not accept schema identifiers")
    elif keyword == "nullable" and draft.is_restricted:
        for part, _ in draft.found(keyword):
            draft.job.tally.why(part.path, keyword, "dropped", "not a JSON Schema keyword; the tool rejects null")
    elif keyword in NAMED:
        tell_named(draft, keyword)
    elif keyword in _SUBSCHEMAS:
        _tell_subschemas(draft, keyword)
    else:
        _tell_value(draft, keyword)


def _note_shelf(draft: Draft, keyword: str) -> None:
    for part, _ in draft.found(keyword):
        if part.path and keyword in DEFINITION_KEYWORDS:
            draft.job.tally.lose(part.path, keyword, "rewritten", "referenced definitions are emitted elsewhere")


def _tell_subschemas(draft: Draft, keyword: str) -> None:
    part, value = draft.found(keyword)[0]
    if not draft.takes(keyword):
        draft.say_each(keyword)
    elif keyword in MANY:
        nodes = [draft.job.descend([place]) for place in part.children(keyword)]
        draft.output[keyword] = [node.told for node in nodes]
        draft.shape.every += [node.shape for node in nodes if node.shape is not None]
    elif isinstance(value, dict):
        node = draft.job.descend([part.child(keyword)])
        draft.output[keyword] = node.told
        if keyword in _SAME_VALUE and node.shape is not None:
            draft.shape.every.append(node.shape)
    else:
        draft.output[keyword] = value
    if keyword in draft.output:
        draft.drop_rest(keyword, "another value of this keyword is emitted")


def _tell_value(draft: Draft, keyword: str) -> None:
    value = combined(keyword, [value for _, value in draft.found(keyword)])
    if draft.takes(keyword) and _fits(draft, keyword, value):
        draft.output[keyword] = value
        if not is_combined(keyword) and keyword not in NOTES:
            draft.say_each(keyword, value)
    elif keyword not in _SAID_ELSEWHERE:
        if is_combined(keyword):
            draft.describe(keyword, value)
        else:
            draft.say_each(keyword)


def _fits(draft: Draft, keyword: str, value: Any) -> bool:
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

    schema: dict[str, Any]
    kept: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    restore: Restorer | None = None
    """`None` if arguments need no change on the way back."""


def lower(schema: Mapping[str, Any], rules: Rules) -> Lowered:
    """Lower a schema to a dialect.

    Raises:
        CannotLowerError: The dialect cannot express it.
    """
    written = deepcopy(dict(schema))
    return _as_written(written) if rules.as_written else _Lowering(written, rules).lowered()


class _Lowering:
    """The lowering of one schema to one dialect."""

    def __init__(self, written: dict[str, Any], rules: Rules) -> None:
        original = SourceSchema(written)
        refs = References(original, rules)
        self._job = Job(original, rules, refs, Tally(), self._descend)
        self._levels = 0

    def lowered(self) -> Lowered:
        job, refs = self._job, self._job.refs
        root = self._node([(job.original.root, "")], root=True)
        while refs.waiting:
            refs.owner, place = refs.waiting.popleft()
            node = self._descend([place])
            refs.shelve(refs.owner, node.told, node.shape)
        refs.shapes["#"] = root.shape
        loop = None if job.rules.recursion else refs.loop()
        if loop is not None:
            raise CannotLowerError(f"recursion at {loop or '/'}; remove the recursion", path=loop, why="recursion")
        self._shelve(root.told)
        if job.rules.strict_limits is not None:
            check_size(root.told, job.rules.strict_limits)
        restore = Restorer(root.shape, refs.shapes) if job.restores else None
        return Lowered(schema=root.told, kept=job.tally.kept(), losses=job.tally.losses(), restore=restore)

    def _shelve(self, told: dict[str, Any]) -> None:
        """Append the definitions that are still referenced."""
        job = self._job
        for shelf in DEFINITION_KEYWORDS:
            kept = job.refs.shelves.get(shelf, {})
            written = as_object(job.original.root.get(shelf)) or {}
            ordered = {name: kept[name] for name in [*written, *kept] if name in kept}
            if ordered:
                told[shelf] = ordered
            if shelf in job.original.root:
                detail = "inlined where it is used" if job.rules.inline else "unreferenced definitions are omitted"
                job.tally.why("", shelf, "rewritten", detail)
                job.tally.settle([Part({}, "", {shelf: written})], {shelf: ordered} if ordered else {})

    def _descend(self, asked: Asked) -> Node:
        return self._node(asked, root=False)

    def _node(self, asked: Asked, *, root: bool) -> Node:
        first = asked[0]
        value, path = (None, first.path) if isinstance(first, Part) else first
        if isinstance(value, bool) and len(asked) == 1 and self._job.rules.keywords is None:
            return Node(value)
        if self._levels >= _MAX_LEVELS:
            why = f"more than {_MAX_LEVELS} levels of nesting"
            raise CannotLowerError(f"{why} at {path}; make the schema flatter", path=path, why=why)
        self._levels += 1
        draft = Draft(self._job, [], path, root)
        entered = flatten_parts(draft, asked)
        try:
            emit_keywords(draft)
            settle_types(draft)
            settle_strict(draft)
            draft.put_words()
        finally:
            self._levels -= 1
            for target in entered:
                self._job.refs.leave(target)
        moved = {path: [word for at, word in draft.moved if at == path] for path, _ in draft.moved}
        parts = [part.without(*DEFINITION_KEYWORDS, *moved.get(part.path, ())) for part in draft.parts]
        self._job.tally.settle(parts, draft.output)
        return Node(draft.output, None if draft.shape.is_plain else draft.shape, tuple(draft.parts))


def _as_written(schema: dict[str, Any]) -> Lowered:
    """Return a schema unchanged, except for the root type, which is always object."""
    tally = Tally()
    told = {**schema, "type": "object"}
    tally.why("", "type", "rewritten", "emitted as object: arguments are always an object")
    tally.settle([Part(schema, "", schema)], told)
    waiting = [(schema, "")]
    kept: list[str] = []
    while waiting:
        node, path = waiting.pop()
        kept += [pointer(path, keyword) for keyword in node if path or keyword != "type" or node["type"] == "object"]
        for keyword, step, inner in subschemas(node):
            waiting.append((inner, pointer(path, keyword) if step is None else pointer(path, keyword, step)))
    return Lowered(schema=told, kept=tuple(sorted(kept)), losses=tally.losses())
