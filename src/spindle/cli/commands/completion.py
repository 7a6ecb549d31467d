"""`spindle completion SHELL`: shell completion scripts, and the values they complete."""

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import TypeAdapter

from spindle.cli.config.loader import Config, load_config
from spindle.cli.main import OK
from spindle.cli.output import Output, print_message
from spindle.errors import SpindleError, UsageError
from spindle.tools.registry import ToolRegistry

Shell = Literal["bash", "zsh", "fish"]
ZSH_REGISTRATION = """
(( $+functions[compdef] )) || { autoload -U compinit && compinit }
compdef _cyclopts_spindle spindle
"""
"""Registers the completion when the script is sourced; compinit itself only loads files from `fpath`."""


def completion(
    shell: Annotated[Shell | None, Parameter(help="bash, zsh or fish; the current shell by default.")] = None,
    /,
    *,
    install: Annotated[bool, Parameter(negative="", help="Install the script where the shell looks for it.")] = False,
) -> int:
    """Print or install the completion script of a shell.

    For one session of bash or zsh: source <(spindle completion bash)
    """
    from spindle.cli.main import build_app  # noqa: PLC0415 - main imports this module

    app: Any = build_app()
    chosen = shell or _find_shell()
    if not install:
        Output().text(app.generate_completion(shell=chosen) + (ZSH_REGISTRATION if chosen == "zsh" else ""))
        return OK
    path = app.install_completion(shell=chosen)
    also = "; ~/.zshrc must run compinit after the added line" if chosen == "zsh" else ""
    print_message(f"installed the {chosen} completion in {path}", f"open a new shell to use it{also}")
    return OK


def _find_shell() -> Shell:
    from cyclopts.completion import ShellDetectionError, detect_shell  # noqa: PLC0415 - only needed without a given shell

    try:
        found = detect_shell()
    except ShellDetectionError as error:
        raise UsageError("cannot detect the shell; name bash, zsh or fish", field="shell") from error
    if found not in {"bash", "zsh", "fish"}:
        raise UsageError(f"no completion for {found}; supported shells: bash, zsh, fish", field="shell")
    return found  # pyright: ignore[reportReturnType] - checked above


_CACHE_FILE = "seen-tools.json"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


def tool_names(context: Any) -> dict[str, str]:
    """Return the tool names with descriptions: local tools, and tools of MCP servers from the cache."""
    from spindle.cli.runtime_servers import build_backends  # noqa: PLC0415 - only needed to complete this argument
    from spindle.cli.runtime_tools import build_local_registry  # noqa: PLC0415

    config = _config(context)
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
    known = _read_cached_names(config)
    if not found or known | found == known:
        return
    with suppress(OSError):
        fresh = config.state / f"{_CACHE_FILE}.{os.getpid()}"
        fresh.write_text(json.dumps(known | found), encoding="utf-8")
        fresh.replace(config.state / _CACHE_FILE)


def _read_cached_names(config: Config) -> dict[str, list[str]]:
    """Read the cached tool names of the configured servers."""
    try:
        kept = TypeAdapter(dict[str, list[str]]).validate_json((config.state / _CACHE_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {server: names for server, names in kept.items() if server in config.servers}


def toolset_names(_: Any) -> list[str]:
    """Return the toolsets of the kit."""
    from spindle.kit.default_tools import TOOLSETS  # noqa: PLC0415 - only needed to complete this argument

    return list(TOOLSETS)


def server_names(context: Any) -> list[str]:
    """Return the configured MCP servers."""
    config = _config(context)
    return [] if config is None else list(config.servers)


def profile_names(context: Any) -> list[str]:
    """Return the configured profiles."""
    config = _config(context)
    return [] if config is None else list(config.profiles)


def artifact_ids(context: Any) -> Iterable[str]:
    """Return the ids of the artifacts in the spool."""
    import anyio  # noqa: PLC0415 - only needed to complete this argument

    from spindle.cli.commands.spool import list_entries  # noqa: PLC0415

    config = _config(context)
    try:
        return [] if config is None else [entry.id for entry in anyio.run(list_entries, config)]
    except SpindleError:
        return []


def _config(context: Any) -> Config | None:
    try:
        named = context["config"]
        return load_config(Path(named.raw) if named.provided and named.raw else None)
    except (SpindleError, LookupError, OSError):
        return None
