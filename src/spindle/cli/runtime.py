"""Build the runtime of a configuration: registry, executor, MCP servers, spool and journal.

The commands `call` and `serve` run on it.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spindle import cli, mcp
from spindle.artifacts.spool import Spool
from spindle.cli.config.loader import Config
from spindle.cli.runtime_registry import build_filter, start_servers
from spindle.cli.runtime_servers import UpstreamToolSync, build_backends
from spindle.cli.runtime_stores import build_journal, build_spool, build_storage, read_state_key
from spindle.cli.runtime_tools import build_local_registry
from spindle.events import Events
from spindle.execution.approval import Approve
from spindle.execution.budget import Budget
from spindle.execution.executor import Executor
from spindle.journal.journal import Journal
from spindle.kit import reducers
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.trust.labels import SinkPolicy

if TYPE_CHECKING:
    from spindle.execution.interceptors import Interceptor
    from spindle.trust.flow.policy import FlowPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """The opened tools, MCP servers, spool and journal of a configuration."""

    config: Config
    registry: ToolRegistry
    """Tools of the kit, of modules, and the current tools of MCP servers."""
    executor: Executor
    servers: "mcp.McpServers | None"
    """`None` if no server is configured."""
    spool: Spool
    journal: Journal
    events: Events
    """Events of the MCP servers; calls emit to the events of their context."""
    policy: "FlowPolicy | SinkPolicy | None" = None
    """Which calls a person must approve once third-party content has entered a session."""
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
    profile: str | None = None,
) -> AsyncGenerator[Runtime]:
    """Open the tools, servers, spool and journal of a configuration; `profile` is that of callers without one.

    Raises:
        InvalidConfigError: A configured tool, server or folder is not available, or `[flow]` names an unknown tool.
        MissingExtraError: A required extra is not installed.
        JournalError: The journal cannot be opened.
    """
    backends = replace(build_backends(config), storage=build_storage(config))
    registry = build_local_registry(config, backends)
    observed_events = Events() if events is None else events
    async with AsyncExitStack() as stack:
        journal, spool = build_journal(config), build_spool(config)
        await stack.enter_async_context(journal)
        # Through the lazy door: few configurations have an engine.
        transport = None if config.engine.url is None else await cli.open_engine(config, spool, stack)
        if config.apis:
            await cli.register_apis(config, registry, backends, observed_events)
        states, wait = None if config.journal is None else journal.states, wait_for_servers
        servers, follower = await start_servers(config, registry, observed_events, stack, wait=wait, states=states)
        policy, tightened = _build_policy(config, registry, profile)
        executor = Executor(
            registry,
            backends=backends,
            reducers=None if config.tools.kit is False else reducers.default_reducers(),
            budget=Budget(config.limits.budget_chars, preview_chars=config.limits.preview_chars),
            spool=spool,
            journal=journal,
            transport=transport,
            concurrency=config.limits.concurrency,
            timeout_seconds=config.limits.timeout_seconds,
            batch_timeout_seconds=batch_timeout_seconds,
            interceptors=(*interceptors, *tightened),
            approve=approve,
            flow=policy,
            state_key=read_state_key(config),
        )
        if isinstance(backends.network, AbstractAsyncContextManager):
            await stack.enter_async_context(backends.network)
        yield Runtime(
            config=config,
            registry=registry,
            executor=executor,
            servers=servers,
            spool=spool,
            journal=journal,
            events=observed_events,
            policy=policy,
            _tool_sync=follower,
        )


def _build_policy(
    config: Config, registry: ToolRegistry, profile: str | None
) -> "tuple[FlowPolicy | SinkPolicy | None, Sequence[Interceptor]]":
    """Return the policy of a configuration, and the interceptor of profiles with a stricter one."""
    if config.flow is None and not any(entry.flow for entry in config.profiles.values()):
        return SinkPolicy(config.trust.dangerous) if config.trust.dangerous else None, ()
    policy = cli.build_flow_policy(config)
    cli.check_names(config, registry)
    tightened = cli.build_profile_flow(config, registry, policy, profile)
    if policy is None and config.trust.dangerous:
        return SinkPolicy(config.trust.dangerous), ()
    return policy, () if tightened is None else (tightened,)
