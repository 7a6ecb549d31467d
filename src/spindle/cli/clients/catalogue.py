"""The table of MCP clients: the files they read on each system, and the shape of a server in them.

Paths and shapes follow the clients' own documentation; docs/clients.md says which pages were read and what is unsure.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

System: TypeAlias = Literal["linux", "darwin", "windows"]
Format: TypeAlias = Literal["json", "jsonc", "toml", "yaml"]
Scope: TypeAlias = Literal["user", "project"]

ANY: Final = "*"
"""A step of a table's path that matches every key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Where to look: the system, the home folder, the variables and the project folder."""

    system: System
    home: Path
    environ: Mapping[str, str]
    project: Path

    @classmethod
    def here(cls) -> "Machine":
        """Return the machine and the working folder of this process."""
        system: System = "windows" if os.name == "nt" else "darwin" if sys.platform == "darwin" else "linux"
        home = Path(os.environ.get("HOME") or Path.home())
        return cls(system=system, home=home, environ=os.environ, project=Path.cwd())

    def expand(self, template: str) -> Path:
        """Return the path of a template such as `{data}/Claude/claude_desktop_config.json`."""
        root, _, rest = template.partition("/")
        return self._find_root(root.strip("{}")) / rest

    def _find_root(self, name: str) -> Path:
        match name:
            case "project":
                return self.project
            case "data":  # the folder that Electron calls appData
                if self.system == "darwin":
                    return self.home / "Library" / "Application Support"
                return self._get_folder("APPDATA", "AppData/Roaming") if self.system == "windows" else self._get_xdg()
            case "xdg":
                return self._get_xdg()
            case "codex":
                return self._get_folder("CODEX_HOME", ".codex")
            case "copilot":
                return self._get_folder("COPILOT_HOME", ".copilot")
            case _:
                return self.home

    def _get_xdg(self) -> Path:
        return self._get_folder("XDG_CONFIG_HOME", ".config")

    def _get_folder(self, variable: str, otherwise: str) -> Path:
        given = Path(self.environ.get(variable) or "")
        return given if given.is_absolute() else self.home / otherwise


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """A file that a client reads: its path as a template, and where the servers are in it."""

    path: str
    """Starts with `{home}`, `{data}`, `{xdg}`, `{project}` or a client's own folder; its name may have a `*`."""
    table: tuple[str, ...]
    scope: Scope = "user"
    format: Format = "json"
    systems: frozenset[System] = frozenset({"linux", "darwin", "windows"})
    is_installable: bool = True
    """Whether `spindle install` may write it; files that are only read for older versions are not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownClient:
    """An MCP client."""

    name: str
    """As typed: `claude-desktop`."""
    title: str
    locations: tuple[Location, ...]
    command_extra: Mapping[str, object] = field(default_factory=dict[str, object])
    """Members that a server started by a command has besides."""
    is_command_list: bool = False
    """Whether `command` is the whole command line as a list."""
    url_key: str | None = "url"
    """The member for the URL of a streamable HTTP server; `None` if the file cannot name one."""
    url_extra: Mapping[str, object] = field(default_factory=dict[str, object])
    variable: str | None = None
    """How a header names an environment variable, such as `${env:NAME}`; `None` if it cannot."""
    restart: str = "restart it"
    """What makes the client read the file again."""

    def find_location(self, machine: Machine, scope: Scope) -> Location | None:
        """Return the file to install into: the first one that exists, else the first one."""
        fitting = [
            each
            for each in self.locations
            if each.is_installable and each.scope == scope and machine.system in each.systems
        ]
        return next((each for each in fitting if machine.expand(each.path).exists()), next(iter(fitting), None))


_SERVERS: Final = ("mcpServers",)
_CODE: Final = "{data}/Code/User"
_INSIDERS: Final = "{data}/Code - Insiders/User"


def _vscode(name: str, title: str, folder: str) -> KnownClient:
    return KnownClient(
        name=name,
        title=title,
        locations=(
            Location(path=f"{folder}/mcp.json", table=("servers",), format="jsonc"),
            Location(path="{project}/.vscode/mcp.json", table=("servers",), format="jsonc", scope="project"),
            Location(path=f"{folder}/settings.json", table=("mcp", "servers"), format="jsonc", is_installable=False),
        ),
        command_extra={"type": "stdio"},
        url_extra={"type": "http"},
        variable="${env:NAME}",
        restart="it reads the file at once; start the server under `MCP: List Servers`",
    )


def _extension(folder: str, id: str, file: str) -> Location:
    return Location(path=f"{folder}/globalStorage/{id}/settings/{file}", table=_SERVERS)


CLIENTS: Final[Mapping[str, KnownClient]] = {
    client.name: client
    for client in (
        KnownClient(
            name="claude-desktop",
            title="Claude Desktop",
            locations=(Location(path="{data}/Claude/claude_desktop_config.json", table=_SERVERS),),
            url_key=None,  # remote servers are added as connectors, in its settings
            restart="quit and start it again",
        ),
        KnownClient(
            name="claude-code",
            title="Claude Code",
            locations=(
                Location(path="{home}/.claude.json", table=_SERVERS),
                Location(path="{home}/.claude.json", table=("projects", ANY, *_SERVERS), is_installable=False),
                Location(path="{project}/.mcp.json", table=_SERVERS, scope="project"),
            ),
            command_extra={"type": "stdio"},
            url_extra={"type": "http"},
            variable="${NAME}",
            restart="start a new session",
        ),
        KnownClient(
            name="cursor",
            title="Cursor",
            locations=(
                Location(path="{home}/.cursor/mcp.json", table=_SERVERS, format="jsonc"),
                Location(path="{project}/.cursor/mcp.json", table=_SERVERS, format="jsonc", scope="project"),
            ),
            variable="${env:NAME}",
        ),
        _vscode("vscode", "VS Code", _CODE),
        _vscode("vscode-insiders", "VS Code Insiders", _INSIDERS),
        KnownClient(
            name="windsurf",
            title="Windsurf",
            locations=(
                Location(path="{home}/.codeium/windsurf/mcp_config.json", table=_SERVERS),
                Location(path="{home}/.codeium/mcp_config.json", table=_SERVERS, is_installable=False),
            ),
            url_key="serverUrl",
            restart="refresh the servers in its MCP panel",
        ),
        KnownClient(
            name="zed",
            title="Zed",
            locations=(
                Location(
                    path="{xdg}/zed/settings.json",
                    table=("context_servers",),
                    format="jsonc",
                    systems=frozenset({"linux", "darwin"}),
                ),
                Location(
                    path="{data}/Zed/settings.json",
                    table=("context_servers",),
                    format="jsonc",
                    systems=frozenset({"windows"}),
                ),
                Location(
                    path="{project}/.zed/settings.json", table=("context_servers",), format="jsonc", scope="project"
                ),
            ),
            restart="it reads the file at once",
        ),
        KnownClient(
            name="codex",
            title="Codex",
            locations=(
                Location(path="{codex}/config.toml", table=("mcp_servers",), format="toml"),
                Location(path="{project}/.codex/config.toml", table=("mcp_servers",), format="toml", scope="project"),
            ),
            variable="NAME",  # in bearer_token_env_var
            restart="start a new session",
        ),
        KnownClient(
            name="gemini",
            title="Gemini CLI",
            locations=(
                Location(path="{home}/.gemini/settings.json", table=_SERVERS, format="jsonc"),
                Location(path="{project}/.gemini/settings.json", table=_SERVERS, format="jsonc", scope="project"),
            ),
            url_key="httpUrl",
            variable="${NAME}",
        ),
        KnownClient(
            name="copilot",
            title="GitHub Copilot CLI",
            locations=(Location(path="{copilot}/mcp-config.json", table=_SERVERS),),
            command_extra={"type": "local", "tools": ["*"]},
            url_extra={"type": "http", "tools": ["*"]},
            restart="start a new session",
        ),
        KnownClient(
            name="cline",
            title="Cline",
            locations=(
                _extension(_CODE, "saoudrizwan.claude-dev", "cline_mcp_settings.json"),
                _extension(_INSIDERS, "saoudrizwan.claude-dev", "cline_mcp_settings.json"),
            ),
            url_extra={"type": "streamableHttp"},
            restart="it reads the file at once",
        ),
        KnownClient(
            name="roo-code",
            title="Roo Code",
            locations=(
                _extension(_CODE, "rooveterinaryinc.roo-cline", "mcp_settings.json"),
                _extension(_INSIDERS, "rooveterinaryinc.roo-cline", "mcp_settings.json"),
                Location(path="{project}/.roo/mcp.json", table=_SERVERS, scope="project"),
            ),
            url_extra={"type": "streamable-http"},
            restart="it reads the file at once",
        ),
        KnownClient(
            name="continue",
            title="Continue",
            locations=(
                Location(path="{project}/.continue/mcpServers/spindle.json", table=_SERVERS, scope="project"),
                Location(path="{home}/.continue/config.yaml", table=_SERVERS, format="yaml", is_installable=False),
                Location(
                    path="{project}/.continue/mcpServers/*.json", table=_SERVERS, scope="project", is_installable=False
                ),
                Location(
                    path="{project}/.continue/mcpServers/*.yaml",
                    table=_SERVERS,
                    scope="project",
                    format="yaml",
                    is_installable=False,
                ),
            ),
            url_extra={"type": "streamable-http"},
            restart="it reads the file at once",
        ),
        KnownClient(
            name="opencode",
            title="opencode",
            locations=(
                Location(path="{xdg}/opencode/opencode.json", table=("mcp",), format="jsonc"),
                Location(path="{xdg}/opencode/opencode.jsonc", table=("mcp",), format="jsonc"),
                Location(path="{project}/opencode.json", table=("mcp",), format="jsonc", scope="project"),
                Location(path="{project}/opencode.jsonc", table=("mcp",), format="jsonc", scope="project"),
            ),
            command_extra={"type": "local", "enabled": True},
            is_command_list=True,
            url_extra={"type": "remote", "enabled": True},
            variable="{env:NAME}",
        ),
        KnownClient(
            name="lm-studio",
            title="LM Studio",
            locations=(
                Location(path="{home}/.lmstudio/mcp.json", table=_SERVERS),
                Location(path="{home}/.cache/lm-studio/mcp.json", table=_SERVERS),
            ),
            restart="it reads the file at once",
        ),
    )
}
"""The clients by name."""
