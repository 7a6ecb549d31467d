"""Schema of what `spindle serve` offers and to whom: `[profiles]`, `[trust]` and `[server]`."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from spindle.cli.config.schema_flow import ProfileFlowSection
from spindle.cli.config.schema_types import ConfigSection, Count, ObjectPath, Port, Seconds, Text, Texts


class ProfileEntry(ConfigSection):
    """`[profiles.NAME]`: the tools that one kind of client may see and run, and its bearer token."""

    allowed_tools: Texts | None = None
    allowed_mcp_servers: Texts | None = None
    allowed_plugins: Texts | None = None
    allowed_mcp_tools: dict[str, Texts] | None = None
    exclude_tools: Texts = ()
    allowed_resources: Texts | None = None
    """URIs and URI templates as clients see them, or beginnings of them that end with `*`."""
    allowed_prompts: Texts | None = None
    """Names of prompts as clients see them, or beginnings of them that end with `*`."""
    token_env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")] | None = None
    """The environment variable that holds this profile's bearer token."""
    token_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    page: Literal["viewer", "operator"] | None = None
    """What the holder of this profile's token may do on the page of the server; by default not even see it."""
    flow: ProfileFlowSection | None = None
    """How `[flow]` is stricter for this profile."""

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        if self.token_env is not None and self.token_sha256 is not None:
            raise ValueError("expected token_env or token_sha256, not both")
        return self


class TrustSection(ConfigSection):
    """`[trust]`: what untrusted content must not reach without a person's approval."""

    dangerous: Texts = ()
    """Tools that need approval once untrusted content was shown to the client, unless they are read-only."""


class LintSection(ConfigSection):
    """`[lint]`: what `spindle lint` and the gateway do not report."""

    ignore: Texts = ()
    """Rules (`SP304`), families (`SP3`), or a rule for some tools: `SP104:server/tool`, with `*` for any text."""


class ServerOAuthSection(ConfigSection):
    """`[server.oauth]`: the access tokens of an authorization server that `spindle serve` accepts."""

    issuer: Text
    """The authorization server, exactly as its tokens name it."""
    scopes: Annotated[dict[Text, Text], Field(min_length=1)]
    """Scope → profile."""
    resource: Text | None = None
    """The public URL of the server; by default `audience`, or the address that it listens on."""
    audience: Text | None = None
    """What `aud` of a token must contain; by default `resource`."""
    jwks_url: Text | None = None
    """The address of the issuer's keys; by default the issuer's metadata names it."""
    required_scopes: Texts = ()
    """Scopes that every token must have."""
    algorithms: Texts | None = None
    leeway_seconds: Annotated[float, Field(ge=0, le=300)] = 30
    """How far clocks may differ."""


class ServerSection(ConfigSection):
    """`[server]`: how `spindle serve` listens."""

    host: Text = "127.0.0.1"
    port: Port = 8765
    path: Annotated[str, StringConstraints(pattern=r"^/[\w./-]*$")] = "/mcp"
    allowed_origins: Texts = ()
    allowed_hosts: Texts = ()
    tls_certificate: Text | None = None
    """The file of the certificate and its chain, in PEM; with `tls_key`, the server speaks HTTPS."""
    tls_key: Text | None = None
    oauth: ServerOAuthSection | None = None
    max_sessions: Count = 1_000
    """Beyond this many open sessions, opening another one is refused."""
    max_calls_per_session: Count = 256
    """Beyond this many calls in progress, running or waiting, calls of a client are refused."""
    max_running_per_session: Count | None = None
    """How many calls of one client run at once; by default half of `limits.concurrency`."""
    max_requests_per_minute: Count = 6_000
    """For each token."""
    tasks: bool = True
    """Whether slow calls become tasks for clients that can use them."""
    task_after_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20
    """A call that takes longer becomes a task for a client of the newer protocol; 0 makes every call one at once."""
    task_ttl_seconds: Seconds = 86_400
    """How long a task is kept at most, from its creation."""
    stop_seconds: Seconds = 10
    """How long running calls may take to finish during shutdown."""
    metrics: bool = True
    """Whether /metrics is served, with the extra `metrics`; it needs a token where tokens are configured."""
    page: bool | None = None
    """Whether the page is served; by default only on loopback addresses."""
    fence: bool = True
    """Whether results are fenced as untrusted content."""
    structured: bool = True
    """Whether tools declare an `outputSchema` and return structured content."""
    cache_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60
    """How long clients may keep lists of tools, prompts and resources; 0 for not at all."""
    cache_scope: Literal["private", "public"] = "private"
    """`public` if shared caches may keep them, which needs that there are no tokens."""
    sse_path: Annotated[str, StringConstraints(pattern=r"^/[\w./-]*$")] | None = None
    """Where clients of the older HTTP+SSE transport connect, such as `/sse`; off by default."""
    name: Text = "spindle"
    """The server name sent to clients."""
    offers: ObjectPath | None = None
    """`package.module:name` of a server of the official SDK; its prompts and resources are served with the tools."""
    instructions: Text | None = None
    """Instructions sent to clients for their models."""
