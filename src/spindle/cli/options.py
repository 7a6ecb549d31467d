"""Options shared by most commands, and lookups by name."""

import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from spindle import kit
from spindle.cli.config.loader import Config, load_config
from spindle.cli.main import NOT_FOUND
from spindle.cli.output import print_message
from spindle.errors import CommandError
from spindle.text import did_you_mean

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.")]
ProfileName = Annotated[str | None, Parameter(name="--profile", help="Use this profile's view of the tools.")]
EngineUrl = Annotated[
    str | None, Parameter(name="--engine", help="Run calls on this engine, as `url` of [engine] does.")
]


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
    kit: Annotated[
        bool,
        Parameter(
            help="Add the kit's tools, as `kit = true` under [tools] does; without any configuration they are there.",
            negative="",
            group="Configuration",
        ),
    ] = False
    state: Annotated[
        Path | None,
        Parameter(help="Folder of the spool, the journal and the scratch workspace.", group="Configuration"),
    ] = None
    debug: Annotated[bool, Parameter(help="Show the traceback of an error.", negative="", group="Configuration")] = (
        False
    )

    def load(self) -> Config:
        """Load the configuration."""
        return load_config(self.config, mcp_configs=self.mcp_config, kit=self.kit, state=self.state)

    def load_for_tools(self) -> Config:
        """Load the configuration and print a warning for each skipped server."""
        config = self.load()
        for problem in config.skipped:
            print_message(problem)
        return config


DEFAULT_CONFIG_OPTIONS = ConfigOptions()


def choose_engine(config: Config, url: str | None) -> Config:
    """Return the configuration with another engine, if one is given."""
    return config if url is None else replace(config, engine=config.engine.model_copy(update={"url": url}))


def find_own_command() -> str:
    """Return the path of the `spindle` command, for clients with another PATH."""
    beside = Path(sys.executable).with_name("spindle")
    return str(beside) if beside.exists() else shutil.which("spindle") or "spindle"


def list_config_arguments(where: ConfigOptions) -> list[str]:
    """Return the options that select the same configuration in another command."""
    options = [("--config", where.config), *(("--mcp-config", each) for each in where.mcp_config)]
    options.append(("--state", where.state))
    paths = [word for name, path in options if path is not None for word in (name, str(path.absolute()))]
    return [*paths, "--kit"] if where.kit else paths


_TOOL_NAMES_HINT = "`spindle list` shows all tools; tools of MCP servers are named mcp__server__tool"


def restrict_servers(config: Config, tool: str) -> Config:
    """Return the configuration with only the MCP servers that may own the tool, so that others are not started."""
    prefix = "mcp__"
    servers = {
        name: entry
        for name, entry in config.servers.items()
        if (tool.startswith(f"{prefix}{name}__") if entry.prefix else not tool.startswith(prefix))
    }
    return config if tool.startswith(prefix) and not servers else replace(config, servers=servers)


def build_unknown_tool_error(name: str, known: Iterable[str]) -> CommandError:
    """Build the error for an unknown tool; the hint says how to add a tool of the kit."""
    if any(tool.name == name for tool in kit.kit_tools()):
        hint = (
            f"{name} is a tool of the kit, which this configuration leaves out: use --kit, or kit = true under [tools]"
        )
        return CommandError(f"unknown tool {name!r}", exit_code=NOT_FOUND, hint=hint)
    return build_unknown_error("tool", name, known, _TOOL_NAMES_HINT)


def build_unknown_error(kind: str, name: str, known: Iterable[str], otherwise: str) -> CommandError:
    """Build the error for an unknown name, with close matches or `otherwise` as a hint."""
    hint = did_you_mean(name, known, otherwise, count=3)
    return CommandError(f"unknown {kind} {name!r}", exit_code=NOT_FOUND, hint=hint)
