"""The flow policy of a configuration: what `[flow]` vouches for, and what it declares about tools.

A declaration of the operator counts as it is. Hints and names of a server only make its tools stricter.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from fnmatch import fnmatchcase
from secrets import token_hex
from types import MappingProxyType

from typing_extensions import override

from spindle.cli.config.loader import Config
from spindle.cli.config.schema_flow import ANY_TEXT, FlowSection, FlowToolEntry
from spindle.json_types import JsonObject, JsonValue
from spindle.mcp.flow_defaults import KINDS, find_default_roles, is_destructive_name
from spindle.text import did_you_mean
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.role_paths import find_unknown_path
from spindle.trust.flow.policy import FlowPolicy
from spindle.trust.flow.roles import ROLE_NAMES, HasFlow, Produces, Ref, Role, ToolFlow, read_role

_PREFIXES = ("mcp__", "openapi__")
_ROLES_OF_VALUES = frozenset(ROLE_NAMES) - {"ref", "free"}


class ConfiguredPolicy(FlowPolicy):
    """The policy of a configuration; `check_names` checks its names, since servers connect after it is wired."""

    @override
    def check(self, tools: Iterable[HasFlow | ToolFlow]) -> None:
        """Accept the names, which were checked against the configuration."""


def build_flow_policy(config: Config) -> ConfiguredPolicy | None:
    """Return the policy of `[flow]`, or `None` if it is missing or not enabled.

    Tools in `[trust] dangerous` are sinks too.
    """
    section = get_flow(config)
    if section is None:
        return None
    sinks = None if section.sinks is None else {*section.sinks, *config.trust.dangerous}
    return ConfiguredPolicy(sinks=sinks, directory=section.directory, readers=section.readers)


def get_flow(config: Config) -> FlowSection | None:
    """Return `[flow]` if it is enabled."""
    return config.flow if config.flow is not None and config.flow.enabled else None


class FlowDeclarations:
    """What a configuration declares about tools, and the roles that their names suggest."""

    def __init__(self, config: Config) -> None:
        section = get_flow(config)
        self._entries: Mapping[str, FlowToolEntry] = {} if section is None else section.tools
        self._is_enabled = section is not None
        self._dangerous = frozenset(config.trust.dangerous)

    def declare(self, tool: Tool) -> Tool:
        """Return a tool as the configuration declares it; the same one if nothing changes.

        Roles for arguments that it does not have are left out; `find_unknown_arguments` reports them.
        """
        if not self._is_enabled or tool.is_artifact_reader:
            return tool
        entry = merge_entries(self._entries, tool.name)
        changes = self._find_changes(tool, entry)
        if not changes:
            return tool
        declared = copy(tool)
        for name in ("flow", "_flow"):  # built from the fields that change
            vars(declared).pop(name, None)
        vars(declared).update(changes)
        return declared

    def _find_changes(self, tool: Tool, entry: FlowToolEntry) -> JsonObject:
        read_only = tool.read_only if entry.read_only is None else entry.read_only
        wanted: JsonObject = {
            "read_only": read_only,
            "destructive": self._is_destructive(tool, entry, read_only=read_only),
            "output": tool.output if entry.output is None else entry.output,
            "produces": tool.produces if entry.produces is None else Produces.read(entry.produces),
            "roles": self._collect_roles(tool, entry),
        }
        wanted["trusted"] = wanted["output"] == "trusted"
        return {name: value for name, value in wanted.items() if getattr(tool, name) != value}

    def _is_destructive(self, tool: Tool, entry: FlowToolEntry, *, read_only: bool) -> bool:
        if tool.name in self._dangerous and not read_only:
            return True  # the stricter of both tables
        if entry.destructive is not None:
            return entry.destructive
        bare = get_upstream_name(tool)
        return not read_only and (tool.destructive or (bare is not None and is_destructive_name(bare)))

    def _collect_roles(self, tool: Tool, entry: FlowToolEntry) -> Mapping[str, Role]:
        bare = get_upstream_name(tool)
        schema: JsonObject = tool.describe()["input_schema"] if bare is not None or entry.roles else {}
        roles = {} if bare is None else find_default_roles(bare, schema)
        roles |= tool.roles
        declared = {path: read_role(text) for path, text in entry.roles.items()}
        roles |= {path: role for path, role in declared.items() if find_unknown_path(schema, {path: role}) is None}
        return MappingProxyType(roles)


def declare_tools(config: Config, registry: ToolRegistry) -> None:
    """Replace the tools of a registry by what the configuration declares about them."""
    declarations = FlowDeclarations(config)
    for entry in registry.entries():
        declared = declarations.declare(entry.tool)
        if declared is not entry.tool:
            registry.register(declared, overwrite=True, plugin_id=entry.plugin_id)


def add_typed_arguments(ctx: ToolContext, args: Mapping[str, JsonValue]) -> None:
    """Let a call that a person typed be judged by itself, with its arguments as his words."""
    ctx.flow.begin_session(f"{ctx.session_id} {token_hex(8)}")
    for leaf in ToolFlow(name="").get_leaves(args):
        ctx.flow.add_user_text(str(leaf.value))


def get_upstream_name(tool: Tool) -> str | None:
    """Return the name of a tool at the server or API that it belongs to; `None` for a local one."""
    name = tool.meta.get("mcp.tool") or (tool.name.rpartition("__")[2] if tool.meta.has("openapi.server") else None)
    return None if name is None else str(name)


def merge_entries(entries: Mapping[str, FlowToolEntry], name: str) -> FlowToolEntry:
    """Return the declaration of a tool, value by value: its own first, then that of the longest matching pattern."""
    matching = [entries[each] for each in find_matching(entries, name)]
    given: JsonObject = {}
    roles: dict[str, str] = {}
    for entry in reversed(matching):
        values = entry.model_dump(exclude_none=True)
        roles |= values.pop("roles")
        given |= values
    return FlowToolEntry.model_construct(**given, roles=roles)


def find_matching(names: Iterable[str], tool: str) -> list[str]:
    """Return the names and patterns that match a tool, the most specific first."""
    found = [each for each in names if each == tool or (ANY_TEXT in each and fnmatchcase(tool, escape_pattern(each)))]
    return sorted(found, key=lambda each: (each == tool, len(each.replace(ANY_TEXT, "")), each), reverse=True)


def escape_pattern(pattern: str) -> str:
    """Return a pattern in which only `*` is special."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def check_names(config: Config, registry: ToolRegistry) -> None:
    """Check every name in `[flow]` and in the profiles against the tools and servers of the configuration.

    Tools of servers are known by their prefix only, because a server may not be connected.

    Raises:
        InvalidConfigError: A name cannot be that of a tool, or a key of the directory is neither a role nor a kind.
    """
    section = get_flow(config)
    if section is None:
        return
    for key, name in list_names(config):
        if not can_exist(config, registry, name):
            hint = did_you_mean(name, (tool.name for tool in registry))
            what = f"the tool {name!r} is unknown, and no configured server or API can offer it"
            raise config.error(key, f"{what}{hint and f'; {hint}'}")
    known = _ROLES_OF_VALUES | find_kinds(section, registry.all())
    for name in section.directory:
        if name not in known:
            what = f"expected a role (target, setting, content) or a kind of reference, got {name!r}"
            raise config.error(("flow", "directory", name), f"{what}; {did_you_mean(name, known)}".rstrip("; "))
    for tool in registry:
        if get_upstream_name(tool) is None and tool.name in section.tools:
            for path in find_unknown_arguments(section.tools, tool):
                raise config.error(("flow", "tools", tool.name, "roles"), f"{tool.name} has no argument {path!r}")


