"""What the shell offers when somebody presses Tab: nothing is started for it, and nothing is ever said about errors."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spindle.cli.config import Config, load_config
from spindle.errors import SpindleError


def tool_names(context: Any) -> dict[str, str]:
    """The tools that run here, and what each is for; those of MCP servers are not asked for."""
    from spindle.cli.house_reach import backends_of  # noqa: PLC0415 - only for this word of the line
    from spindle.cli.house_tools import local_registry  # noqa: PLC0415

    config = _config(context)
    if config is None:
        return {}
    try:
        registry = local_registry(config, backends_of(config))
    except SpindleError:
        return {}
    return {tool.name: tool.description.partition("\n")[0] for tool in registry}


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
