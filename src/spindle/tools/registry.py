"""The registry: an ordered collection of tools by name, with merging and binding to a turn's ack."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol, Self, TypeGuard, get_args

from spindle.errors import (
    InvalidContextError,
    InvalidToolError,
    ToolAlreadyRegisteredError,
    UnknownToolError,
    UsageError,
)
from spindle.events import Events
from spindle.json_types import is_iterable
from spindle.text import did_you_mean
from spindle.tools.declaration import Tool
from spindle.tools.entry import (
    Entry,
    ToolDefinition,
    build_entry,
    is_available,
    is_describable,
    join_definitions,
    load_definitions,
)
from spindle.tools.filters import FilterIndex, ToolFilter, is_visible, validate_filter
from spindle.tools.tool_fields import Collision


def merge_entries(tables: Iterable[Mapping[str, Entry]], on_collision: Collision) -> dict[str, Entry]:
    """Merge tables from left to right; a name keeps its first position.

    Raises:
        ToolAlreadyRegisteredError: A name clashes, and neither the incoming tool nor `on_collision` allows it.
    """
    merged: dict[str, Entry] = {}
    for table in tables:
        if merged.keys().isdisjoint(table):
            merged.update(table)
        else:
            merged.update(_merge_tables(merged, table, on_collision))
    return merged


def _merge_tables(merged: Mapping[str, Entry], table: Mapping[str, Entry], on_collision: Collision) -> dict[str, Entry]:
    return {
        name: _winner(merged[name], entry, on_collision) if name in merged else entry for name, entry in table.items()
    }


def _winner(existing: Entry, incoming: Entry, on_collision: Collision) -> Entry:
    # The incoming tool's policy takes precedence; the existing tool's policy is not used.
    own = incoming.tool.on_collision
    policy = on_collision if own == "throw" else own
    if policy == "throw":
        raise build_collision_error(existing, incoming, remedy="pass on_collision='replace' or 'keep'")
    return incoming if policy == "replace" else existing


def build_collision_error(existing: Entry, incoming: Entry, *, remedy: str) -> ToolAlreadyRegisteredError:
    """Build the error for two tools with the same name."""
    name, old, new = incoming.tool.name, existing.provenance, incoming.provenance
    return ToolAlreadyRegisteredError(
        f"Two tools have the name {name!r}: {old} is registered, {new} came second. Rename one, or {remedy}.",
        tool=name,
        existing=old,
        incoming=new,
    )


class AckSource(Protocol):
    """A context that runs callbacks when it is acked."""

    def on_ack(self, fn: Callable[[], object], /) -> Callable[[], object]:
        """Call `fn` on ack, before ack returns; return the function that unsubscribes it."""
        ...


def bind_to_ack(ctx: AckSource, act: Callable[[], object]) -> Callable[[], None]:
    """Run `act` when `ctx` is acked; return a function that prevents it, which may be called at any time and twice.

    Raises:
        InvalidContextError: `ctx` has no `on_ack` with that signature.
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
        raise _no_context(ctx, "its on_ack(fn) did not return a function that unsubscribes")
    return unsubscribe


def _no_context(ctx: object, reason: str) -> InvalidContextError:
    given = ctx.__name__ if isinstance(ctx, type) else f"a {type(ctx).__name__}"
    return InvalidContextError(f"Cannot bind to {given}: {reason}. Pass a DispatchContext.", field="ctx")


