"""Options shared by most commands, and lookups by name."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from spindle.cli.config.loader import Config, load_config
from spindle.cli.main import NOT_FOUND
from spindle.cli.output import print_message
from spindle.errors import CommandError

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.")]
ProfileName = Annotated[str | None, Parameter(name="--profile", help="Use this profile's view of the tools.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """The configuration options of a command."""

    config: Annotated[
        Path | None, Parameter(help="Use this spindle.toml instead of searching for one.", group="Configuration")
    ] = None
    mcp_config: Annotated[
        tuple[Path, ...],
        Parameter(
            help="Add the MCP servers of a desktop client's JSON file; repeatable.",
            negative="",
            group="Configuration",
        ),
    ] = ()
    state: Annotated[
        Path | None,
        Parameter(help="Folder of the spool, the journal and the scratch workspace.", group="Configuration"),
    ] = None
    debug: Annotated[bool, Parameter(help="Show the traceback of an error.", negative="", group="Configuration")] = (
        False
    )

    def load(self) -> Config:
        """Load the configuration."""
        return load_config(self.config, mcp_configs=self.mcp_config, state=self.state)

    def load_for_tools(self) -> Config:
        """Load the configuration and print a warning for each skipped server."""
        config = self.load()
        for problem in config.skipped:
            print_message(problem)
        return config


DEFAULT_CONFIG_OPTIONS = ConfigOptions()


TOOL_NAMES_HINT = "`spindle list` shows all tools; tools of MCP servers are named mcp__server__tool"


def restrict_servers(config: Config, tool: str) -> Config:
    """Return the configuration with only the MCP servers that may own the tool, so that others are not started."""
    prefix = "mcp__"
    servers = {name: entry for name, entry in config.servers.items() if tool.startswith(f"{prefix}{name}__")}
    return config if tool.startswith(prefix) and not servers else replace(config, servers=servers)


def build_unknown_error(kind: str, name: str, known: Iterable[str], otherwise: str) -> CommandError:
    """Build the error for an unknown name, with close matches or `otherwise` as a hint."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
    return CommandError(f"unknown {kind} {name!r}", exit_code=NOT_FOUND, hint=hint)
