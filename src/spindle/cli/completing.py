"""What the shell offers when somebody presses Tab: nothing is started for it, and nothing is ever said about errors."""

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from spindle.cli.config import Config, load_config
from spindle.errors import SpindleError
from spindle.tools.registry import ToolRegistry

_SEEN = "seen-tools.json"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


def tool_names(context: Any) -> dict[str, str]:
    """The tools that run here, and what each is for; those of MCP servers as they were last seen."""
    from spindle.cli.house_reach import backends_of  # noqa: PLC0415 - only for this word of the line
    from spindle.cli.house_tools import local_registry  # noqa: PLC0415

    config = _config(context)
    if config is None:
        return {}
    try:
        registry = local_registry(config, backends_of(config))
    except SpindleError:
        return {}
    here = {tool.name: tool.description.partition("\n")[0] for tool in registry}
    return here | {name: f"of {server}" for server, names in _seen(config).items() for name in names}


def remember(config: Config, registry: ToolRegistry) -> None:
    """Keep the names of MCP servers' tools, for whoever presses Tab later; a shell is told plain names only."""
    found: dict[str, list[str]] = {}
    for entry in registry.entries():
        if entry.mcp_server is not None and _PLAIN_NAME.fullmatch(entry.tool.name):
            found.setdefault(entry.mcp_server, []).append(entry.tool.name)
    known = _seen(config)
    if not found or known | found == known:
        return
    with suppress(OSError):
        fresh = config.state / f"{_SEEN}.{os.getpid()}"
        fresh.write_text(json.dumps(known | found), encoding="utf-8")
        fresh.replace(config.state / _SEEN)


def _seen(config: Config) -> dict[str, list[str]]:
    """The tools of the servers that are configured, as they were last seen."""
    try:
        kept = TypeAdapter(dict[str, list[str]]).validate_json((config.state / _SEEN).read_bytes())
    except (OSError, ValueError):
        return {}
    return {server: names for server, names in kept.items() if server in config.servers}


def toolset_names(_: Any) -> list[str]:
    """The toolsets of the kit."""
    from spindle.kit.all import TOOLSETS  # noqa: PLC0415 - only for this word of the line

    return list(TOOLSETS)


def server_names(context: Any) -> list[str]:
    """The configured MCP servers."""
    config = _config(context)
    return [] if config is None else list(config.servers)


def profile_names(context: Any) -> list[str]:
    """The configured profiles."""
    config = _config(context)
    return [] if config is None else list(config.profiles)


def artifact_ids(context: Any) -> Iterable[str]:
    """What the spool keeps."""
    import anyio  # noqa: PLC0415 - only for this word of the line

    from spindle.cli.spool_entries import kept  # noqa: PLC0415

    config = _config(context)
    try:
        return [] if config is None else [entry.id for entry in anyio.run(kept, config)]
    except SpindleError:
        return []


def _config(context: Any) -> Config | None:
    try:
        named = context["config"]
        return load_config(Path(named.raw) if named.provided and named.raw else None)
    except (SpindleError, LookupError, OSError):
        return None