class ToolRegistry:
    """A collection of tools by name, in order of registration; it does not run, authorise or cache calls."""

    # One dict of frozen entries, so that copying the registry for a turn is one dict copy.
    __slots__ = ("__weakref__", "_entries", "_index", "_version")

    def __init__(self, tools: "Iterable[Tool] | ToolRegistry" = ()) -> None:
        self._entries: dict[str, Entry] = {}
        self._version = object()
        """Replaced after each change, also by another thread; a copy begins with the same."""
        self._index: tuple[object, FilterIndex] | None = None
        """A version and its index, built when a filter is first applied to it."""
        if tools != ():
            self.register_all(tools)

    @property
    def version(self) -> object:
        """An object that is replaced by another one whenever the tools change; compare it with `is`."""
        return self._version

    def register(
        self, tool: Tool, *, overwrite: bool = False, plugin_id: str | None = None, mcp: tuple[str, str] | None = None
    ) -> None:
        """Register a tool at the end, or with `overwrite` in the position of the tool it replaces.

        A replacement keeps the hidden flag. `mcp` is the pair of server and tool name for a tool of an MCP server.

        Raises:
            ToolAlreadyRegisteredError: The name is taken.
            InvalidToolError: The value is not a `Tool`.
        """
        incoming = build_entry(tool, plugin_id=plugin_id, mcp=mcp)
        existing = self._entries.get(incoming.tool.name)
        if existing is not None:
            if not overwrite:
                raise build_collision_error(existing, incoming, remedy="register with overwrite=True")
            incoming = replace(incoming, hidden=existing.hidden)
        self._entries[incoming.tool.name] = incoming
        self._version = object()

    def register_all(self, tools: "Iterable[Tool] | ToolRegistry", *, plugin_id: str | None = None) -> None:
        """Register tools in order, all or none of them; those of a registry keep their plugin id and hidden flag.

        Raises:
            ToolAlreadyRegisteredError: A name is taken, or occurs twice.
            InvalidToolError: One of the values is not a `Tool`.
        """
        staged: dict[str, Entry] = {}
        for incoming in self._build_entries(tools, plugin_id):
            name = incoming.tool.name
            existing = self._entries.get(name) or staged.get(name)
            if existing is not None:
                raise build_collision_error(existing, incoming, remedy="unregister the first")
            staged[name] = incoming
        self._entries.update(staged)
        self._version = object()

    @staticmethod
    def _build_entries(tools: object, plugin_id: str | None) -> list[Entry]:
        if isinstance(tools, ToolRegistry):
            kept = list(tools._entries.values())
            return kept if plugin_id is None else [replace(entry, plugin_id=plugin_id) for entry in kept]
        if not is_iterable(tools):
            raise InvalidToolError(f"Expected a list of tools, got {type(tools).__name__}.", field="tools")
        return [build_entry(tool, plugin_id=plugin_id) for tool in tools]

    def unregister(self, name: str) -> None:
        """Unregister a tool; an unknown name is ignored."""
        self._entries.pop(name, None)
        self._version = object()

    def get(self, name: str) -> Tool | None:
        """Return a tool by name, hidden or not."""
        entry = self._entries.get(name)
        return None if entry is None else entry.tool

    def entries(self) -> list[Entry]:
        """Return the entries of all tools, in order."""
        return list(self._entries.values())

    def visible_entries(self, filter: ToolFilter | None = None, *, events: Events | None = None) -> list[Entry]:
        """Return the entries of the tools that a model may see, in order: available, not hidden, and not filtered.

        A tool whose schema cannot be built is left out, and `events` gets a warning.

        Raises:
            InvalidToolFilterError: `filter` is not a filter.
        """
        wanted = validate_filter(filter)
        listed = self.entries() if wanted is None else self._list_candidates(wanted)
        return [entry for entry in listed if is_visible(entry, wanted, events) and is_describable(entry, events)]

    def _list_candidates(self, filter: ToolFilter) -> list[Entry]:
        """Return the entries of all names that a filter may allow, in order."""
        version, known = self._version, self._index
        if known is None or known[0] is not version:
            known = self._index = version, FilterIndex(self._entries.copy())
        return [entry for name in known[1].find_candidates(filter) if (entry := self._entries.get(name)) is not None]

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a tool by name."""
        return self._entries.get(name)

    def has(self, name: str) -> bool:
        """Return whether a tool has that name."""
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
        """Return all tools in order, including hidden ones, as a new list."""
        return [entry.tool for entry in self._entries.values()]

    def get_available(self, events: Events | None = None) -> list[Tool]:
        """Return the tools that are available now; a tool whose check raises is not, and `events` gets a warning."""
        return [tool for tool in self if is_available(tool, events)]

    def get_for_toolset(self, name: str, *, events: Events | None = None) -> list[Tool]:
        """Return the available tools of one toolset."""
        return [tool for tool in self if tool.toolset == name and is_available(tool, events)]

    def plugin_id(self, name: str) -> str | None:
        """Return the id of the plugin that provides a tool."""
        entry = self._entries.get(name)
        return None if entry is None else entry.plugin_id

    def hide(self, name: str) -> None:
        """Exclude a tool from the definitions; it may still be called.

        Raises:
            UnknownToolError: No tool has that name.
        """
        self._set_hidden(name, hidden=True)

    def show(self, name: str) -> None:
        """Include a hidden tool in the definitions again.

        Raises:
            UnknownToolError: No tool has that name.
        """
        self._set_hidden(name, hidden=False)

    def is_hidden(self, name: str) -> bool:
        """Return whether a tool is excluded from the definitions.

        Raises:
            UnknownToolError: No tool has that name.
        """
        return self._require(name).hidden

    def _set_hidden(self, name: str, *, hidden: bool) -> None:
        self._entries[name] = replace(self._require(name), hidden=hidden)
        self._version = object()

    def _require(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            hint = did_you_mean(name, self._entries, "register it first", count=3)
            raise UnknownToolError(f"Unknown tool {name!r}; {hint}", tool=name)
        return entry

    def to_definitions(self, filter: ToolFilter | None = None, *, events: Events | None = None) -> list[ToolDefinition]:
        """Return the definitions of the available tools, without hidden and filtered ones, as fresh plain data."""
        return load_definitions(entry.definition for entry in self.visible_entries(filter, events=events))

    def definitions_json(self, filter: ToolFilter | None = None, *, events: Events | None = None) -> bytes:
        """Serialize `to_definitions` as JSON; equal registries return the same bytes in every process."""
        return join_definitions(entry.definition for entry in self.visible_entries(filter, events=events))

    def prune_ephemeral(self) -> list[str]:
        """Unregister every ephemeral tool and return their names."""
        removed = [tool.name for tool in self if tool.ephemeral]
        for name in removed:
            self.unregister(name)
        return removed

    def bind_context(self, ctx: AckSource) -> Callable[[], None]:
        """Prune ephemeral tools when `ctx` is acked; return the function that prevents it.

        Raises:
            InvalidContextError: `ctx` has no `on_ack`.
        """
        return bind_to_ack(ctx, self.prune_ephemeral)

    def copy(self) -> Self:
        """Copy the registry, with plugin ids and hidden flags, but without its bindings."""
        made = self._from_entries(self._entries.copy())
        made._version, made._index = self._version, self._index
        return made

    __copy__ = copy

    @classmethod
    def merge(cls, registries: "Iterable[ToolRegistry]", on_collision: Collision = "throw") -> Self:
        """Merge registries into a new one; the policy of an incoming tool takes precedence over `on_collision`.

        Raises:
            ToolAlreadyRegisteredError: A name clashes, and neither policy allows it.
        """
        if on_collision not in get_args(Collision):
            expected = "'throw', 'replace' or 'keep'"
            raise UsageError(f"Expected on_collision as {expected}, got {on_collision!r:.80}.", field="on_collision")
        return cls._from_entries(merge_entries([cls._table(each) for each in registries], on_collision))

    @classmethod
    def _from_entries(cls, entries: dict[str, Entry]) -> Self:
        made = cls()
        made._entries = entries
        return made

    @staticmethod
    def _table(registry: object) -> dict[str, Entry]:
        if not isinstance(registry, ToolRegistry):
            kind = type(registry).__name__
            raise UsageError(f"Expected a list of registries to merge, one item is a {kind}.", field="registries")
        return registry._entries

    @staticmethod
    def is_tool_registry(value: object) -> "TypeGuard[ToolRegistry]":
        """Return whether a value is a `ToolRegistry`; a list of tools is not."""
        return isinstance(value, ToolRegistry)
