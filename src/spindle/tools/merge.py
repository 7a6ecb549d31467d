"""Which tool wins when two registries are put together."""

from collections.abc import Iterable, Mapping

from spindle.errors import ToolAlreadyRegisteredError
from spindle.tools.declaration import Collision
from spindle.tools.entry import Entry


def merge_entries(tables: Iterable[Mapping[str, Entry]], on_collision: Collision) -> dict[str, Entry]:
    """Put tables together from left to right; a name keeps the place where it first stood.

    Raises:
        ToolAlreadyRegisteredError: A name clashes, and neither the incoming tool nor `on_collision` says who wins.
    """
    merged: dict[str, Entry] = {}
    for table in tables:
        if merged.keys().isdisjoint(table):
            merged.update(table)
        else:
            merged.update(_settled(merged, table, on_collision))
    return merged


def _settled(merged: Mapping[str, Entry], table: Mapping[str, Entry], on_collision: Collision) -> dict[str, Entry]:
    return {
        name: _winner(merged[name], entry, on_collision) if name in merged else entry for name, entry in table.items()
    }


def _winner(existing: Entry, incoming: Entry, on_collision: Collision) -> Entry:
    # The incoming tool's own policy comes first; the existing tool is never asked.
    own = incoming.tool.on_collision
    policy = on_collision if own == "throw" else own
    if policy == "throw":
        raise clash(existing, incoming, remedy="pass on_collision='replace' or 'keep'")
    return incoming if policy == "replace" else existing


def clash(existing: Entry, incoming: Entry, *, remedy: str) -> ToolAlreadyRegisteredError:
    """Make the error of two tools that claim one name."""
    name, old, new = incoming.tool.name, existing.provenance, incoming.provenance
    return ToolAlreadyRegisteredError(
        f"two tools are called {name!r}: {old} is registered, {new} came second; rename one, or {remedy}",
        tool=name,
        existing=old,
        incoming=new,
    )
