"""Build the runtime of a configuration: registry, executor, MCP servers, spool and journal.

The commands `list`, `call` and `serve` run on it.
"""

import difflib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.artifacts.spool import Spool
from spindle.cli.config.loader import Config
from spindle.cli.runtime_servers import UpstreamToolSync, build_backends, build_server_secret_lookup, build_specs
from spindle.cli.runtime_tools import build_local_registry
from spindle.errors import JournalLockedError, UsageError
from spindle.events import Events
from spindle.execution.approval import Approve
from spindle.execution.budget import Budget
from spindle.execution.executor import Executor
from spindle.journal.journal import Journal
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.mcp.client.servers import McpServers


MAX_FILES = 64


def list_journal_files(path: Path) -> list[Path]:
    """Return the possible files of a journal: `journal.sqlite`, then `journal-2.sqlite` … for concurrent processes."""
    return [path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, MAX_FILES + 1))]


async def open_journal(path: Path | None, stack: AsyncExitStack) -> Journal:
    """Open the first journal file that is not locked by another process; `None` opens one in memory.

    Raises:
        JournalLockedError: All files are in use.
        JournalError: A file cannot be used.
    """
    if path is None:
        return await stack.enter_async_context(Journal.memory())
    *most, last = list_journal_files(path)
    for each in most:
        try:
            return await stack.enter_async_context(Journal.sqlite(each))
        except JournalLockedError:
            continue
    return await stack.enter_async_context(Journal.sqlite(last))


@asynccontextmanager
async def open_registry(config: Config, *, events: Events | None = None) -> AsyncGenerator[ToolRegistry]:
    """Open only the tools and MCP servers of a configuration, for commands that make no calls.

    Raises:
        InvalidConfigError: A configured tool, server or folder is not available.
        MissingExtraError: A required extra is not installed.
    """
    registry = build_local_registry(config, build_backends(config))
    async with AsyncExitStack() as stack:
        await start_servers(config, registry, Events() if events is None else events, stack, wait=True)
        yield registry


def build_filter(config: Config, profile: str | None = None) -> ToolFilter | None:
    """Return the tool filter of a profile, or of the default profile.

    Raises:
        InvalidConfigError: The profile does not exist.
    """
    name = config.profile if profile is None else profile
    if name is None:
        return None
    entry = config.profiles.get(name)
    if entry is None:
        near = difflib.get_close_matches(name, config.profiles, n=1)
        known = f"known profiles: {', '.join(config.profiles)}" if config.profiles else "no profiles are configured"
        raise config.error(
            ("profiles",), f"unknown profile {name!r}; {f'did you mean {near[0]!r}?' if near else known}"
        )
    return ToolFilter(
        allowed_tools=entry.allowed_tools,
        allowed_mcp_servers=entry.allowed_mcp_servers,
        allowed_plugins=entry.allowed_plugins,
        allowed_mcp_tools=entry.allowed_mcp_tools,
        exclude_tools=entry.exclude_tools,
    )


async def start_servers(
    config: Config, registry: ToolRegistry, events: Events, stack: AsyncExitStack, *, wait: bool
) -> "tuple[McpServers | None, UpstreamToolSync | None]":
    """Start the configured MCP servers and keep their tools registered beside the local ones."""
    specs = build_specs(config)
    if not specs:
        return None, None
    from spindle.mcp.client.servers import McpServers  # noqa: PLC0415 - takes 0.5 s, only needed with servers

    servers = await stack.enter_async_context(
        McpServers(specs, secrets=build_server_secret_lookup(config), events=events)
    )
    follower = UpstreamToolSync(registry, servers.registry, [spec.name for spec in specs])
    servers.on_change(follower.sync)
    if wait:
        await servers.ready()
    follower.sync()
    return servers, follower


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """The opened tools, MCP servers, spool and journal of a configuration."""

    config: Config
    registry: ToolRegistry
    """Tools of the kit, of modules, and the current tools of MCP servers."""
    executor: Executor
    servers: "McpServers | None"
    """`None` if no server is configured."""
    spool: Spool
    journal: Journal
    events: Events
    """Events of the MCP servers; calls emit to the events of their context."""
    _tool_sync: UpstreamToolSync | None = field(default=None, repr=False)

    def get_filter(self, profile: str | None = None) -> ToolFilter | None:
        """Return the tool filter of a profile, or of the default profile; `None` without either.

        Raises:
            InvalidConfigError: The profile does not exist.
        """
        return build_filter(self.config, profile)

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when tools of MCP servers change; return a function that removes it."""
        return (lambda: None) if self._tool_sync is None else self._tool_sync.on_change(listener)


@asynccontextmanager
async def open_runtime(
    config: Config,
    *,
    approve: Approve | None = None,
    interceptors: Sequence[Any] = (),
    events: Events | None = None,
    batch_timeout_seconds: float | None = None,
    wait_for_servers: bool = True,
) -> AsyncGenerator[Runtime]:
    """Open the tools, servers, spool and journal of a configuration, and close them at exit.

    Raises:
        InvalidConfigError: A configured tool, server or folder is not available.
        MissingExtraError: A required extra is not installed.
        JournalError: The journal cannot be opened.
    """
    backends = build_backends(config)
    registry = build_local_registry(config, backends)
    told = Events() if events is None else events
    async with AsyncExitStack() as stack:
        spool, journal = build_spool(config), await open_journal(config.journal, stack)
        servers, follower = await start_servers(config, registry, told, stack, wait=wait_for_servers)
        executor = Executor(
            registry,
            backends=backends,
            reducers=_reducers(config),
            budget=Budget(config.limits.budget_chars),
            spool=spool,
            journal=journal,
            concurrency=config.limits.concurrency,
            timeout_seconds=config.limits.timeout_seconds,
            batch_timeout_seconds=batch_timeout_seconds,
            interceptors=interceptors,
            approve=approve,
        )
        if backends.network is not None:
            await stack.enter_async_context(backends.network)
        yield Runtime(
            config=config,
            registry=registry,
            executor=executor,
            servers=servers,
            spool=spool,
            journal=journal,
            events=told,
            _tool_sync=follower,
        )


def build_spool(config: Config) -> Spool:
    """Build the spool of a configuration.

    Raises:
        InvalidConfigError: The URL of the object store is invalid.
        MissingExtraError: An object store is configured and the extra `objects` is not installed.
    """
    if config.spool is None:
        return Spool.memory()
    if "://" not in config.spool:
        return Spool.files(config.spool)
    try:
        return Spool.objects(config.spool)
    except UsageError as error:
        if error.code == "E_MISSING_EXTRA":
            raise
        raise config.error(("spool", "path"), str(error)) from error


def _reducers(config: Config) -> Any:
    if config.tools.kit is False:
        return None
    from spindle.kit.reducers.registry import default_reducers  # noqa: PLC0415 - only where the kit is used

    return default_reducers()
