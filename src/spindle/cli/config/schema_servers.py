"""Schema of `[mcp]` and `[openapi]`: the upstream servers and APIs of a configuration."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from spindle.cli.config.schema_types import ConfigSection, Count, Name, Seconds, SecretName, Table, Text, Texts

Url = Annotated[str, StringConstraints(pattern=r"^(https?://|\$\{)")]
_SANDBOX_KEYS = ("sandbox", "read", "write", "network", "max_memory_bytes", "max_processes", "max_cpu_seconds")


class ToolEntry(ConfigSection):
    """`[mcp.servers.NAME.tools.TOOL]`: the settings of one tool; TOOL is the server's own name, or `"*"`."""

    requires_approval: bool | None = None
    timeout_seconds: Seconds | None = None
    max_result_chars: Count | None = None
    hidden: bool | None = None


def _get_form(value: object) -> str | None:
    return "dict[settings]" if isinstance(value, dict) else "tuple[names]" if isinstance(value, list | tuple) else None


ToolChoice = Annotated[
    Annotated[Texts, Tag("tuple[names]")] | Annotated[dict[str, ToolEntry], Tag("dict[settings]")],
    Discriminator(
        _get_form,
        custom_error_type="tools",
        custom_error_message="Input should be a list in square brackets or a table",
    ),
]
"""The tools to offer, or settings by tool."""


class ServerEntry(ConfigSection):
    """`[mcp.servers.NAME]`: one upstream MCP server, started by a command or reached at a URL."""

    command: Text | None = None
    args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    env: Table = {}
    env_secrets: dict[str, SecretName] = {}
    env_passthrough: Texts = ()
    cwd: Text | None = None
    url: Url | None = None
    headers: Table = {}
    header_secrets: dict[str, SecretName] = {}
    prefix: bool = True
    """Whether its tools, prompts and resources are renamed after the server."""
    required: bool = False
    timeout_seconds: Seconds = 60
    start_timeout_seconds: Seconds = 30
    max_result_chars: Count = 50_000
    tools: ToolChoice | None = None
    """A list of the tools to offer, or a table of settings by tool."""
    enabled: bool = True
    trusted: bool = False
    sampling: bool = False
    roots: bool = False
    sse: bool | None = None
    sandbox: Literal["auto", "required", "none"] = "auto"
    """How a server that is started here is confined; with `none` it is not, and `read` and `write` do not bind it."""
    read: Texts = ()
    write: Texts = ()
    network: bool = True
    max_memory_bytes: Count | None = None
    max_processes: Count | None = None
    max_cpu_seconds: Count | None = None

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("expected either command, for a local server, or url, for a remote one")
        ours = {
            "command": ("headers", "header_secrets", "sse"),
            "url": ("args", "env", "env_secrets", "env_passthrough", "cwd", *_SANDBOX_KEYS),
        }
        way = "url" if self.command is None else "command"
        wrong = [name for name in ours[way] if name in self.model_fields_set]
        if wrong:
            raise ValueError(f"{wrong[0]} cannot be used for a server configured with {way}")
        return self


class McpSection(ConfigSection):
    """`[mcp]`: upstream MCP servers, defined here or imported from files of desktop clients."""

    imports: Texts = Field(default=(), alias="import")
    lock: Text | None = None
    """The lock file, which must then exist; without the key, `spindle.lock` beside this file is used if it exists."""
    unlocked_servers: Literal["offer", "quarantine"] = "offer"
    """What happens to servers that are not in the lock: they are offered with a warning, or withheld."""
    servers: dict[Name, ServerEntry] = {}


class OpenApiEntry(ConfigSection):
    """`[openapi.servers.NAME]`: one API, described by a file or by a document at a URL."""

    url: Url | None = None
    """Where the description is read; the host must be granted by `reach.hosts`."""
    file: Text | None = None
    """The description as a file, relative to the configuration."""
    base_url: Url | None = None
    """The address of the API, instead of the first server of the description."""
    secrets: dict[str, SecretName] = {}
    """Security scheme of the description → name of a secret."""
    operations: Texts | None = None
    """The operations to offer, by id or by `tag:NAME`; patterns such as `list*` are accepted. `None` offers all."""
    exclude: Texts = ()
    """Operations to leave out, written in the same way."""
    requires_approval: Texts = ()
    """Operations that a person must approve, written in the same way."""
    timeout_seconds: Seconds = 60
    max_result_chars: Count = 50_000
    enabled: bool = True
    trusted: bool = False
    """Whether to treat the responses of the API as trusted."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.url is None) == (self.file is None):
            raise ValueError("expected either url or file, for the description of the API")
        return self


class OpenApiSection(ConfigSection):
    """`[openapi]`: the APIs whose operations become tools."""

    servers: dict[Name, OpenApiEntry] = {}
