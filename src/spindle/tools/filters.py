"""Filters that decide which tools are shown and may run, and the one function that applies them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from spindle.errors import InvalidToolFilterError
from spindle.events import Events
from spindle.json_types import is_iterable, is_mapping
from spindle.tools.entry import Entry, is_available

Rule: TypeAlias = Literal[
    "exclude_tools", "allowed_tools", "allowed_mcp_servers", "allowed_mcp_tools", "allowed_plugins"
]


class NamesByServer(Mapping[str, frozenset[str]]):
    """An immutable mapping from MCP server to tool names, so that a filter is hashable."""

    __slots__ = ("_names",)

    def __init__(self, names: Mapping[str, frozenset[str]]) -> None:
        self._names = dict(names)

    def __getitem__(self, server: str) -> frozenset[str]:
        return self._names[server]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __hash__(self) -> int:
        return hash(frozenset(self._names.items()))

    def __repr__(self) -> str:
        return repr(self._names)


@dataclass(frozen=True, init=False, slots=True)
class ToolFilter:
    """A filter of the tools that are shown and may run; `None` does not filter, an empty list allows none of a kind."""

    allowed_tools: frozenset[str] | None
    """Names of built-in tools; a tool with `always_include` need not be listed."""
    allowed_mcp_servers: frozenset[str] | None
    allowed_plugins: frozenset[str] | None
    allowed_mcp_tools: NamesByServer | None
    """Tool names for each server, without the `mcp__` prefix; a server that is not listed exposes all of its tools."""
    exclude_tools: frozenset[str]
    """Takes precedence over every other field and over `always_include`."""
    allowed_resources: frozenset[str] | None
    """URIs and URI templates as clients see them; one that ends with `*` allows all that start like it."""
    allowed_prompts: frozenset[str] | None
    """Names of prompts as clients see them, or beginnings of them that end with `*`."""

    def __init__(
        self,
        allowed_tools: Iterable[str] | None = None,
        allowed_mcp_servers: Iterable[str] | None = None,
        allowed_plugins: Iterable[str] | None = None,
        allowed_mcp_tools: Mapping[str, Iterable[str]] | None = None,
        exclude_tools: Iterable[str] | None = (),
        *,
        allowed_resources: Iterable[str] | None = None,
        allowed_prompts: Iterable[str] | None = None,
    ) -> None:
        values = {
            "allowed_tools": _optional_names("allowed_tools", allowed_tools),
            "allowed_mcp_servers": _optional_names("allowed_mcp_servers", allowed_mcp_servers),
            "allowed_plugins": _optional_names("allowed_plugins", allowed_plugins),
            "allowed_mcp_tools": _names_by_server(allowed_mcp_tools),
            "exclude_tools": _optional_names("exclude_tools", exclude_tools) or frozenset[str](),
            "allowed_resources": _optional_names("allowed_resources", allowed_resources),
            "allowed_prompts": _optional_names("allowed_prompts", allowed_prompts),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)


def validate_filter(value: object) -> ToolFilter | None:
    """Return a filter or `None` unchanged.

    Raises:
        InvalidToolFilterError: The value is neither.
    """
    if value is None or isinstance(value, ToolFilter):
        return value
    raise InvalidToolFilterError(f"Expected a ToolFilter or None, got {type(value).__name__}.", field="filter")


def intersect_filters(one: ToolFilter | None, other: ToolFilter | None) -> ToolFilter | None:
    """Return the filter that allows what both filters allow."""
    if one is None or other is None or one == other:
        return one if other is None else other
    return ToolFilter(
        allowed_tools=_intersect(one.allowed_tools, other.allowed_tools),
        allowed_mcp_servers=_intersect(one.allowed_mcp_servers, other.allowed_mcp_servers),
        allowed_plugins=_intersect(one.allowed_plugins, other.allowed_plugins),
        allowed_mcp_tools=_intersect_servers(one.allowed_mcp_tools or {}, other.allowed_mcp_tools or {}),
        exclude_tools=one.exclude_tools | other.exclude_tools,
        allowed_resources=_intersect_patterns(one.allowed_resources, other.allowed_resources),
        allowed_prompts=_intersect_patterns(one.allowed_prompts, other.allowed_prompts),
    )


def _intersect(some: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    return some if others is None else others if some is None else some & others


def _intersect_patterns(some: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    if some is None or others is None:
        return others if some is None else some
    # Of two patterns that overlap, one allows only what the other allows too, and that one is kept.
    return frozenset(
        one for these, those in ((some, others), (others, some)) for one in these if _is_within_any(one, those)
    )


def _is_within_any(one: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns allows everything that this one allows."""
    if one.endswith("*"):
        return any(one[:-1].startswith(pattern[:-1]) for pattern in patterns if pattern.endswith("*"))
    return _matches_any(one, patterns)


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


FeatureKind: TypeAlias = Literal["prompt", "resource"]


def allows_feature(filter: ToolFilter | None, kind: FeatureKind, name: str, server: str | None) -> bool:
    """Return whether a prompt, resource or resource template may be shown and used.

    `name` is a prompt's name, or a URI or URI template, as clients see it; `server` is the MCP server it belongs to.
    """
    if filter is None:
        return True
    if server is not None and filter.allowed_mcp_servers is not None and server not in filter.allowed_mcp_servers:
        return False
    patterns = filter.allowed_prompts if kind == "prompt" else filter.allowed_resources
    return patterns is None or name in patterns or _matches_any(name, patterns)


def _intersect_servers(
    some: Mapping[str, frozenset[str]], others: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]] | None:
    both_ways = {**some, **others} | {server: some[server] & others[server] for server in some.keys() & others.keys()}
    return both_ways or None


