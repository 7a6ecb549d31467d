"""Upstream MCP servers, capability backends and secrets of a configuration.

`Follower` keeps the tools of the servers in the same registry as the local tools.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from spindle.capabilities import from_file
from spindle.capabilities.resolve import Backends
from spindle.cli.config.loader import Config
from spindle.cli.config.schema import looks_like_secret
from spindle.cli.config.schema_servers import ServerEntry
from spindle.cli.config.sources import RemoteStore
from spindle.errors import CapabilityError, InvalidServerSpecError, SecretError, UsageError
from spindle.extras import missing_extra
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.mcp.login_settings import LoginSettings
from spindle.mcp.spec import ServerSpec
from spindle.mcp.tool_settings import ToolSettings
from spindle.tools.declaration import Tool
from spindle.tools.entry import Entry
from spindle.tools.registry import ToolRegistry

_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_.]{0,63}")
"""Names without `-`, which marks a digest, and without upper case, which some file systems do not distinguish."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_CREDENTIAL_HEADERS = {"authorization", "proxy-authorization"}


def name_secret_headers(server: str, entry: ServerEntry) -> dict[str, str]:
    """Map each header that carries a credential to a secret name; it has spaces, which configured names cannot have."""
    return {
        header: f"{header} header of {server}"
        for header, value in entry.headers.items()
        if (header.lower() in _CREDENTIAL_HEADERS or looks_like_secret(header, value))
        and header not in entry.header_secrets
    }


def get_header_secrets(servers: Mapping[str, ServerEntry]) -> dict[str, str]:
    """Return the values of the secret names of `named_headers`."""
    return {
        name: entry.headers[header]
        for server, entry in servers.items()
        for header, name in name_secret_headers(server, entry).items()
    }


def build_login_settings(entry: ServerEntry) -> LoginSettings | None:
    """Return how users log in to a server; `None` if they do not."""
    if isinstance(entry.oauth, bool):
        return LoginSettings() if entry.oauth else None
    return LoginSettings(**entry.oauth.model_dump())


def build_specs(config: Config) -> list[ServerSpec]:
    """Return the specs of the enabled servers.

    Raises:
        InvalidConfigError: The settings of a server are invalid.
        MissingExtraError: A server is enabled and the extra `mcp` is not installed.
    """
    enabled = {name: entry for name, entry in config.servers.items() if entry.enabled}
    if not enabled:
        return []
    if find_spec("mcp") is None:
        raise missing_extra("mcp", purpose=f"the configured servers ({', '.join(enabled)})", package="mcp")
    found: list[ServerSpec] = []
    for name, entry in enabled.items():
        secret = name_secret_headers(name, entry)
        given: JsonObject = entry.model_dump()
        given["headers"] = {header: value for header, value in entry.headers.items() if header not in secret}
        given["header_secrets"] = entry.header_secrets | secret
        given["home"] = None if entry.command is None else str(get_server_home(config.state, name))
        given |= _read_tools(given["tools"])
        try:
            given["oauth"] = build_login_settings(entry)
            found.append(ServerSpec(name=name, **given))
        except InvalidServerSpecError as error:
            raise config.error(("mcp", "servers", name, error.field or ""), str(error)) from error
        except UsageError as error:  # of the login settings
            raise config.error(("mcp", "servers", name, "oauth", error.field or ""), str(error)) from error
    return found


def _read_tools(tools: JsonValue) -> JsonObject:
    """Return the fields of a spec for `tools`: the names to offer, or the settings by tool."""
    if not is_object(tools):
        return {"tools": tools}
    return {"tools": None, "tool_settings": {name: ToolSettings(**given) for name, given in tools.items()}}


def get_server_home(state: Path, name: str) -> Path:
    """Return the home of a server in the state folder; names of imported servers may be any text."""
    if not _PLAIN_NAME.fullmatch(name):
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{_UNSAFE.sub('-', name)[:40].strip('.-')}-{digest}"
    return state / "servers" / name


def list_unconfined(config: Config) -> list[str]:
    """Return the names of the enabled servers that are started without a sandbox by their settings."""
    servers = config.servers.items()
    return [name for name, each in servers if each.enabled and each.command is not None and each.sandbox == "none"]


