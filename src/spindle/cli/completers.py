"""The values that a shell completes: names of tools, toolsets, servers and profiles."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spindle import kit
from spindle.cli.config.loader import Config, load_config
from spindle.cli.runtime_servers import build_backends
from spindle.cli.runtime_tools import build_local_registry
from spindle.errors import SpindleError
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:  # cyclopts loads it for completion only
    from cyclopts.completion import CompletionContext

_CACHE_FILE = "seen-tools.json"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


def tool_names(context: "CompletionContext") -> dict[str, str]:
    """Return the tool names with descriptions: local tools, and tools of MCP servers from the cache."""
    config = read_config(context)
    if config is None:
        return {}
    try:
        registry = build_local_registry(config, build_backends(config))
    except SpindleError:
        return {}
    here = {tool.name: tool.description.partition("\n")[0] for tool in registry}
    return here | {name: f"of {server}" for server, names in _read_cached_names(config).items() for name in names}


def cache_tool_names(config: Config, registry: ToolRegistry) -> None:
    """Cache the tool names of MCP servers for completion; names a shell could misread are skipped."""
    found: dict[str, list[str]] = {}
    for entry in registry.entries():
        if entry.mcp_server is not None and _PLAIN_NAME.fullmatch(entry.tool.name):
            found.setdefault(entry.mcp_server, []).append(entry.tool.name)
    if not found or (known := _read_cached_names(config)) | found == known:
        return
    with suppress(OSError):
        fresh = config.state / f"{_CACHE_FILE}.{os.getpid()}"
        fresh.write_text(json.dumps(known | found), encoding="utf-8")
        fresh.replace(config.state / _CACHE_FILE)


def _read_cached_names(config: Config) -> dict[str, list[str]]:
    """Read the cached tool names of the configured servers."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - takes long to import

    try:
        kept = TypeAdapter(dict[str, list[str]]).validate_json((config.state / _CACHE_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {server: names for server, names in kept.items() if server in config.servers}


def toolset_names(_: "CompletionContext") -> list[str]:
    """Return the toolsets of the kit."""
    return list(kit.TOOLSETS)


def server_names(context: "CompletionContext") -> list[str]:
    """Return the configured MCP servers."""
    config = read_config(context)
    return [] if config is None else list(config.servers)


def profile_names(context: "CompletionContext") -> list[str]:
    """Return the configured profiles."""
    config = read_config(context)
    return [] if config is None else list(config.profiles)


def read_config(context: "CompletionContext") -> Config | None:
    """Return the configuration of the command line so far, or `None` if it cannot be read."""
    try:
        named = context["config"]
        return load_config(Path(named.raw) if named.provided and named.raw else None)
    except (SpindleError, LookupError, OSError):
        return None
