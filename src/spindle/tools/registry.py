"""A name-keyed, ordered collection of tools for one turn."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol, Self, TypeGuard, cast, get_args

from spindle.errors import (
    InvalidContextError,
    InvalidToolError,
    ToolAlreadyRegisteredError,
    UnknownToolError,
    UsageError,
)
from spindle.events import Events
from spindle.tools.declaration import Collision, Tool
from spindle.tools.entry import Definition, Entry, ToolDefinition, fresh, is_available, join, make_entry
from spindle.tools.filters import ToolFilter, checked_filter, refusing_rule


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


class AckSource(Protocol):
    """A context that says when its work was accepted."""

    def on_ack(self, fn: Callable[[], object], /) -> Callable[[], object]:
        """Call `fn` on ack, before ack returns; gives back the function that stops it."""
        ...


def bind_to_ack(ctx: AckSource, act: Callable[[], object]) -> Callable[[], None]:
    """Run `act` when `ctx` is acked; the function given back prevents it, and may be called at any time and twice.

    Raises:
        InvalidContextError: `ctx` has no `on_ack` of that shape.
    """
    is_bound = True

    def fire() -> None:
        if is_bound:
            act()

    unsubscribe = _subscribe(ctx, fire)

    def unbind() -> None:
        nonlocal is_bound
        if is_bound:
            is_bound = False
            unsubscribe()

    return unbind


def _subscribe(ctx: object, fire: Callable[[], None]) -> Callable[[], object]:
    on_ack = None if isinstance(ctx, type) else getattr(ctx, "on_ack", None)
    if not callable(on_ack):
        raise _no_context(ctx, "it has no on_ack(fn)")
    unsubscribe = on_ack(fire)
    if inspect.iscoroutine(unsubscribe):
        unsubscribe.close()
    if not callable(unsubscribe):
        raise _no_context(ctx, "its on_ack(fn) gave no function that unsubscribes")
    return unsubscribe


def _no_context(ctx: object, reason: str) -> InvalidContextError:
    given = ctx.__name__ if isinstance(ctx, type) else f"a {type(ctx).__name__}"
    return InvalidContextError(f"cannot bind to {given}: {reason}; pass a DispatchContext", field="ctx")


class ToolRegistry:
    """Tools by name, in the order they came; it neither runs, nor authorises, nor caches calls."""

    # One dict of frozen entries, so that a copy for a turn is one dict copy.
    __slots__ = ("__weakref__", "_entries")

    def __init__(self, tools: "Iterable[Tool] | ToolRegistry" = ()) -> None:
        self._entries: dict[str, Entry] = {}
        if tools != ():
            self.register_all(tools)

    def register(
        self, tool: Tool, *, overwrite: bool = False, plugin_id: str | None = None, mcp: tuple[str, str] | None = None
    ) -> None:
        """Add a tool at the end, or with `overwrite` in the place of its namesake, which leaves its hidden flag.

        `mcp` is the server and the bare name, for a tool that an MCP server provides.

        Raises:
            ToolAlreadyRegisteredError: The name is taken.
            InvalidToolError: It is no `Tool`.
        """
        incoming = make_entry(tool, plugin_id=plugin_id, mcp=mcp)
        existing = self._entries.get(incoming.tool.name)
        if existing is not None:
            if not overwrite:
                raise clash(existing, incoming, remedy="register with overwrite=True")
            incoming = replace(incoming, hidden=existing.hidden)
        self._entries[incoming.tool.name] = incoming

    def register_all(self, tools: "Iterable[Tool] | ToolRegistry", *, plugin_id: str | None = None) -> None:
        """Add tools in order, all or none of them; from a registry, each keeps its plugin id and hidden flag.

        Raises:
            ToolAlreadyRegisteredError: A name is taken, or given twice.
            InvalidToolError: One is no `Tool`.
        """
        staged: dict[str, Entry] = {}
        for incoming in self._incoming(tools, plugin_id):
            name = incoming.tool.name
            existing = self._entries.get(name) or staged.get(name)
            if existing is not None:
                raise clash(existing, incoming, remedy="unregister the first")
            staged[name] = incoming
        self._entries.update(staged)

    @staticmethod
    def _incoming(tools: object, plugin_id: str | None) -> list[Entry]:
        if isinstance(tools, ToolRegistry):
            kept = list(tools._entries.values())
            return kept if plugin_id is None else [replace(entry, plugin_id=plugin_id) for entry in kept]
        if not isinstance(tools, Iterable):
            raise InvalidToolError(f"expected a list of tools, not a {type(tools).__name__}", field="tools")
        return [make_entry(tool, plugin_id=plugin_id) for tool in cast("Iterable[object]", tools)]

    def unregister(self, name: str) -> None:
        """Remove a tool; an unknown name is no error."""
        self._entries.pop(name, None)

    def get(self, name: str) -> Tool | None:
        """Find a tool, hidden or not."""
        entry = self._entries.get(name)
        return None if entry is None else entry.tool

    def entries(self) -> list[Entry]:
        """Give every tool with what the registry knows of it, in order."""
        return list(self._entries.values())

    def entry(self, name: str) -> Entry | None:
        """Find a tool together with what the registry knows about it."""
        return self._entries.get(name)

    def has(self, name: str) -> bool:
        """Say whether a tool has that name."""
        return name in self._entries

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.all())

    def __repr__(self) -> str:
        return f"<ToolRegistry of {len(self)} tools>"

    def all(self) -> list[Tool]:
        """List the tools in order, hidden ones too; the list is the caller's."""
        return [entry.tool for entry in self._entries.values()]

    def get_available(self, events: Events | None = None) -> list[Tool]:
        """List the tools that say they can be used now; one that raises cannot, and `events` is told."""
        return [tool for tool in self if is_available(tool, events)]

    def get_for_toolset(self, name: str, *, events: Events | None = None) -> list[Tool]:
        """List the available tools of one toolset."""
        return [tool for tool in self if tool.toolset == name and is_available(tool, events)]

    def plugin_id(self, name: str) -> str | None:
        """Name the plugin that provides a tool."""
        entry = self._entries.get(name)
        return None if entry is None else entry.plugin_id

    def hide(self, name: str) -> None:
        """Leave a tool out of the definitions; it may still be called.

        Raises:
            UnknownToolError: No tool has that name.
        """
        self._set_hidden(name, hidden=True)

    def show(self, name: str) -> None:
        """Put a hidden tool back into the definitions.

        Raises:
            UnknownToolError: No tool has that name.
        """
        self._set_hidden(name, hidden=False)

    def is_hidden(self, name: str) -> bool:
        """Say whether a tool is left out of the definitions.

        Raises:
            UnknownToolError: No tool has that name.
        """
        return self._known(name).hidden

    def _set_hidden(self, name: str, *, hidden: bool) -> None:
        self._entries[name] = replace(self._known(name), hidden=hidden)

    def _known(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            near = difflib.get_close_matches(str(name), self._entries, n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "; register it first"
            raise UnknownToolError(f"no tool is called {name!r}{hint}", tool=name)
        return entry

    def to_definitions(self, filter: ToolFilter | None = None, *, events: Events | None = None) -> list[ToolDefinition]:
        """Tell what the model may be told: available, not hidden, not refused; plain data of the caller's own."""
        return fresh(self._shown(filter, events))

    def definitions_json(self, filter: ToolFilter | None = None, *, events: Events | None = None) -> bytes:
        """Write `to_definitions` as JSON; the same registry gives the same bytes in every process."""
        return join(self._shown(filter, events))

    def _shown(self, filter: ToolFilter | None, events: Events | None) -> list[Definition]:
        wanted = checked_filter(filter)
        return [
            entry.definition
            for entry in list(self._entries.values())
            if not entry.hidden
            and is_available(entry.tool, events)
            and (wanted is None or refusing_rule(entry, wanted) is None)
        ]

    def prune_ephemeral(self) -> list[str]:
        """Remove every ephemeral tool, and name what was removed."""
        removed = [tool.name for tool in self if tool.ephemeral]
        for name in removed:
            self.unregister(name)
        return removed

    def bind_context(self, ctx: AckSource) -> Callable[[], None]:
        """Prune ephemeral tools when `ctx` is acked, and only then; gives back the function that prevents it.

        Raises:
            InvalidContextError: `ctx` has no `on_ack`.
        """
        return bind_to_ack(ctx, self.prune_ephemeral)

    def copy(self) -> Self:
        """Copy the registry, with plugin ids and hidden flags, but without its bindings."""
        return self._made_of(self._entries.copy())

    __copy__ = copy

    @classmethod
    def merge(cls, registries: "Iterable[ToolRegistry]", on_collision: Collision = "throw") -> Self:
        """Put registries together into a fresh one; the incoming tool's own policy comes before `on_collision`.

        Raises:
            ToolAlreadyRegisteredError: A name clashes, and nobody says who wins.
        """
        if on_collision not in get_args(Collision):
            expected = "'throw', 'replace' or 'keep'"
            raise UsageError(f"on_collision is {expected}, not {on_collision!r:.80}", field="on_collision")
        return cls._made_of(merge_entries([cls._table(each) for each in registries], on_collision))

    @classmethod
    def _made_of(cls, entries: dict[str, Entry]) -> Self:
        made = cls()
        made._entries = entries
        return made

    @staticmethod
    def _table(registry: object) -> dict[str, Entry]:
        if not isinstance(registry, ToolRegistry):
            kind = type(registry).__name__
            raise UsageError(f"merge takes a list of registries, and one of them is a {kind}", field="registries")
        return registry._entries

    @staticmethod
    def is_tool_registry(value: object) -> "TypeGuard[ToolRegistry]":
        """Say whether something is a registry; a list of tools is none."""
        return isinstance(value, ToolRegistry)
