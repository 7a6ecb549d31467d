"""`spindle list`: print the available tools."""

from dataclasses import dataclass
from typing import Annotated

import anyio
from cyclopts import Parameter

from spindle.cli.completers import cache_tool_names, server_names, toolset_names
from spindle.cli.config.loader import Config
from spindle.cli.main import NOT_FOUND, OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, ProfileName
from spindle.cli.output import Output, build_warning_events, print_message, show_progress
from spindle.cli.runtime_registry import build_filter, open_registry
from spindle.cli.runtime_servers import build_backends
from spindle.cli.runtime_tools import build_local_registry
from spindle.json_types import JsonObject
from spindle.text import did_you_mean
from spindle.tools.entry import Entry, is_available
from spindle.tools.filters import ToolFilter, find_refusing_rule
from spindle.tools.registry import ToolRegistry


def list_tools(
    *,
    profile: ProfileName = None,
    toolset: Annotated[str | None, Parameter(help="Only the tools of this toolset.", completer=toolset_names)] = None,
    server: Annotated[str | None, Parameter(help="Only the tools of this MCP server.", completer=server_names)] = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """List the tools with their source and description."""
    config = where.load_for_tools()
    allowed = build_filter(config, profile)
    found = load_tools(config)
    shown = [each for each in found if _is_wanted(each.entry, allowed, toolset, server)]
    out = Output()
    if json:
        out.json({"tools": [tool_to_json(each) for each in shown]})
    elif shown:
        rows = [
            [each.entry.tool.name, get_source(each.entry), format_flags(each), first_sentence(each)] for each in shown
        ]
        out.entries(["tool", "from", "", "what it does"], rows, ["cyan", "dim", "yellow"], droppable=(1, 2))
    if not shown and (toolset or server):
        print_message(*_explain_empty(found, toolset, server))
        return NOT_FOUND
    if not shown and not json:
        print_message(
            "no tools are configured", "set kit = true under [tools], or add an MCP server; see `spindle doctor`"
        )
    return OK


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedTool:
    """A registry entry and whether its tool was available."""

    entry: Entry
    is_available: bool


def load_tools(config: Config) -> list[ListedTool]:
    """Open the registry of a configuration and return all its tools.

    Raises:
        InvalidConfigError: A configured tool, server or folder is not available.
        MissingExtraError: A required extra is not installed.
    """
    names = [name for name, entry in config.servers.items() if entry.enabled]
    if names:
        return anyio.run(_load_with_servers, config, names)
    # Without servers no event loop is needed, which takes a tenth of the command's time to import.
    return _list_entries(build_local_registry(config, build_backends(config)))


async def _load_with_servers(config: Config, names: list[str]) -> list[ListedTool]:
    with show_progress(f"starting {', '.join(names)} …") as progress:
        async with open_registry(config, events=build_warning_events(progress)) as registry:
            cache_tool_names(config, registry)
            return _list_entries(registry)


def _list_entries(registry: ToolRegistry) -> list[ListedTool]:
    return [ListedTool(entry=entry, is_available=is_available(entry.tool)) for entry in registry.entries()]


def _is_wanted(entry: Entry, filter: ToolFilter | None, toolset: str | None, server: str | None) -> bool:
    if entry.hidden or (filter is not None and find_refusing_rule(entry, filter) is not None):
        return False
    return (toolset is None or entry.tool.toolset == toolset) and (server is None or entry.mcp_server == server)


def _explain_empty(found: list[ListedTool], toolset: str | None, server: str | None) -> tuple[str, str]:
    wanted, kind = (server, "MCP server") if server is not None else (toolset, "toolset")
    every = [each.entry.tool.toolset if server is None else each.entry.mcp_server for each in found]
    known = list(dict.fromkeys(name for name in every if name))
    hint = did_you_mean(wanted, known, f"available: {', '.join(known) or 'none'}")
    return f"no tools from {kind} {wanted!r}", hint


def get_source(entry: Entry) -> str:
    """Return the source of a tool: MCP server, toolset of the kit, or module."""
    if entry.mcp_server is not None:
        return f"mcp {entry.mcp_server}"
    if entry.tool.origin.startswith("spindle.kit."):
        return f"kit {entry.tool.toolset}"
    return entry.tool.origin.partition(":")[0]


def format_flags(listed: ListedTool) -> str:
    """Return the flags of a tool: read-only, approval, not available."""
    tool = listed.entry.tool
    flags = [
        "read-only" if tool.read_only else "",
        "needs approval" if tool.requires_approval else "",
        "" if listed.is_available else "not available",
    ]
    return ", ".join(flag for flag in flags if flag)


def first_sentence(listed: ListedTool) -> str:
    """Return the first sentence of a tool's description."""
    paragraph = listed.entry.tool.description.strip().split("\n\n")[0]
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.strip()


def tool_to_json(listed: ListedTool) -> JsonObject:
    """Return the tool as JSON data; the keys are stable."""
    entry, tool = listed.entry, listed.entry.tool
    return {
        "name": tool.name,
        "description": tool.description,
        "toolset": tool.toolset,
        "source": get_source(entry),
        "mcp_server": entry.mcp_server,
        "mcp_tool": entry.mcp_tool,
        "plugin_id": entry.plugin_id,
        "read_only": tool.read_only,
        "idempotent": tool.idempotent,
        "requires_approval": tool.requires_approval,
        "trusted": tool.trusted,
        "available": listed.is_available,
        "timeout_seconds": tool.timeout_seconds,
    }
