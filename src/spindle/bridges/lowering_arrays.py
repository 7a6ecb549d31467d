"""Arrays: their items, and tuples where the dialect has none."""

from typing import Any

from spindle.bridges.lowering_draft import Draft, Node
from spindle.bridges.lowering_tally import same
from spindle.tools.raw_copy import as_object


def tell_arrays(draft: Draft) -> None:
    """Tell the items of an array."""
    if draft.found("prefixItems") and not draft.takes("prefixItems"):
        _tell_tuple(draft)
        return
    found = draft.found("prefixItems")
    if found:
        nodes = [draft.job.descend([place]) for place in found[0][0].children("prefixItems")]
        draft.told["prefixItems"] = [node.told for node in nodes]
        draft.shape.prefix = tuple(node.shape for node in nodes)
        draft.lose_rest("prefixItems", "another one beside it is told")
    _tell_items(draft)


def _tell_items(draft: Draft) -> None:
    found = draft.found("items")
    schemas = [part.child("items") for part, value in found if isinstance(value, dict)]
    if not found or not draft.takes("items"):
        return
    if draft.is_restricted and any(value is False for _, value in found):
        _tell_none(draft, 0)
    elif schemas:
        node = draft.job.descend([*schemas])
        draft.told["items"], draft.shape.items = node.told, node.shape
    elif not draft.is_restricted:
        draft.told["items"] = found[0][1]


def _tell_none(draft: Draft, at_most: int) -> None:
    """Tell that an array has no items beyond some number."""
    most = min([at_most, *(value for _, value in draft.found("maxItems"))])
    if draft.takes("maxItems"):
        draft.told["maxItems"] = most
        draft.why("items", f"told as maxItems {most}")
    else:
        draft.words.append(f"at most {most} item{'' if most == 1 else 's'}")
        draft.why("items", f"told in the description: {draft.words[-1]}")


def _tell_tuple(draft: Draft) -> None:
    """Tell a tuple as a list of any of its kinds of items."""
    part, _ = draft.found("prefixItems")[0]
    nodes = [draft.job.descend([place]) for place in part.children("prefixItems")]
    draft.shape.prefix = tuple(node.shape for node in nodes)
    kinds = _distinct(nodes)
    rest = [value for _, value in draft.found("items")]
    at_most = [value for _, value in draft.found("maxItems")]
    is_open = (not rest or rest[0] is True) and not any(count <= len(nodes) for count in at_most)
    if rest and isinstance(rest[0], dict):
        node = draft.job.descend([draft.found("items")[0][0].child("items")])
        draft.shape.items = node.shape
        kinds = _distinct([*nodes, node])
        draft.why("items", "told together with the first items")
    elif rest and rest[0] is False:
        _tell_none(draft, len(nodes))
    draft.told["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if _order(kinds, nodes):
        draft.words.append(_order(kinds, nodes))
    draft.why("prefixItems", "told as a list of any of its kinds of items", narrows=is_open)
    for keyword in ("prefixItems", "items"):
        draft.lose_rest(keyword, "another one beside it is told")


def _distinct(nodes: list[Node]) -> list[Any]:
    kinds: list[Any] = []
    for node in nodes:
        if not any(same(node.told, kind) for kind in kinds):
            kinds.append(node.told)
    return kinds


def _order(kinds: list[Any], nodes: list[Node]) -> str:
    told = [as_object(node.told) or {} for node in nodes]
    names = [each.get("title") or each.get("type") for each in told]
    is_clear = len(kinds) > 1 and all(isinstance(name, str) for name in names)
    return f"in this order: {', '.join(map(str, names))}" if is_clear else ""
