"""What a `spindle.toml` may say: its tables and keys, and nothing else."""

import re
from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

Text = Annotated[str, StringConstraints(min_length=1)]
Texts = Annotated[tuple[Text, ...], Field(strict=False)]
Table = dict[str, str]
Spot = Annotated[str, StringConstraints(pattern=r"^[\w.]+:[\w.]+$")]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_./-]*$", max_length=200)]

MEMORY = "memory"
"""In the place of a path: keep it in this process, as long as it lives."""


class Section(BaseModel):
    """One table: its values cannot change, and a key that is not declared is refused."""

    # Built when a file is read: without one, starting need not pay for it.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class SpindleSection(Section):
    """`[spindle]`: where this set-up keeps its things, and who uses it when nobody says."""

    state: Text | None = None
    """The folder of the spool, the journal, the tools' storage and the scratch workspace."""
    profile: Name | None = None
    """The profile of a caller who names none."""


class ToolsSection(Section):
    """`[tools]`: which tools there are besides those of MCP servers."""

    kit: bool | Texts = False
    """`true` for all that the reach serves, or the names of toolsets."""
    modules: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[\w.]+:[\w.]+$")], ...], Field(strict=False)
    ] = ()
    """`package.module:name`: a tool, a list of tools, a registry, or a function that gives one of these."""
    python_path: Texts = ()
    """Folders that are searched for the modules first."""
    http_secrets: dict[SecretName, Texts] = {}
    """Secrets that `http_request` may send by their names, each with the hosts it may go to."""


class LimitsSection(Section):
    """`[limits]`: how much a call may show, how long it may take, how many run at once."""

    budget_chars: Count = 80_000
    timeout_seconds: Seconds = 120
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64


class SpoolSection(Section):
    """`[spool]`: where large results are kept whole, and for how long."""

    path: Text | None = None
    """A folder, `"memory"`, or an object store such as `"s3://bucket/prefix"`."""
    max_bytes: Count | None = 1 << 30
    max_age_days: Seconds | None = 30


class JournalSection(Section):
    """`[journal]`: where each call is written down."""

    path: Text | None = None
    """A SQLite file, or `"memory"`."""


class ReachSection(Section):
    """`[reach]`: what the tools can get at; nothing that is not named here."""

    root: Text | None = None
    """The folder that file tools and commands see; a scratch folder unless it is given."""
    read: Texts | None = None
    write: Texts | None = None
    hosts: Texts = ()
    private_addresses: Texts = ()
    commands: Texts = ()
    shell: bool = False
    secrets: Annotated[tuple[SecretName, ...], Field(strict=False)] = ()
    """Names only; the values come from the environment or from `secrets_file`."""
    secrets_file: Text | None = None


_STDIO_KEYS = ("args", "env", "env_secrets", "env_passthrough", "cwd")
_HTTP_KEYS = ("headers", "header_secrets")


class ServerEntry(Section):
    """`[mcp.servers.NAME]`: one upstream MCP server, started by a command or reached at an address."""

    command: Text | None = None
    args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    env: Table = {}
    env_secrets: dict[str, SecretName] = {}
    env_passthrough: Texts = ()
    cwd: Text | None = None
    url: Annotated[str, StringConstraints(pattern=r"^(https?://|\$\{)")] | None = None
    headers: Table = {}
    header_secrets: dict[str, SecretName] = {}
    required: bool = False
    timeout_seconds: Seconds = 60
    start_timeout_seconds: Seconds = 30
    max_result_chars: Count = 50_000
    tools: Texts | None = None
    enabled: bool = True
    trusted: bool = False

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("expected either command, for a server of your own, or url, for one that runs elsewhere")
        ours = {
            "command": ("headers", "header_secrets"),
            "url": ("args", "env", "env_secrets", "env_passthrough", "cwd"),
        }
        way = "url" if self.command is None else "command"
        wrong = [name for name in ours[way] if name in self.model_fields_set]
        if wrong:
            raise ValueError(f"{wrong[0]} has no meaning for a server that is given by {way}")
        return self


class McpSection(Section):
    """`[mcp]`: upstream MCP servers, here or in the files of desktop clients."""

    imports: Texts = Field(default=(), alias="import")
    servers: dict[Name, ServerEntry] = {}


class ProfileEntry(Section):
    """`[profiles.NAME]`: what one kind of client is shown and may run, and how it proves who it is."""

    allowed_tools: Texts | None = None
    allowed_mcp_servers: Texts | None = None
    allowed_plugins: Texts | None = None
    allowed_mcp_tools: dict[str, Texts] | None = None
    exclude_tools: Texts = ()
    token_env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")] | None = None
    """The environment variable that holds this profile's bearer token."""
    token_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$")] | None = None

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.token_env is not None and self.token_sha256 is not None:
            raise ValueError("expected token_env or token_sha256, not both")
        return self


class ServerSection(Section):
    """`[server]`: how `spindle serve` listens."""

    host: Text = "127.0.0.1"
    port: Port = 8765
    path: Annotated[str, StringConstraints(pattern=r"^/[\w./-]*$")] = "/mcp"
    allowed_origins: Texts = ()
    allowed_hosts: Texts = ()
    stop_seconds: Seconds = 10
    """How long running calls may take to end after the server was told to stop."""
    fence: bool = True
    """Whether results are fenced as what they are: content that may not be believed."""
    name: Text = "spindle"
    """How the server introduces itself."""
    offers: Spot | None = None
    """`package.module:name` of a server of the official SDK, whose prompts and resources stand beside the tools."""
    instructions: Text | None = None
    """What its clients' models are told about it."""


class ConfigFile(Section):
    """A whole `spindle.toml`."""

    spindle: SpindleSection = Field(default_factory=SpindleSection.model_construct)
    tools: ToolsSection = Field(default_factory=ToolsSection.model_construct)
    limits: LimitsSection = Field(default_factory=LimitsSection.model_construct)
    spool: SpoolSection = Field(default_factory=SpoolSection.model_construct)
    journal: JournalSection = Field(default_factory=JournalSection.model_construct)
    reach: ReachSection = Field(default_factory=ReachSection.model_construct)
    mcp: McpSection = Field(default_factory=McpSection.model_construct)
    profiles: dict[Name, ProfileEntry] = {}
    server: ServerSection = Field(default_factory=ServerSection.model_construct)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_table(cls, value: Any) -> Any:
        if isinstance(value, dict | Section):
            return cast("Any", value)
        raise ValueError("expected a table")

    @model_validator(mode="after")
    def _known_profile(self) -> Self:
        wanted = self.spindle.profile
        if wanted is not None and wanted not in self.profiles:
            raise ValueError(f"spindle.profile names {wanted!r}, and there is no [profiles.{wanted}]")
        return self


TOKEN = re.compile(
    r"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY)"
)
"""What nothing but a credential looks like."""

_TELLING_NAME = re.compile(
    r"(^|[_\W])(api[_-]?key|access[_-]?key|token|secret|password|passwd|authorization|cookie|credential)s?($|[_\W])",
    re.IGNORECASE,
)


def looks_like_secret(name: str, value: str) -> bool:
    """Whether a value is a credential, by its own looks or by the name it is given to."""
    if TOKEN.search(value):
        return True
    plain = re.sub(r"\$\{[^}]*\}", "", value).removeprefix("Bearer").removeprefix("Basic").strip()
    return bool(plain) and len(plain) >= 8 and bool(_TELLING_NAME.search(name))
