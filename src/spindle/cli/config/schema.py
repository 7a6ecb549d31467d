"""Schema of `spindle.toml`: its tables and keys, and detection of literal credentials."""

import re
from typing import Annotated, Literal, Self, cast

from pydantic import Field, StringConstraints, field_validator, model_validator

from spindle.cli.config.schema_flow import FlowSection
from spindle.cli.config.schema_gateway import LintSection, ProfileEntry, ServerSection, TrustSection
from spindle.cli.config.schema_servers import McpSection, OpenApiSection
from spindle.cli.config.schema_types import (
    ConfigSection,
    Count,
    Name,
    ObjectPath,
    Port,
    Seconds,
    SecretName,
    Text,
    Texts,
)


class SpindleSection(ConfigSection):
    """`[spindle]`: the state folder and the default profile."""

    state: Text | None = None
    """The folder of the spool, the journal, the tools' storage and the scratch workspace."""
    profile: Name | None = None
    """The default profile, for callers without one."""


class ToolsSection(ConfigSection):
    """`[tools]`: tools of the kit and of Python modules."""

    kit: bool | Texts = False
    """`true` for every toolset that `[reach]` supports, or a list of toolset names."""
    modules: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[\w.]+:[\w.]+$")], ...], Field(strict=False)
    ] = ()
    """`package.module:name`: a tool, a list of tools, a registry, or a function that returns one of these."""
    python_path: Texts = ()
    """Folders prepended to the module search path."""
    http_secrets: dict[SecretName, Texts] = {}
    """Names of the secrets that `http_request` may send, each with its allowed hosts."""


class LimitsSection(ConfigSection):
    """`[limits]`: result budget, timeout and concurrency of calls."""

    budget_chars: Count = 80_000
    preview_chars: Count = 8_000
    """Characters shown of a result that does not fit and is spooled; from `budget_chars` on it limits nothing."""
    timeout_seconds: Seconds = 120
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64


class ServerOptions(ConfigSection):
    """`options` of `[journal]` and `[storage]`."""

    password: SecretName | None = None
    """The name of the secret that holds the password."""

    def get_plain(self) -> dict[str, str | bool]:
        """Return the options that are not secret."""
        return {}

    def get_secrets(self) -> dict[str, str]:
        """Return the name of the secret of each credential."""
        return {} if self.password is None else {"password": self.password}


class ObjectOptions(ConfigSection):
    """`options` of `[spool]`: how an object store is reached; credentials are names of secrets, never values."""

    endpoint: Annotated[str, StringConstraints(pattern=r"^(https?://|\$\{)")] | None = None
    region: Text | None = None
    allow_http: bool | None = None
    access_key_id: SecretName | None = None
    secret_access_key: SecretName | None = None
    session_token: SecretName | None = None
    credentials: dict[str, SecretName] = {}
    """Credentials of other object stores, by the name of the client's option."""

    def get_plain(self) -> dict[str, str | bool]:
        """Return the options that are not secret."""
        given = {"endpoint": self.endpoint, "region": self.region, "allow_http": self.allow_http}
        return {name: value for name, value in given.items() if value is not None}

    def get_secrets(self) -> dict[str, str]:
        """Return the name of the secret of each credential."""
        given = {name: getattr(self, name) for name in ("access_key_id", "secret_access_key", "session_token")}
        return {name: value for name, value in given.items() if value is not None} | self.credentials


class StoreSection(ConfigSection):
    """Base of the tables that name a store by path or by URL."""

    path: Text | None = None
    url: Text | None = None

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.path is not None and self.url is not None:
            raise ValueError("expected path or url, not both")
        return self


class SpoolSection(StoreSection):
    """`[spool]`: where large results are stored in full, and for how long.

    `path` is a folder or `"memory"`; `url` is an object store such as `"s3://bucket/prefix"`.
    """

    options: ObjectOptions = Field(default_factory=ObjectOptions.model_construct)
    max_bytes: Count | None = 1 << 30
    max_age_days: Seconds | None = 30


class JournalSection(StoreSection):
    """`[journal]`: where calls are recorded; a SQLite file, `"memory"`, or the URL of a PostgreSQL database."""

    options: ServerOptions = Field(default_factory=ServerOptions.model_construct)


class StorageSection(StoreSection):
    """`[storage]`: where tools keep small values; a SQLite file, `"memory"`, or the URL of a Redis server."""

    options: ServerOptions = Field(default_factory=ServerOptions.model_construct)


class EngineOptions(ConfigSection):
    """`options` of `[engine]`: credentials as names of secrets, never values."""

    password: SecretName | None = None
    """The name of the secret that holds the password of the database of DBOS."""
    api_key: SecretName | None = None
    """The name of the secret that holds the API key of a Temporal service."""


