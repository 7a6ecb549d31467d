"""From a configuration to a registry and an executor: what `list`, `call` and `serve` stand on."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.artifacts.spool import Spool
from spindle.cli.config import Config
from spindle.cli.house_journal import enter_journal
from spindle.cli.house_reach import backends_of
from spindle.cli.house_registry import enter_servers, filter_of
from spindle.cli.house_servers import Follower
from spindle.cli.house_tools import local_registry
from spindle.errors import UsageError
from spindle.events import Events
from spindle.execution.approval import Approve
from spindle.execution.budget import Budget
from spindle.execution.executor import Executor
from spindle.journal.journal import Journal
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.mcp.client import McpServers


@dataclass(frozen=True, kw_only=True, slots=True)
class House:
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
async def open_house(
    config: Config,
    *,
    approve: Approve | None = None,
    interceptors: Sequence[Any] = (),
    events: Events | None = None,
    batch_timeout_seconds: float | None = None,
    wait_for_servers: bool = True,
) -> AsyncGenerator[House]:
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
        yield House(
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
    from spindle.kit.reducers import default_reducers  # noqa: PLC0415 - only where the kit is used

    return default_reducers()
