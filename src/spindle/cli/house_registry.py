"""The tools of a configuration, without what runs them: what `list` and `show` look at."""

import difflib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from spindle.cli.config import Config
from spindle.cli.house_reach import backends_of, server_secrets
from spindle.cli.house_servers import Follower, specs_of
from spindle.cli.house_tools import local_registry
from spindle.events import Events
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle.mcp.client import McpServers


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
    from spindle.mcp.client import McpServers  # noqa: PLC0415 - half a second that only those with servers pay

    servers = await stack.enter_async_context(McpServers(specs, secrets=server_secrets(config), events=events))
    follower = Follower(registry, servers.registry, [spec.name for spec in specs])
    servers.on_change(follower.follow)
    if wait:
        await servers.ready()
    follower.follow()
    return servers, follower
