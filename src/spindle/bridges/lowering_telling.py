"""Tells a subschema keyword by keyword, in the order it was written."""

from typing import Any

from spindle.bridges.lowering_arrays import tell_arrays
from spindle.bridges.lowering_combine import combined, is_combined
from spindle.bridges.lowering_draft import Draft
from spindle.bridges.lowering_objects import tell_dependencies, tell_named, tell_others, tell_properties, tell_required
from spindle.bridges.lowering_parts import ADDRESSES, MANY, NAMED, NOTES, ONE, REFERENCES, SHELVES
from spindle.bridges.lowering_unions import tell_union

_UNIONS = ("anyOf", "oneOf")
_OBJECTS = {"properties", "required", "dependentRequired", "additionalProperties"}
_ARRAYS = {"items", "prefixItems"}
_APART = {*_OBJECTS, *_ARRAYS, *_UNIONS}
_SAME_VALUE = ("then", "else")
_SAID_ELSEWHERE = {"const", "exclusiveMinimum", "exclusiveMaximum", "description"}
_SUBSCHEMAS = {*ONE, *MANY, *NAMED} - _APART


def tell(draft: Draft) -> None:
    """Tell all that the parts of a draft say."""
    for keyword in _UNIONS:
        # First, for it may take what stands beside it into its alternatives.
        if draft.found(keyword) and not (draft.root and not draft.takes(keyword)):
            tell_union(draft, keyword)
    keywords = dict.fromkeys(keyword for part in draft.parts for keyword in part.schema)
    for keyword in keywords:
        if keyword not in _APART and draft.found(keyword):
            _tell_one(draft, keyword)
    # Most subschemas are of a plain value, and are done by now.
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
    if keyword in SHELVES or keyword in REFERENCES:
        _note_shelf(draft, keyword)
    elif keyword in ADDRESSES:
        for part, _ in draft.found(keyword):
            draft.job.tally.why(part.path, keyword, "dropped", "the dialect has one draft, and no addresses")
    elif keyword == "nullable" and draft.is_restricted:
        for part, _ in draft.found(keyword):
            draft.job.tally.why(part.path, keyword, "dropped", "no word of JSON Schema; the tool takes no null by it")
    elif keyword in NAMED:
        tell_named(draft, keyword)
    elif keyword in _SUBSCHEMAS:
        _tell_subschemas(draft, keyword)
    else:
        _tell_value(draft, keyword)


def _note_shelf(draft: Draft, keyword: str) -> None:
    for part, _ in draft.found(keyword):
        if part.path and keyword in SHELVES:
            draft.job.tally.lose(part.path, keyword, "rewritten", "what is referred to is told elsewhere")


def _tell_subschemas(draft: Draft, keyword: str) -> None:
    part, value = draft.found(keyword)[0]
    if not draft.takes(keyword):
        draft.say_each(keyword)
    elif keyword in MANY:
        nodes = [draft.job.descend([place]) for place in part.children(keyword)]
        draft.told[keyword] = [node.told for node in nodes]
        draft.shape.every += [node.shape for node in nodes if node.shape is not None]
    elif isinstance(value, dict):
        node = draft.job.descend([part.child(keyword)])
        draft.told[keyword] = node.told
        if keyword in _SAME_VALUE and node.shape is not None:
            draft.shape.every.append(node.shape)
    else:
        draft.told[keyword] = value
    if keyword in draft.told:
        draft.lose_rest(keyword, "another one beside it is told")


def _tell_value(draft: Draft, keyword: str) -> None:
    value = combined(keyword, [value for _, value in draft.found(keyword)])
    if draft.takes(keyword) and _fits(draft, keyword, value):
        draft.told[keyword] = value
        if not is_combined(keyword) and keyword not in NOTES:
            draft.say_each(keyword, value)
    elif keyword not in _SAID_ELSEWHERE:
        if is_combined(keyword):
            draft.say(keyword, value)
        else:
            draft.say_each(keyword)


def _fits(draft: Draft, keyword: str, value: Any) -> bool:
    rules = draft.rules
    if keyword == "format":
        return rules.formats is None or value in rules.formats
    if keyword == "minItems":
        return rules.min_items is None or value in rules.min_items
    return True