class UpstreamToolSync:
    """Synchronization of the changing tools of MCP servers into a registry that also holds local tools."""

    def __init__(
        self,
        registry: ToolRegistry,
        upstream: ToolRegistry,
        order: Sequence[str] = (),
        *,
        warn: Callable[[str], object] = lambda _message: None,
    ) -> None:
        self._registry = registry
        self._order = {name: number for number, name in enumerate(order)}
        self._upstream = upstream
        self._local_names = frozenset(tool.name for tool in registry)
        self._synced_names: list[str] = []
        self._warn = warn
        self._reported: set[str] = set()
        self._listeners: list[Callable[[], object]] = []
        self.declare: Callable[[Tool], Tool] = lambda tool: tool
        """What the configuration says about a tool."""
        self._declared: dict[str, tuple[Tool, Tool]] = {}
        """The tools of servers by name, and what was declared about them."""

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when tools were added, removed or changed; return a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def sync(self, *_: object) -> None:
        """Register the current tools of the servers; a local tool is never replaced."""
        entries = {entry.tool.name: entry for entry in self._sort_entries() if entry.tool.name not in self._local_names}
        self._report_taken_names()
        before = {name: self._registry.get(name) for name in self._synced_names}
        keeps_its_place = [*self._synced_names] == [*entries][: len(self._synced_names)]
        for name in self._synced_names:
            if name not in entries or not keeps_its_place:
                self._registry.unregister(name)
        self._declared = {name: self._declare(entry.tool) for name, entry in entries.items()}
        for name, entry in entries.items():
            tool = self._declared[name][1]
            if self._registry.get(name) is tool:
                continue
            mcp = None if entry.mcp_server is None else (entry.mcp_server, entry.mcp_tool or name)
            self._registry.register(tool, overwrite=True, plugin_id=entry.plugin_id, mcp=mcp)
        self._synced_names = list(entries)
        if before != {name: tool for name, (_, tool) in self._declared.items()}:
            for listener in tuple(self._listeners):
                listener()

    def _declare(self, tool: Tool) -> tuple[Tool, Tool]:
        known = self._declared.get(tool.name)
        return known if known is not None and known[0] is tool else (tool, self.declare(tool))

    def _report_taken_names(self) -> None:
        for name in self._local_names - self._reported:
            entry = self._upstream.entry(name)
            if entry is not None:
                self._reported.add(name)
                self._warn(f"MCP server {entry.mcp_server!r}: its tool {name!r} is left out: a local tool has the name")

    def _sort_entries(self) -> list[Entry]:
        """Return the entries in the order of the configuration, so that the tool list is stable and can be cached."""
        last = len(self._order)
        return sorted(self._upstream.entries(), key=lambda entry: self._order.get(entry.mcp_server or "", last))


def build_backends(config: Config) -> Backends:
    """Build the backends that `[reach]` grants; a scratch workspace is writable, a configured root only as granted.

    Raises:
        InvalidConfigError: The root is not a folder, or a grant is invalid.
        MissingExtraError: Hosts are granted and the extra `network` is not installed.
    """
    reach = config.reach
    if reach.root is not None and not config.root.is_dir():
        raise config.error(("reach", "root"), f"{config.root} is not a folder; create it, or set another root")
    try:
        _make_folders(config)
    except OSError as error:
        what = f"cannot write to {config.state} ({error.strerror}); choose another folder with --state"
        raise config.error(("spindle", "state"), what) from error
    try:
        return Backends.local(
            config.root,
            hosts=reach.hosts,
            commands=reach.commands,
            secrets=build_secret_lookup(config),
            private_addresses=reach.private_addresses,
            read=reach.read,
            write=get_writable_folders(config),
            shell=reach.shell,
            allowed_env=reach.allowed_env,
            credential_files=reach.credential_files,
            sandbox=reach.sandbox,
        )
    except CapabilityError as error:
        raise config.error(("reach",), str(error)) from error


def _make_folders(config: Config) -> None:
    if config.reach.root is None:
        config.state.mkdir(mode=0o700, parents=True, exist_ok=True)  # mkdir applies the mode to the last folder only
        config.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if isinstance(config.storage, Path):
        config.storage.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def get_writable_folders(config: Config) -> tuple[str, ...]:
    """Return the writable folders; a configured root is read-only unless `reach.write` is set."""
    if config.reach.write is not None:
        return config.reach.write
    return (".",) if config.reach.root is None else ()


def name_server_secrets(entry: ServerEntry) -> list[str]:
    """Return the names of the secrets of a server."""
    login = [] if isinstance(entry.oauth, bool) else [entry.oauth.client_secret]
    return [*entry.env_secrets.values(), *entry.header_secrets.values(), *filter(None, login)]


def get_store_secrets(config: Config) -> list[str]:
    """Return the names of the secrets of remote stores and of the engine."""
    stores = (config.journal, config.storage, config.spool)
    named = [name for each in stores if isinstance(each, RemoteStore) for name in each.secrets.values()]
    return [*named, *filter(None, (config.engine.options.password, config.engine.options.api_key))]


def build_secret_lookup(config: Config, environ: Mapping[str, str] = os.environ) -> Callable[[str], str | None]:
    """Return a lookup of the configured secrets, first in the environment, then in the secrets file.

    Raises:
        InvalidConfigError: The secrets file cannot be read.
    """
    named = {*config.reach.secrets, *config.tools.http_secrets}
    for entry in config.servers.values():
        named.update(name_server_secrets(entry))
    for api in config.apis.values():
        named.update(api.secrets.values())
    named.update(get_store_secrets(config))
    in_file: Callable[[str], object] | None = None
    if config.secrets_file is not None:
        try:
            in_file = from_file(config.secrets_file)
        except SecretError as error:
            raise config.error(("reach", "secrets_file"), str(error)) from error

    def look_up(name: str) -> str | None:
        if name not in named:
            return None
        value = environ.get(name)
        if value is None and in_file is not None:
            found = in_file(name)
            value = found if isinstance(found, str) else None
        return value

    return look_up


def build_server_secret_lookup(config: Config) -> Callable[[str], str]:
    """Return a lookup of the secrets of MCP servers, which raises `SecretError` for one that is not set."""
    look_up, in_headers = build_secret_lookup(config), get_header_secrets(config.servers)

    def found(name: str) -> str:
        value = in_headers.get(name) or look_up(name)
        if not value:
            raise SecretError(f"secret {name!r} is not set: export {name}=…, or add it to reach.secrets_file")
        return value

    return found
