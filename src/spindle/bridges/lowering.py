"""Lower a tool's JSON Schema to what a dialect takes, and say what was lost."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from spindle.bridges.losses import Loss, pointer
from spindle.bridges.lowering_draft import Asked, Draft, Job, Node
from spindle.bridges.lowering_gathering import gathered
from spindle.bridges.lowering_parts import SHELVES, Original, Part
from spindle.bridges.lowering_refs import References
from spindle.bridges.lowering_restoring import Restorer
from spindle.bridges.lowering_strict import check_size, settle_strict
from spindle.bridges.lowering_tally import Tally
from spindle.bridges.lowering_telling import tell
from spindle.bridges.lowering_types import settle_types
from spindle.bridges.rules import Rules
from spindle.errors import CannotLowerError
from spindle.tools.raw_copy import as_object
from spindle.tools.raw_graph import subschemas

_MAX_LEVELS = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowered:
    """A schema in a dialect's words, with what became of each keyword."""

    schema: dict[str, Any]
    kept: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    restore: Restorer | None = None
    """`None` where arguments need no change on the way back."""


def lower(schema: Mapping[str, Any], rules: Rules) -> Lowered:
    """Give the schema in the dialect's words.

    Raises:
        CannotLowerError: The dialect cannot take it at all.
    """
    written = deepcopy(dict(schema))
    return _as_written(written) if rules.as_written else _Lowering(written, rules).lowered()


class _Lowering:
    """One schema on its way into one dialect."""

    def __init__(self, written: dict[str, Any], rules: Rules) -> None:
        original = Original(written)
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
            raise CannotLowerError(f"recursion at {loop or '/'}; flatten the schema", path=loop, why="recursion")
        self._shelve(root.told)
        if job.rules.strict_limits is not None:
            check_size(root.told, job.rules.strict_limits)
        restore = Restorer(root.shape, refs.shapes) if job.restores else None
        return Lowered(schema=root.told, kept=job.tally.kept(), losses=job.tally.losses(), restore=restore)

    def _shelve(self, told: dict[str, Any]) -> None:
        """Put the definitions that are still referred to behind the rest."""
        job = self._job
        for shelf in SHELVES:
            kept = job.refs.shelves.get(shelf, {})
            written = as_object(job.original.root.get(shelf)) or {}
            ordered = {name: kept[name] for name in [*written, *kept] if name in kept}
            if ordered:
                told[shelf] = ordered
            if shelf in job.original.root:
                detail = "written out where it is used" if job.rules.inline else "told without what nothing refers to"
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
        entered = gathered(draft, asked)
        try:
            tell(draft)
            settle_types(draft)
            settle_strict(draft)
            draft.put_words()
        finally:
            self._levels -= 1
            for target in entered:
                self._job.refs.leave(target)
        moved = {path: [word for at, word in draft.moved if at == path] for path, _ in draft.moved}
        parts = [part.without(*SHELVES, *moved.get(part.path, ())) for part in draft.parts]
        self._job.tally.settle(parts, draft.told)
        return Node(draft.told, None if draft.shape.is_plain else draft.shape, tuple(draft.parts))


def _as_written(schema: dict[str, Any]) -> Lowered:
    """Tell a schema word for word, but for the type of the arguments, which is always an object."""
    tally = Tally()
    told = {**schema, "type": "object"}
    tally.why("", "type", "rewritten", "told as object, for arguments are always one")
    tally.settle([Part(schema, "", schema)], told)
    waiting = [(schema, "")]
    kept: list[str] = []
    while waiting:
        node, path = waiting.pop()
        kept += [pointer(path, keyword) for keyword in node if path or keyword != "type" or node["type"] == "object"]
        for keyword, step, inner in subschemas(node):
            waiting.append((inner, pointer(path, keyword) if step is None else pointer(path, keyword, step)))
    return Lowered(schema=told, kept=tuple(sorted(kept)), losses=tally.losses())