def list_names(config: Config) -> list[tuple[tuple[str, ...], str]]:
    """Return every name of a tool in `[flow]` and in the profiles, with its key."""
    found: list[tuple[tuple[str, ...], str]] = []
    tables = [(("flow",), get_flow(config))]
    tables += [(("profiles", name, "flow"), each.flow) for name, each in config.profiles.items()]
    for key, table in tables:
        if table is not None:
            found += [((*key, "sinks"), name) for name in table.sinks or ()]
            found += [((*key, "readers", name), name) for name in table.readers or ()]
            found += [((*key, "tools", name), name) for name in table.tools]
    return found


def can_exist(config: Config, registry: ToolRegistry, name: str) -> bool:
    """Return whether a tool may have a name, or match a pattern, now or when all servers are connected."""
    if find_tools(registry, name):
        return True
    fixed = name.partition(ANY_TEXT)[0]
    prefixes = [f"mcp__{each}__" for each, entry in config.servers.items() if entry.prefix]
    prefixes += [f"openapi__{each}__" for each in config.apis]
    if ANY_TEXT in name and any(prefix.startswith(fixed) for prefix in prefixes):
        return True
    if any(fixed.startswith(prefix) and len(name) > len(prefix) for prefix in prefixes):
        return True
    has_plain_names = any(not entry.prefix for entry in config.servers.values())
    return has_plain_names and not name.startswith(_PREFIXES)


def find_tools(registry: ToolRegistry, name: str) -> list[str]:
    """Return the registered tools that have a name, or match a pattern."""
    return [tool.name for tool in registry if find_matching([name], tool.name)]


def find_kinds(section: FlowSection, tools: Iterable[Tool]) -> frozenset[str]:
    """Return the kinds of reference that tools and declarations have."""
    flows = [tool.flow for tool in tools]
    kinds = {role.kind for flow in flows for role in flow.roles.values() if isinstance(role, Ref)}
    produced = [flow.produces for flow in flows]
    for entry in section.tools.values():
        produced.append(Produces.read(entry.produces))
        kinds |= {role.kind for role in map(read_role, entry.roles.values()) if isinstance(role, Ref)}
    return KINDS | kinds | {each.kind for each in produced if each is not None}


def find_unknown_arguments(entries: Mapping[str, FlowToolEntry], tool: Tool) -> list[str]:
    """Return the paths in the declaration of a tool, by its whole name, that are not its arguments."""
    entry = entries.get(tool.name)
    if entry is None or not entry.roles:
        return []
    schema = tool.describe()["input_schema"]
    return [path for path in entry.roles if find_unknown_path(schema, {path: None}) is not None]


def find_missing(config: Config, registry: ToolRegistry, connected: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
    """Return what `[flow]` names and servers that are connected do not have: the key, and a sentence about it."""
    section = get_flow(config)
    if section is None:
        return []
    is_whole = {name for name, entry in config.servers.items() if entry.enabled} <= set(connected)
    prefixes = tuple(f"mcp__{name}__" for name in connected)
    found = [
        (key, f"no tool of the connected servers is named {name!r}")
        for key, name in list_names(config)
        if not find_tools(registry, name) and (is_whole or name.startswith(prefixes))
    ]
    for tool in registry:
        key = ("flow", "tools", tool.name, "roles")
        found += [
            (key, f"{tool.name!r} has no argument {path!r}") for path in find_unknown_arguments(section.tools, tool)
        ]
    return found