@dataclass(frozen=True, slots=True)
class FilterRefusal:
    """The reason why a filter rejects a tool."""

    rule: Rule
    """The field of the filter that decided."""
    message: str
    """For the model; does not name other tools."""


_REASONS: dict[Rule, str] = {
    "exclude_tools": "it is switched off here",
    "allowed_tools": "it is not among the tools allowed here",
    "allowed_mcp_servers": "the MCP server that provides it is not allowed here",
    "allowed_mcp_tools": "its MCP server does not offer it here",
    "allowed_plugins": "the plugin that provides it is not allowed here",
}


def find_refusal(entry: Entry, filter: ToolFilter | None) -> FilterRefusal | None:
    """Return why `filter` rejects the tool, or `None` if it does not."""
    rule = find_refusing_rule(entry, filter) if filter is not None else None
    if rule is None:
        return None
    name = entry.tool.name
    return FilterRefusal(
        rule, f"The tool {name!r} cannot be used: {_REASONS[rule]}. Go on with the tools you were given."
    )


def is_visible(entry: Entry, filter: ToolFilter | None, events: Events | None = None) -> bool:
    """Return whether a model may see a tool: it is not hidden, available, and allowed by the filter."""
    return (
        not entry.hidden
        and is_available(entry.tool, events)
        and (filter is None or find_refusing_rule(entry, filter) is None)
    )


class FilterIndex:
    """The names of a registry by what filters ask about, so that a filter of few names need not walk them all."""

    __slots__ = ("_always", "_asked", "_built_in", "_of_plugins", "_of_servers", "_positions")

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._positions = {name: position for position, name in enumerate(entries)}
        self._asked = [name for name, entry in entries.items() if entry.tool.is_available is not None]
        """Tools that are asked whether they are available, before any filter."""
        self._built_in: list[str] = []
        self._always: list[str] = []
        self._of_servers: dict[str, list[tuple[str | None, str]]] = {}
        self._of_plugins: dict[str, list[str]] = {}
        for name, entry in entries.items():
            if entry.mcp_server is not None:
                self._of_servers.setdefault(entry.mcp_server, []).append((entry.mcp_tool, name))
            elif entry.plugin_id is not None:
                self._of_plugins.setdefault(entry.plugin_id, []).append(name)
            else:
                self._built_in.append(name)
                if entry.tool.always_include:
                    self._always.append(name)

    def find_candidates(self, filter: ToolFilter) -> list[str]:
        """Return, in order, a list of names that holds every name the filter allows; it may hold others."""
        found = {*self._asked, *(self._built_in if filter.allowed_tools is None else self._always)}
        if filter.allowed_tools is not None:
            found |= self._positions.keys() & filter.allowed_tools
        for server in _pick(self._of_servers, filter.allowed_mcp_servers):
            offered = None if filter.allowed_mcp_tools is None else filter.allowed_mcp_tools.get(server)
            found.update(name for bare, name in self._of_servers[server] if offered is None or bare in offered)
        for plugin_id in _pick(self._of_plugins, filter.allowed_plugins):
            found.update(self._of_plugins[plugin_id])
        return sorted(found, key=self._positions.__getitem__)


def _pick(known: Mapping[str, object], allowed: frozenset[str] | None) -> Iterable[str]:
    return known if allowed is None else known.keys() & allowed


def find_refusing_rule(entry: Entry, filter: ToolFilter) -> Rule | None:
    """Return the field of `filter` that rejects the tool, or `None`; `exclude_tools` is checked first."""
    name, server, plugin_id = entry.tool.name, entry.mcp_server, entry.plugin_id
    if name in filter.exclude_tools:
        return "exclude_tools"
    if server is None and plugin_id is None:
        allowed = filter.allowed_tools
        return None if allowed is None or name in allowed or entry.tool.always_include else "allowed_tools"
    if server is not None and (rule := _mcp_rule(server, entry.mcp_tool, filter)):
        return rule
    plugins = filter.allowed_plugins
    return None if plugin_id is None or plugins is None or plugin_id in plugins else "allowed_plugins"


def _mcp_rule(server: str, bare_name: str | None, filter: ToolFilter) -> Rule | None:
    if filter.allowed_mcp_servers is not None and server not in filter.allowed_mcp_servers:
        return "allowed_mcp_servers"
    offered = filter.allowed_mcp_tools
    return "allowed_mcp_tools" if offered and server in offered and bare_name not in offered[server] else None


def _optional_names(field: str, names: object) -> frozenset[str] | None:
    return None if names is None else _names(field, names)


def _names(field: str, names: object) -> frozenset[str]:
    # A str would be split into characters, and a mapping's values would be lost: both are mistakes.
    if isinstance(names, (str, bytes, bytearray)) or is_mapping(names) or not is_iterable(names):
        raise _wrong(field, "a list of names", names)
    return frozenset(_text(field, name) for name in names)


def _names_by_server(offered: object) -> NamesByServer | None:
    if offered is None:
        return None
    field = "allowed_mcp_tools"
    if not is_mapping(offered):
        raise _wrong(field, "a mapping from each server to a list of its tools", offered)
    return NamesByServer({_text(field, server): _names(field, names) for server, names in offered.items()})


def _text(field: str, name: object) -> str:
    if not isinstance(name, str):
        raise _wrong(field, "names that are text", name)
    return name


def _wrong(field: str, expected: str, given: object) -> InvalidToolFilterError:
    kind = type(given).__name__
    return InvalidToolFilterError(f"ToolFilter({field}=…): expected {expected}, got {kind}: {given!r:.80}", field=field)
