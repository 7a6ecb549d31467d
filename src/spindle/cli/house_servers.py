"""The upstream MCP servers of a configuration, and their tools in one registry with ours."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from spindle.cli.config import Config
from spindle.cli.house_headers import named_headers
from spindle.errors import InvalidServerSpecError
from spindle.extras import missing_extra
from spindle.tools.entry import Entry
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.mcp.spec import ServerSpec


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
