"""From a configuration to a registry and an executor: what `list`, `call` and `serve` stand on."""

import difflib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.artifacts.spool import Spool
from spindle.cli.config.loader import Config
from spindle.cli.runtime_servers import Follower, backends_of, server_secrets, specs_of
from spindle.cli.runtime_tools import local_registry
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


def journal_files(path: Path) -> list[Path]:
    """The files a journal may consist of: `journal.sqlite`, and `journal-2.sqlite` … for those who came beside."""
    return [path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, MAX_FILES + 1))]


async def enter_journal(path: Path | None, stack: AsyncExitStack) -> Journal:
    """Open the first file that nobody else writes.

    Raises:
        JournalLockedError: All of them are in use.
        JournalError: A file cannot be used.
    """
    if path is None:
        return await stack.enter_async_context(Journal.memory())
    *most, last = journal_files(path)
    for each in most:
        try:
            return await stack.enter_async_context(Journal.sqlite(each))
        except JournalLockedError:
            continue
    return await stack.enter_async_context(Journal.sqlite(last))


@asynccontextmanager
async def open_registry(config: Config, *, events: Events | None = None) -> AsyncGenerator[ToolRegistry]:
    """Open the tools alone, for who only looks at them.

    Raises:
        InvalidConfigError: Something that is configured cannot be had.
        MissingExtraError: It needs a package that is not installed.
    """
    registry = local_registry(config, backends_of(config))
    async with AsyncExitStack() as stack:
        await enter_servers(config, registry, Events() if events is None else events, stack, wait=True)
        yield registry


def filter_of(config: Config, profile: str | None = None) -> ToolFilter | None:
    """What a profile may see and run.

    Raises:
        InvalidConfigError: There is no such profile.
    """
    name = config.profile if profile is None else profile
    if name is None:
        return None
    entry = config.profiles.get(name)
    if entry is None:
        near = difflib.get_close_matches(name, config.profiles, n=1)
        known = f"there are {', '.join(config.profiles)}" if config.profiles else "none is configured"
        raise config.error(("profiles",), f"there is no {name!r}; {f'did you mean {near[0]!r}?' if near else known}")
    return ToolFilter(
        allowed_tools=entry.allowed_tools,
        allowed_mcp_servers=entry.allowed_mcp_servers,
        allowed_plugins=entry.allowed_plugins,
        allowed_mcp_tools=entry.allowed_mcp_tools,
        exclude_tools=entry.exclude_tools,
    )


async def enter_servers(
    config: Config, registry: ToolRegistry, events: Events, stack: AsyncExitStack, *, wait: bool
) -> "tuple[McpServers | None, Follower | None]":
    """Start the configured MCP servers, and put their tools beside those that run here."""
    specs = specs_of(config)
    if not specs:
        return None, None
    from spindle.mcp.client.servers import McpServers  # noqa: PLC0415 - half a second that only those with servers pay

    servers = await stack.enter_async_context(McpServers(specs, secrets=server_secrets(config), events=events))
    follower = Follower(registry, servers.registry, [spec.name for spec in specs])
    servers.on_change(follower.follow)
    if wait:
        await servers.ready()
    follower.follow()
    return servers, follower


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """Everything a configuration asks for, open and ready for calls."""

    config: Config
    registry: ToolRegistry
    """The kit's tools, those of modules, and those that MCP servers have at this moment."""
    executor: Executor
    servers: "McpServers | None"
    """`None` when no server is configured."""
    spool: Spool
    journal: Journal
    events: Events
    """Told by the MCP servers what happens to them; calls have the events of their context."""
    _follower: Follower | None = field(default=None, repr=False)

    def filter_of(self, profile: str | None = None) -> ToolFilter | None:
        """What a profile may see and run; without a name, the configuration's own profile, or no filter at all.

        Raises:
            InvalidConfigError: There is no such profile.
        """
        return filter_of(self.config, profile)

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when the tools of MCP servers changed; gives back the function that ends this."""
        return (lambda: None) if self._follower is None else self._follower.on_change(listener)


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
    """Open the tools, servers, spool and journal of a configuration, and close them again.

    Raises:
        InvalidConfigError: Something that is configured cannot be had.
        MissingExtraError: It needs a package that is not installed.
        JournalError: The journal cannot be used.
    """
    backends = backends_of(config)
    registry = local_registry(config, backends)
    told = Events() if events is None else events
    async with AsyncExitStack() as stack:
        spool, journal = spool_of(config), await enter_journal(config.journal, stack)
        servers, follower = await enter_servers(config, registry, told, stack, wait=wait_for_servers)
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
            _follower=follower,
        )


def spool_of(config: Config) -> Spool:
    """The place of large results.

    Raises:
        InvalidConfigError: It cannot be used.
        MissingExtraError: It is an object store, and the extra `objects` is not installed.
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
