"""The tools of a configuration: local ones and those of MCP servers, and the filter of a profile.

Loads nothing that runs calls, so that `list` starts quickly.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from spindle import cli, mcp
from spindle.cli.config.loader import Config
from spindle.cli.runtime_servers import UpstreamToolSync, build_backends, build_server_secret_lookup, build_specs
from spindle.cli.runtime_tools import build_local_registry
from spindle.events import Events
from spindle.text import did_you_mean
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.journal.states import StateStore


@asynccontextmanager
async def open_registry(config: Config, *, events: Events | None = None) -> AsyncGenerator[ToolRegistry]:
    """Open only the tools and MCP servers of a configuration, for commands that make no calls.

    Raises:
        InvalidConfigError: A configured tool, server or folder is not available.
        MissingExtraError: A required extra is not installed.
    """
    backends, observed_events = build_backends(config), Events() if events is None else events
    registry = build_local_registry(config, backends)
    if config.apis:
        await cli.register_apis(config, registry, backends, observed_events)
    async with AsyncExitStack() as stack:
        await start_servers(config, registry, observed_events, stack, wait=True)
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
        known = f"known profiles: {', '.join(config.profiles)}" if config.profiles else "no profiles are configured"
        raise config.error(("profiles",), f"unknown profile {name!r}; {did_you_mean(name, config.profiles, known)}")
    return ToolFilter(
        allowed_tools=entry.allowed_tools,
        allowed_mcp_servers=entry.allowed_mcp_servers,
        allowed_plugins=entry.allowed_plugins,
        allowed_mcp_tools=entry.allowed_mcp_tools,
        exclude_tools=entry.exclude_tools,
        allowed_resources=entry.allowed_resources,
        allowed_prompts=entry.allowed_prompts,
    )


async def start_servers(
    config: Config,
    registry: ToolRegistry,
    events: Events,
    stack: AsyncExitStack,
    *,
    wait: bool,
    states: "StateStore | None" = None,
) -> "tuple[mcp.McpServers | None, UpstreamToolSync | None]":
    """Start the configured MCP servers and keep their tools registered beside the local ones.

    `states` keeps the tasks that servers run for calls.
    """
    specs = build_specs(config)
    if not specs:
        return None, None
    servers = await stack.enter_async_context(
        mcp.McpServers(
            specs,
            secrets=build_server_secret_lookup(config),
            logins=cli.build_logins(config, specs),
            events=events,
            lock=cli.read_lock_policy(config),
            tasks=mcp.TaskLedger(states),
        )
    )

    def warn(message: str) -> None:
        events.warn(message, source="mcp")

    follower = UpstreamToolSync(registry, servers.registry, [spec.name for spec in specs], warn=warn)
    if config.flow is not None:
        follower.declare = cli.FlowDeclarations(config).declare
    servers.on_change(follower.sync)
    if wait:
        await servers.ready()
    follower.sync()
    return servers, follower
