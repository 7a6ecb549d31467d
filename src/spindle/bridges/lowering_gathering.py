"""Finds all that one value must satisfy: a subschema, what it refers to, and what it is put together of."""

from collections import deque
from typing import Any

from spindle.bridges.lowering_draft import Asked, Draft
from spindle.bridges.lowering_parts import REFERENCES, SHELVES, Part, Place
from spindle.bridges.lowering_refs import demands, has_more
from spindle.tools.raw_copy import as_object


def gathered(draft: Draft, asked: Asked) -> list[Place]:
    """Fill in the parts of a draft; gives the references that were entered, to be left when it is done."""
    entered: list[Place] = []
    waiting = deque((each, False) for each in asked)
    while waiting:
        each, beside_null = waiting.popleft()
        part = each if isinstance(each, Part) else _part(draft, *each)
        if part is None:
            continue
        draft.parts.append(part)
        _note_draft(draft, part)
        same = [*_referred(draft, part, asked, entered), *_put_together(draft, part)]
        other = _besides_null(draft, part)
        if beside_null or other:
            draft.nullable_paths.add(part.path)
        inner = [*((place, beside_null) for place in same), *((place, True) for place in other)]
        waiting.extendleft(reversed(inner))
    return entered


def _part(draft: Draft, schema: Any, path: str) -> Part | None:
    node = as_object(schema)
    if node is not None:
        return draft.job.original.part(node, path)
    if schema is True:
        draft.job.tally.lose(path, "true", "rewritten", "told as a schema that demands nothing")
    else:
        draft.job.tally.lose(path, "false", "dropped", "the dialect cannot say that no value fits")
    return None


def _note_draft(draft: Draft, part: Part) -> None:
    """Say what an older draft's words became."""
    for keyword in part.written:
        if keyword not in part.schema:
            if "$ref" in part.schema:
                draft.job.tally.why(part.path, keyword, "dropped", "its draft ignores it beside $ref")
            else:
                draft.job.tally.why(part.path, keyword, "rewritten", "told in the words of draft 2020-12")


def _referred(draft: Draft, part: Part, asked: Asked, entered: list[Place]) -> list[Place]:
    job = draft.job
    inner: list[Place] = []
    for keyword in [keyword for keyword in REFERENCES if keyword in part.schema]:
        target = job.original.target(part, keyword)
        alone = not draft.root and part.path == draft.path and len(asked) == 1
        if target is not None and job.refs.is_kept(part, keyword, target, alone=alone):
            _keep(draft, part, keyword, target)
            continue
        draft.done.add((part.path, keyword))
        reason = "leads to no single place of the schema" if target is None else job.refs.enter(target)
        if target is None or reason is not None:
            job.tally.lose(part.path, keyword, "dropped", str(reason))
            draft.opened_types = (as_object(target[0]) or {}).get("type") if target is not None else None
            continue
        job.tally.take(part.path, keyword, "written out in its place")
        entered.append(target)
        inner.append(target)
    return inner


def _keep(draft: Draft, part: Part, keyword: str, target: Place) -> None:
    draft.told["$ref"] = draft.shape.reference = draft.job.refs.address(target, str(part.schema[keyword]))
    draft.done.add((part.path, keyword))
    if not draft.rules.lone_refs or not has_more(part, keyword):
        return
    for other in part.schema:
        if other not in (keyword, *SHELVES):
            draft.done.add((part.path, other))
            draft.job.tally.why(part.path, other, "dropped", "a reference stands alone in this dialect")


def _put_together(draft: Draft, part: Part) -> list[Place]:
    if "allOf" not in part.schema or draft.takes("allOf") or (part.path, "allOf") in draft.done:
        return []
    draft.done.add((part.path, "allOf"))
    draft.job.tally.take(part.path, "allOf", "put together with what stands beside it")
    return part.children("allOf")


def _besides_null(draft: Draft, part: Part) -> list[Place]:
    """Give the one alternative to null, where null is told by a flag."""
    if draft.rules.type_lists:
        return []
    for keyword in ("anyOf", "oneOf"):
        branches = part.children(keyword)
        others = [branch for branch in branches if not _is_null(branch[0])]
        is_taken = (part.path, keyword) in draft.done
        if len(others) == 1 and len(branches) > 1 and not is_taken and not demands(part, keyword):
            draft.done.add((part.path, keyword))
            draft.job.tally.take(part.path, keyword, "null is told by nullable")
            return others
    return []


def _is_null(schema: Any) -> bool:
    node = as_object(schema)
    return node is not None and node.get("type") == "null" and not set(node) - {"type", "title", "description"}
