"""Whether the configured MCP servers start."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from spindle.cli.config import Config
from spindle.cli.doctor_checks import Check
from spindle.cli.house_reach import server_secrets
from spindle.cli.house_servers import specs_of
from spindle.errors import RunError, SpindleError
from spindle.events import Events
from spindle.mcp.client_status import ServerStatus

if TYPE_CHECKING:
    from spindle.mcp.spec import ServerSpec

AREA = "servers"
_FETCHERS = {"npx", "uvx", "bunx", "pipx"}
"""Programs that keep what they fetched in their user's home."""


async def server_checks(config: Config) -> list[Check]:
    """Start each server that is enabled, and say what became of it."""
    checks = [
        Check(AREA, name, "ok", "switched off (enabled = false)")
        for name, entry in config.servers.items()
        if not entry.enabled
    ]
    try:
        specs = specs_of(config)
        if not specs:
            return checks
        from spindle.mcp.client import McpServers  # noqa: PLC0415 - half a second that only those with servers pay

        slowest = max(spec.start_timeout_seconds for spec in specs)
        async with McpServers(specs, secrets=server_secrets(config), events=_unsaid()) as servers:
            with anyio.move_on_after(slowest + 5), suppress(RunError):  # the status says which one, and why
                await servers.ready()
            checks += [_check(status, spec) for status, spec in zip(servers.status(), specs, strict=True)]
    except SpindleError as error:
        checks.append(Check(AREA, "servers", "failed", str(error)))
    return checks


def _unsaid() -> Events:
    """Events whose warnings nobody tells: the checks say the same."""
    events = Events()
    events.on("warning", lambda _warned: None)
    return events


def _check(status: ServerStatus, spec: "ServerSpec") -> Check:
    if status.state == "ready":
        protocol = f", protocol {status.protocol_version}" if status.protocol_version else ""
        return Check(AREA, status.name, "ok", f"ready, {status.tools} tools{protocol}", advice(spec))
    detail = f"not ready: {status.error or 'it did not become ready in time'}"
    fix = "try its command by itself; look at its path, its arguments and its secrets"
    return Check(AREA, status.name, "failed" if status.required else "warning", detail, fix)


def advice(spec: "ServerSpec") -> str | None:
    """Say how a server starts faster that is fetched anew each time, for it has a home of its own."""
    fetcher = None if spec.command is None else Path(spec.command).stem
    if fetcher not in _FETCHERS or "HOME" in {*spec.env_passthrough, *spec.env}:
        return None
    return f'{fetcher} fetches it anew at each start; env_passthrough = ["HOME"] lets it keep what it fetched'
