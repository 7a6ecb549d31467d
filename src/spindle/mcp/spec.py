"""The configuration of one upstream MCP server: what to start or where to connect, its limits, and its trust."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast
from urllib.parse import urlsplit

from spindle.capabilities.process.policy import SandboxMode
from spindle.errors import InvalidServerSpecError
from spindle.json_types import is_list_or_tuple, is_mapping, untyped
from spindle.mcp.tool_settings import ToolSettings

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OUR_HEADERS = frozenset(
    (
        *("accept", "connection", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"),
        *("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"),
    )
)
_LIMITS = ("max_memory_bytes", "max_processes", "max_cpu_seconds")
_STDIO_ONLY = ("args", "env", "env_passthrough", "env_secrets", "cwd", "read", "write", *_LIMITS)
_HTTP_ONLY = ("headers", "header_secrets", "sse")
_SANDBOXES = ("auto", "required", "none")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSpec:
    """The specification of an upstream server: `command` starts it over stdio, `url` connects over streamable HTTP.

    Raises:
        InvalidServerSpecError: A value is invalid or missing; `field` names it.
    """

    name: str
    """Prefix of its tools: `mcp__<name>__<tool>`."""
    prefix: bool = True
    """Whether its tools, prompts and resources are renamed after the server; `False` keeps their own names and URIs."""
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    env_passthrough: tuple[str, ...] = ()
    """Variables of this process to pass on; a pattern such as `AWS_*` skips names that look secret."""
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    header_secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Header → name of a secret, resolved for each request."""
    env_secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variable → name of a secret, resolved for each start."""
    required: bool = False
    """Whether `McpServers.ready` raises when the server cannot be connected."""
    timeout_seconds: float = 60
    """Limit for one call, including the time a user takes to answer its questions."""
    start_timeout_seconds: float = 30
    max_result_chars: int | None = 50_000
    tools: tuple[str, ...] | None = None
    """The tools to offer, by the server's own names; `None` offers all."""
    tool_settings: Mapping[str, ToolSettings] = field(default_factory=dict[str, ToolSettings])
    """Settings of tools by the server's own names; those of `"*"` apply to the tools that are not named."""
    enabled: bool = True
    trusted: bool = False
    """Whether to treat its output as trusted and its tool annotations as true."""
    sampling: bool = False
    """Whether it may ask the models of clients that declare sampling; their users read which server asks."""
    sse: bool | None = None
    """Whether to connect over the older HTTP+SSE transport; by default if the server does not understand the newer."""
    roots: bool = False
    """Whether it receives the roots of clients; otherwise it gets an empty list."""
    sandbox: SandboxMode = "auto"
    """How a server over stdio is confined: `auto` as far as the machine can, `required` or not at all started."""
    sandbox_kinds: tuple[Literal["bubblewrap", "namespaces", "landlock"], ...] = ()
    """The kinds of sandbox to try, in order; all of them, strongest first, if empty."""
    home: str | None = None
    """The folder of its home, kept between starts; `None` is a folder that is removed at the end."""
    read: tuple[str, ...] = ()
    """Paths that it may read besides its home, what it needs to run, and existing paths among `args`."""
    write: tuple[str, ...] = ()
    """Paths that it may read and write besides its home."""
    network: bool = True
    """Whether it may use the network; without it, it has a loopback interface of its own at most."""
    max_memory_bytes: int | None = None
    """Address space of each of its processes; Node.js, Go and Java reserve far more than they use."""
    max_processes: int | None = None
    """Processes and threads at once; 1024 by default in a sandbox."""
    max_cpu_seconds: int | None = None
    """CPU time of each of its processes, until it is killed."""

    def __post_init__(self) -> None:
        self._check_name()
        for name in ("args", "env_passthrough", "read", "write", "sandbox_kinds"):
            self._set_field(name, self._texts(name, getattr(self, name)))
        if self.tools is not None:
            self._set_field("tools", self._texts("tools", self.tools))
        for name in ("env", "headers", "header_secrets", "env_secrets"):
            self._set_field(name, self._table(name, getattr(self, name)))
        for name in ("required", "enabled", "trusted", "prefix", "sampling", "roots", "network"):
            self._check_field(name, "True or False", lambda value: isinstance(value, bool))
        for name in ("timeout_seconds", "start_timeout_seconds"):
            self._check_field(name, "a number of seconds above 0", _is_seconds)
        self._check_field("sse", "True, False or None", lambda value: value is None or isinstance(value, bool))
        self._check_field("max_result_chars", "a whole number of at least 1, or None", _is_cap)
        for name in _LIMITS:
            self._check_field(name, "a whole number of at least 1, or None", _is_cap)
        self._check_field("sandbox", f"one of {', '.join(_SANDBOXES)}", lambda value: value in _SANDBOXES)
        self._check_tool_settings()
        self._check_place()
        self._check_env()
        self._check_headers()

    @property
    def transport(self) -> str:
        """The transport: `stdio` or `http`."""
        return "http" if self.command is None else "stdio"

    def _check_name(self) -> None:
        name = untyped(self.name)
        if not isinstance(name, str) or not name.strip():
            raise InvalidServerSpecError("an MCP server needs a name: a string that is not empty", field="name")
        if name != name.strip() or not name.isprintable() or len(name) > 128:
            self._raise_invalid("name", "must be printable, at most 128 characters, without surrounding whitespace")
        if not is_unambiguous_name(name):
            self._raise_invalid(
                "name", "must not contain __ or end with _, which separates it from its tools' names; rename it"
            )

    def _check_place(self) -> None:
        if (self.command is None) == (self.url is None):
            given = "both" if self.command is not None else "neither"
            self._raise_invalid(
                "command",
                f"is wrong: {given} of command and url are set; set command to start it, or url to connect to it",
            )
        wrong = _HTTP_ONLY if self.url is None else _STDIO_ONLY
        for name in wrong:
            if getattr(self, name):
                self._raise_invalid(name, f"does not apply to a server over {self.transport}; remove it")
        if self.command is not None:
            self._check_field("command", "the name or path of a program", _is_program)
            for name in ("cwd", "home"):
                self._check_field(name, "a directory path", lambda value: value is None or _is_program(value))
        else:
            self._check_url(self.url)

    def _check_url(self, url: object) -> None:
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            is_fine = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
            is_fine = is_fine and (parts is None or parts.port is None or parts.port > 0)
        except ValueError:
            parts, is_fine = None, False
        if parts is None or not is_fine or not str(url).isprintable() or " " in str(url):
            self._raise_invalid("url", "must be an http:// or https:// URL, such as http://127.0.0.1:8000/mcp")
        if parts.username is not None or parts.password is not None:
            self._raise_invalid("url", "must not contain a user name or password; use header_secrets")
        if parts.fragment:
            self._raise_invalid("url", "must not have a fragment (#…)")

    def _check_tool_settings(self) -> None:
        settings = untyped(self.tool_settings)
        is_table = is_mapping(settings) and all(
            isinstance(name, str) and isinstance(each, ToolSettings) for name, each in settings.items()
        )
        if not is_table:
            self._raise_invalid("tool_settings", "must map names of tools to ToolSettings")
        if self.tools is not None and self.tool_settings:
            self._raise_invalid("tool_settings", 'cannot be combined with tools; hide the others with "*"')
        self._set_field("tool_settings", dict(self.tool_settings))

    def _check_env(self) -> None:
        for name in (*self.env, *self.env_secrets, *self.env_passthrough):
            if not name or "=" in name or "\0" in name:
                self._raise_invalid("env", f"has an invalid variable name: {name!r:.80}")
        for name, value in self.env.items():
            if "\0" in value:
                self._raise_invalid("env", f"has a NUL in the value of {name!r:.80}")
        self._check_no_overlap("env", "env_secrets", set(self.env) & set(self.env_secrets))

    def _check_headers(self) -> None:
        for name in ("headers", "header_secrets"):
            for header in cast("Mapping[str, str]", getattr(self, name)):
                if not _HEADER_NAME.fullmatch(header):
                    self._raise_invalid(name, f"has an invalid header name: {header!r:.80}")
                if header.lower() in _OUR_HEADERS:
                    self._raise_invalid(name, f"must not set {header!r}: the protocol sets it")
        for header, value in self.headers.items():
            if header.lower() in ("authorization", "proxy-authorization"):
                hint = f"header_secrets={{{header!r}: 'NAME_OF_A_SECRET'}}"
                self._raise_invalid("headers", f"must not contain credentials: reference them with {hint}")
            if not value.isascii() or not value.isprintable():
                self._raise_invalid("headers", f"has a value for {header!r} that is not printable ASCII")
        lowered = {header.lower() for header in self.headers} & {header.lower() for header in self.header_secrets}
        self._check_no_overlap("headers", "header_secrets", lowered)

    def _check_no_overlap(self, name: str, other: str, both: set[str]) -> None:
        if both:
            self._raise_invalid(name, f"and {other} both set {min(both)!r:.80}; keep one")

    def _texts(self, name: str, value: object) -> tuple[str, ...]:
        if is_list_or_tuple(value) and all(isinstance(item, str) and "\0" not in item for item in value):
            return tuple(value)
        return self._raise_invalid(name, f"must be a list of strings, not {value!r:.80}")

    def _table(self, name: str, value: object) -> dict[str, str]:
        if is_mapping(value):
            table = dict(value)
            if all(isinstance(key, str) and isinstance(text, str) for key, text in table.items()):
                return cast("dict[str, str]", table)
        # The values may be secret, so the message omits them.
        return self._raise_invalid(name, f"must map strings to strings, not be a {type(value).__name__}")

    def _check_field(self, name: str, expected: str, fits: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if not fits(value):
            self._raise_invalid(name, f"must be {expected}, not {value!r:.80}")

    def _set_field(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _raise_invalid(self, name: str, problem: str) -> NoReturn:
        raise InvalidServerSpecError(f"MCP server {self.name!r}: {name} {problem}", server=self.name, field=name)


def is_unambiguous_name(name: str) -> bool:
    """Return whether `mcp__<name>__<tool>` can be split in one way only."""
    return "__" not in name and not name.endswith("_")


def is_custom_header(name: object) -> bool:
    """Return whether `name` is a valid header that the protocol does not set itself."""
    return isinstance(name, str) and _HEADER_NAME.fullmatch(name) is not None and name.lower() not in _OUR_HEADERS


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _is_cap(value: object) -> bool:
    return value is None or (type(value) is int and value >= 1)


def _is_program(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value
