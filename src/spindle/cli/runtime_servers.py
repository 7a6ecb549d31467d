"""The upstream MCP servers of a configuration, and their tools in one registry with ours."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from spindle.capabilities import from_file
from spindle.capabilities.resolve import Backends
from spindle.cli.config.loader import Config
from spindle.cli.config.schema import ServerEntry, looks_like_secret
from spindle.errors import CapabilityError, InvalidServerSpecError, SecretError
from spindle.extras import missing_extra
from spindle.tools.entry import Entry
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.mcp.spec import ServerSpec


_ALWAYS = {"authorization", "proxy-authorization"}


def named_headers(server: str, entry: ServerEntry) -> dict[str, str]:
    """For each header that carries a credential, the name to look it up by; none that is configured has blanks."""
    return {
        header: f"{header} header of {server}"
        for header, value in entry.headers.items()
        if (header.lower() in _ALWAYS or looks_like_secret(header, value)) and header not in entry.header_secrets
    }


def header_values(servers: Mapping[str, ServerEntry]) -> dict[str, str]:
    """What stands behind these names."""
    return {
        name: entry.headers[header]
        for server, entry in servers.items()
        for header, name in named_headers(server, entry).items()
    }


def specs_of(config: Config) -> "list[ServerSpec]":
    """The servers that are enabled, as the MCP client takes them.

    Raises:
        InvalidConfigError: One of them cannot be.
        MissingExtraError: There are some, and the extra `mcp` is not installed.
    """
    enabled = {name: entry for name, entry in config.servers.items() if entry.enabled}
    if not enabled:
        return []
    if find_spec("mcp") is None:
        raise missing_extra("mcp", purpose=f"the configured servers ({', '.join(enabled)})", package="mcp")
    from spindle.mcp.spec import ServerSpec  # noqa: PLC0415 - only where there are servers

    found: list[ServerSpec] = []
    for name, entry in enabled.items():
        secret = named_headers(name, entry)
        given: dict[str, Any] = entry.model_dump()
        given["headers"] = {header: value for header, value in entry.headers.items() if header not in secret}
        given["header_secrets"] = entry.header_secrets | secret
        try:
            found.append(ServerSpec(name=name, **given))
        except InvalidServerSpecError as error:
            raise config.error(("mcp", "servers", name, error.field or ""), str(error)) from error
    return found


class Follower:
    """Keeps the tools of MCP servers, which come and go, in a registry beside tools that stay."""

    def __init__(self, registry: ToolRegistry, upstream: ToolRegistry, order: Sequence[str] = ()) -> None:
        self._registry = registry
        self._order = {name: number for number, name in enumerate(order)}
        self._upstream = upstream
        self._ours = frozenset(tool.name for tool in registry)
        self._taken: list[str] = []
        self._listeners: list[Callable[[], object]] = []

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when tools came, went or changed; gives back the function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def follow(self, *_: Any) -> None:
        """Take over what the servers have now; a tool of ours is never replaced by one of theirs."""
        entries = {entry.tool.name: entry for entry in self._sorted() if entry.tool.name not in self._ours}
        before = {name: self._registry.get(name) for name in self._taken}
        keeps_its_place = [*self._taken] == [*entries][: len(self._taken)]
        for name in self._taken:
            if name not in entries or not keeps_its_place:
                self._registry.unregister(name)
        for name, entry in entries.items():
            mcp = None if entry.mcp_server is None else (entry.mcp_server, entry.mcp_tool or name)
            self._registry.register(entry.tool, overwrite=True, plugin_id=entry.plugin_id, mcp=mcp)
        self._taken = list(entries)
        if before != {name: entry.tool for name, entry in entries.items()}:
            for listener in tuple(self._listeners):
                listener()

    def _sorted(self) -> list[Entry]:
        """In the order of the configuration, whichever server was ready first: a list that changes is not cached."""
        last = len(self._order)
        return sorted(self._upstream.entries(), key=lambda entry: self._order.get(entry.mcp_server or "", last))


def backends_of(config: Config) -> Backends:
    """Serve what `[reach]` grants; the scratch workspace may be written, a folder of the user's only as far as said.

    Raises:
        InvalidConfigError: The root is no folder, or a grant is not of its kind.
        MissingExtraError: Hosts are granted, and the extra `network` is not installed.
    """
    reach = config.reach
    if reach.root is not None and not config.root.is_dir():
        raise config.error(("reach", "root"), f"{config.root} is no folder; make it, or name another")
    try:
        _make_folders(config)
    except OSError as error:
        what = f"{config.state} cannot be written ({error.strerror}); name another folder with --state"
        raise config.error(("spindle", "state"), what) from error
    try:
        return Backends.local(
            config.root,
            hosts=reach.hosts,
            commands=reach.commands,
            secrets=secrets_of(config),
            private_addresses=reach.private_addresses,
            read=reach.read,
            write=granted_writing(config),
            storage_path=config.storage,
            shell=reach.shell,
        )
    except CapabilityError as error:
        raise config.error(("reach",), str(error)) from error


def _make_folders(config: Config) -> None:
    if config.reach.root is None:
        config.state.mkdir(mode=0o700, parents=True, exist_ok=True)  # parents of a new folder get the usual mode
        config.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config.storage is not None:
        config.storage.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def granted_writing(config: Config) -> tuple[str, ...]:
    """The folders that may be written: nothing of the user's own unless it is named."""
    if config.reach.write is not None:
        return config.reach.write
    return (".",) if config.reach.root is None else ()


def secrets_of(config: Config, environ: Mapping[str, str] = os.environ) -> Callable[[str], str | None]:
    """Look up the named secrets, and no others: in the environment first, then in the secrets file.

    Raises:
        InvalidConfigError: The file cannot be used.
    """
    named = {*config.reach.secrets, *config.tools.http_secrets}
    for entry in config.servers.values():
        named.update(entry.env_secrets.values(), entry.header_secrets.values())
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


def server_secrets(config: Config) -> Callable[[str], str]:
    """Look up the secrets that MCP servers are given; one that is not set is an error that names it."""
    look_up, in_headers = secrets_of(config), header_values(config.servers)

    def found(name: str) -> str:
        value = in_headers.get(name) or look_up(name)
        if not value:
            raise SecretError(f"the secret {name!r} is not set: export {name}=…, or put it in reach.secrets_file")
        return value

    return found
