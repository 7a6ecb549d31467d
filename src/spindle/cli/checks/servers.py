"""Checks of the upstream MCP servers: each is started, and what it can reach is listed."""

import os
from collections.abc import Iterator
from contextlib import suppress

import anyio

from spindle import cli, mcp
from spindle.addresses import mask_password
from spindle.cli.checks.check import Check
from spindle.cli.checks.flow import check_declarations
from spindle.cli.config.loader import Config
from spindle.cli.runtime_servers import build_server_secret_lookup, build_specs
from spindle.errors import RunError, SpindleError
from spindle.events import Events
from spindle.json_types import JsonObject
from spindle.mcp.client.confinement import ServerReach
from spindle.mcp.client.environment import build_environment
from spindle.mcp.client.lifecycle import ServerStatus
from spindle.mcp.spec import ServerSpec

_AREA = "servers"
_UNCONFINED = "it can reach all that you can"


def check_servers(config: Config) -> list[Check]:
    """Start each enabled server, and report its status and what it can reach."""
    return anyio.run(_check_servers, config) if config.servers else []


async def _check_servers(config: Config) -> list[Check]:
    checks = [
        Check(_AREA, name, "ok", "disabled (enabled = false)")
        for name, entry in config.servers.items()
        if not entry.enabled
    ]
    try:
        specs = build_specs(config)
        if not specs:
            return checks
        slowest = max(spec.start_timeout_seconds for spec in specs)
        secrets, events = build_server_secret_lookup(config), _discard_warnings()
        lock, logins = cli.read_lock_policy(config), cli.build_logins(config, specs)
        async with mcp.McpServers(specs, secrets=secrets, logins=logins, events=events, lock=lock) as servers:
            with anyio.move_on_after(slowest + 5), suppress(RunError):  # the status has the reason
                await servers.ready()
                await servers.features.list_prompts()  # the lock checks prompts and resources too
                await servers.features.list_resources()
                await servers.features.list_resource_templates()
            for status, spec in zip(servers.status(), specs, strict=True):
                checks += [_check_status(status, spec), check_reach(spec, status.reach), *check_lock(status)]
            checks += check_flow_names(config, servers)
            checks += check_declarations(config, servers.registry, what="of servers")
    except SpindleError as error:
        checks.append(Check(_AREA, "servers", "failed", str(error)))
    return checks


def check_flow_names(config: Config, servers: "mcp.McpServers") -> Iterator[Check]:
    """Yield the names in `[flow]` that the connected servers do not have."""
    if config.flow is None:
        return
    ready = [each.name for each in servers.status() if each.state == "ready"]
    for key, what in cli.find_missing(config, servers.registry, ready):
        if key[0] == "flow" and config.flow.enabled:
            yield Check(_AREA, ".".join(key), "failed", what, "correct the name, or remove it from the configuration")


def _discard_warnings() -> Events:
    """Return events that discard warnings, since the checks report the same."""
    events = Events()
    events.on("warning", lambda _warned: None)
    return events


def _check_status(status: ServerStatus, spec: ServerSpec) -> Check:
    if spec.oauth is not None and status.state == "idle":
        why = f"not checked, since the user 'default' has none (`spindle login {status.name}`)"
        return Check(_AREA, status.name, "ok", f"connected for each user after a login; {why}")
    if status.state == "ready":
        protocol = f", protocol {status.protocol_version}" if status.protocol_version else ""
        return Check(_AREA, status.name, "ok", f"ready, {status.tools} tools{protocol}")
    detail = f"not ready: {status.error or 'timed out'}"
    fix = "run its command by hand; check the path, the arguments, the secrets and the folders it may read"
    return Check(_AREA, status.name, "failed" if status.required else "warning", detail, fix)


def check_lock(status: ServerStatus) -> Iterator[Check]:
    """Yield what the lock withholds from a server, and whether a server is missing in it."""
    if status.locked is False:
        detail = "not in the lock file; its definitions are not checked for changes"
        yield Check(_AREA, f"{status.name}, lock", "warning", detail, f"`spindle lock {status.name}` adds it")
    if status.quarantined:
        first = "; ".join(f"{each.kind.replace('_', ' ')} {each.name!r}: {each.reason}" for each in status.withheld[:5])
        more = f"; and {status.quarantined - 5} more" if status.quarantined > 5 else ""
        fix = f"`spindle diff {status.name}` shows them; `spindle lock {status.name}` accepts them"
        detail = f"{status.quarantined} in quarantine, not offered: {first}{more}"
        yield Check(_AREA, f"{status.name}, quarantine", "warning", detail, fix)


def check_reach(spec: ServerSpec, reach: ServerReach | None) -> Check:
    """Report what a server can reach, by its spec and by the sandbox in force if it was started."""
    name, facts = f"{spec.name}, reach", describe_reach(spec, reach)
    if spec.transport == "http":
        return Check(_AREA, name, "ok", "another program; it gets what is sent to it", facts=facts)
    if spec.sandbox == "none":
        fix = 'remove sandbox = "none" and declare the folders it needs with read and write'
        return Check(_AREA, name, "warning", f'without a sandbox (sandbox = "none"): {_UNCONFINED}', fix, facts)
    if reach is None:
        return Check(_AREA, name, "ok", f"not started; sandbox = {spec.sandbox}", facts=facts)
    if not reach.is_confined:
        detail = f"without a sandbox: {_UNCONFINED}; {'; '.join(reach.notes)}"
        return Check(_AREA, name, "warning", detail, 'see machine, sandbox; sandbox = "required" refuses it', facts)
    if reach.notes:
        return Check(_AREA, name, "warning", f"{reach.sandbox}: {'; '.join(reach.notes)}", facts=facts)
    return Check(_AREA, name, "ok", f"confined by {reach.sandbox}", facts=facts)


def describe_reach(spec: ServerSpec, reach: ServerReach | None) -> JsonObject:
    """Return what a server can reach, by name; of variables and secrets only the names."""
    secrets = sorted({*spec.env_secrets.values(), *spec.header_secrets.values()})
    if spec.transport == "http":
        sent = sorted({*spec.headers, *spec.header_secrets})
        return {"url": mask_password(spec.url or ""), "headers": sent, "secrets": secrets}
    passed = build_environment(spec, os.environ, {}, dict.fromkeys(spec.env_secrets, ""))
    facts: JsonObject = {"environment": sorted(passed), "secrets": secrets, "home": spec.home}
    if spec.sandbox == "none":
        return facts
    declared = {"read": list(spec.read), "write": list(spec.write), "network": spec.network}
    if reach is None:
        return facts | declared
    return facts | {
        "sandbox": reach.sandbox,
        "enforced": sorted(reach.enforced),
        "read": list(reach.read),
        "write": list(reach.write),
        "hidden": list(reach.hidden),
        "installation": list(reach.installation),
        "network": reach.network,
        "limits": dict(reach.limits),
    }