class EngineSection(ConfigSection):
    """`[engine]`: the durable engine whose workers run the calls; without `url` they run in this process."""

    url: Text | None = None
    """`temporal://host:port/namespace` or `dbos+postgresql://user@host/database`."""
    queue: Text | Literal[False] = "spindle"
    """The task queue of tools whose toolset has none of its own; `false` runs them in the process of the caller."""
    task_queues: dict[Name, Text] = {}
    """The task queue of each toolset."""
    turns: dict[Name, ObjectPath] = {}
    """Runners whose turns `spindle worker` runs, by name: `package.module:function`, which returns a `TurnRunner`."""
    options: EngineOptions = Field(default_factory=EngineOptions.model_construct)
    worker_timeout_seconds: Seconds = 15
    """After this time without a heartbeat, other workers take over the calls of a worker."""
    retention_seconds: Seconds = 86_400
    """How long the engine keeps ended calls at least."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 16
    """How many calls of a task queue one `spindle worker` runs at once."""
    drain_seconds: Seconds = 30
    """How long running calls may take to finish when a worker is stopped."""
    health_host: Text = "127.0.0.1"
    health_port: Port | None = None
    """The port on which a worker serves /health and /metrics; none by default."""


class ReachSection(ConfigSection):
    """`[reach]`: the files, hosts, commands and secrets granted to tools; anything else is denied."""

    root: Text | None = None
    """The folder visible to file tools and commands; defaults to a scratch folder."""
    read: Texts | None = None
    write: Texts | None = None
    hosts: Texts = ()
    private_addresses: Texts = ()
    commands: Texts = ()
    shell: bool = False
    credential_files: Texts = ()
    """Credential files below `root`, such as `.npmrc`, that are withheld unless they are listed here."""
    sandbox: Literal["auto", "required", "none"] = "auto"
    """How commands are confined; with `none` they are not, and `root`, `read` and `write` do not bind them."""
    allowed_env: Texts = ()
    """Variables that decide which code a command runs, and that tools may set all the same."""
    secrets: Annotated[tuple[SecretName, ...], Field(strict=False)] = ()
    """Names only; the values come from the environment or from `secrets_file`."""
    secrets_file: Text | None = None


class ConfigFile(ConfigSection):
    """A whole `spindle.toml`."""

    spindle: SpindleSection = Field(default_factory=SpindleSection.model_construct)
    tools: ToolsSection = Field(default_factory=ToolsSection.model_construct)
    limits: LimitsSection = Field(default_factory=LimitsSection.model_construct)
    spool: SpoolSection = Field(default_factory=SpoolSection.model_construct)
    journal: JournalSection = Field(default_factory=JournalSection.model_construct)
    storage: StorageSection = Field(default_factory=StorageSection.model_construct)
    reach: ReachSection = Field(default_factory=ReachSection.model_construct)
    mcp: McpSection = Field(default_factory=McpSection.model_construct)
    openapi: OpenApiSection = Field(default_factory=OpenApiSection.model_construct)
    profiles: dict[Name, ProfileEntry] = {}
    server: ServerSection = Field(default_factory=ServerSection.model_construct)
    trust: TrustSection = Field(default_factory=TrustSection.model_construct)
    lint: LintSection = Field(default_factory=LintSection.model_construct)
    engine: EngineSection = Field(default_factory=EngineSection.model_construct)
    flow: FlowSection | None = None
    """Without it, values are not judged."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_table(cls, value: object) -> object:
        if isinstance(value, dict | ConfigSection):
            return cast("object", value)
        raise ValueError("expected a table")

    @model_validator(mode="after")
    def _known_profile(self) -> Self:
        wanted = self.spindle.profile
        if wanted is not None and wanted not in self.profiles:
            raise ValueError(f"spindle.profile is {wanted!r}, but [profiles.{wanted}] does not exist")
        return self


TOKEN = re.compile(
    r"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY)"
)
"""Formats that only credentials have."""

_SECRET_NAME = re.compile(
    r"(^|[_\W])(api[_-]?key|access[_-]?key|token|secret|password|passwd|authorization|cookie|credential)s?($|[_\W])",
    re.IGNORECASE,
)


def looks_like_secret(name: str, value: str) -> bool:
    """Return whether a value looks like a credential, by its format or by its key name."""
    if TOKEN.search(value):
        return True
    plain = re.sub(r"\$\{[^}]*\}", "", value).removeprefix("Bearer").removeprefix("Basic").strip()
    return bool(plain) and len(plain) >= 8 and bool(_SECRET_NAME.search(name))
