"""Options that most commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from spindle.cli.config import Config, load_config
from spindle.cli.output import complain

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


NOWHERE = Where()
