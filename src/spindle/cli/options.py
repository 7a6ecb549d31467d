"""Options that most commands share."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from spindle.cli.config.loader import Config, load_config
from spindle.cli.main import NOT_FOUND
from spindle.cli.output import complain
from spindle.errors import CommandError

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.")]
ProfileName = Annotated[
    str | None, Parameter(name="--profile", help="Be this profile of the configuration: what it may see and run.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Which configuration to use."""

    config: Annotated[
        Path | None, Parameter(help="Use this spindle.toml, and look for no other.", group="Configuration")
    ] = None
    mcp_config: Annotated[
        tuple[Path, ...],
        Parameter(
            help="Add the MCP servers of a desktop client's JSON file; may be given again.",
            negative="",
            group="Configuration",
        ),
    ] = ()
    state: Annotated[
        Path | None,
        Parameter(help="Keep spool, journal and scratch workspace in this folder.", group="Configuration"),
    ] = None
    debug: Annotated[bool, Parameter(help="Show the traceback of an error.", negative="", group="Configuration")] = (
        False
    )

    def load(self) -> Config:
        """Read the configuration."""
        return load_config(self.config, mcp_configs=self.mcp_config, state=self.state)

    def load_for_tools(self) -> Config:
        """Read the configuration, and tell of the servers whose tools will be missing."""
        config = self.load()
        for problem in config.left_out:
            complain(problem)
        return config


DEFAULT_LOCATION = Where()


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
