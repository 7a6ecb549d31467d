"""Finding a tool by the name somebody typed."""

import difflib
from collections.abc import Iterable
from dataclasses import replace

from spindle.cli.config import Config
from spindle.cli.exits import NOT_FOUND
from spindle.errors import CommandError

NAMES_THEM = "`spindle list` names them all; those of MCP servers are called mcp__server__tool"


def only_servers_of(config: Config, tool: str) -> Config:
    """The configuration with no other MCP servers than those that may have a tool: why start the rest?"""
    prefix = "mcp__"
    servers = {name: entry for name, entry in config.servers.items() if tool.startswith(f"{prefix}{name}__")}
    return config if tool.startswith(prefix) and not servers else replace(config, servers=servers)


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str) -> CommandError:
    """Say that there is no such thing, and what may have been meant."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
    return CommandError(f"there is no {kind} {name!r}", exit_code=NOT_FOUND, hint=hint)
