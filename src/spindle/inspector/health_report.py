"""The state of the server as the page shows it: its load, its stores, its sandbox and its upstream servers.

A login with a profile sees the upstream servers and tools that the profile may use. What tells how much others do is
left out for it: load, sessions, replicas, and the sizes of the stores.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from spindle.inspector.approval_feeds import count_waiting, may_see
from spindle.inspector.endpoints import ApiModel, PageUser
from spindle.inspector.latencies import MAX_SERVERS
from spindle.inspector.visibility import may_see_server, may_see_withheld
from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonObject, is_array, is_mapping
from spindle.text import to_printable

if TYPE_CHECKING:
    from spindle.mcp.client.confinement import ServerReach
    from spindle.mcp.client.lifecycle import ServerStatus
    from spindle.mcp.spec import ServerSpec

_MAX_LISTED: Final = 50
_MAX_CHARS: Final = 500


class StoreSizes(ApiModel):
    """Sizes of the stores; `None` if one is not known, or not yet."""

    spool_bytes: int | None = None
    spool_artifacts: int | None = None
    spool_max_bytes: int | None = None
    """Beyond it, the oldest artifacts are removed."""
    spool_max_age_days: float | None = None
    spool_problem: str | None = None
    journal_bytes: int | None = None
    journal_file: str | None = None


class SandboxHealth(ApiModel):
    """How commands of tools are confined on this machine."""

    kind: str
    mode: str | None = None
    """What the configuration asks for: `auto`, `required` or `none`."""
    commands: int | None = None
    """How many commands tools may run; without one, none is started. `None` for a profile."""
    enforced: list[str]
    missing: dict[str, str]
    """What is not enforced, and why."""


class ServerReachHealth(ApiModel):
    """What an upstream server can reach."""

    sandbox: str | None
    """`None` for a server elsewhere, or one that was not started yet."""
    is_confined: bool
    network: bool
    read: list[str]
    write: list[str]
    hidden: int
    """Number of files that it cannot read in those folders."""
    limits: dict[str, int]
    notes: list[str]
    """What is not enforced, or not as declared."""


class WithheldHealth(ApiModel):
    """A definition in quarantine."""

    kind: str
    name: str
    reason: str


class UpstreamHealth(ApiModel):
    """One upstream server."""

    name: str
    state: str
    transport: str
    """`stdio`, `http`, or `unknown`."""
    place: str | None
    """The program, or the host; without arguments and paths, which may contain secrets."""
    is_required: bool
    is_enabled: bool
    is_trusted: bool
    """Whether its results count as trusted."""
    error: str | None
    restarts: int
    tools: int
    protocol_version: str | None
    latency_ms: float | None
    """How long it took to answer the last ping; only measured while a page looks."""
    latencies_ms: list[float]
    answers_pings: bool
    is_locked: bool | None
    quarantined: int
    withheld: list[WithheldHealth]
    secrets: list[str]
    """The names of the secrets that it gets."""
    reach: ServerReachHealth | None


class HealthReport(ApiModel):
    """The server as it is now."""

    status: str
    name: str
    version: str
    started_at: datetime
    uptime_seconds: float
    running_calls: int | None
    """Like `sessions`, `abandoned_threads`, `replicas` and `stores`, `None` for a profile."""
    sessions: int | None
    waiting_approvals: int | None
    abandoned_threads: int | None
    """Threads that still run a call that was given up."""
    tools: int
    replicas: int | None
    """How many servers share the journal, with this one; `None` if it is not shared."""
    stores: StoreSizes | None
    sandbox: SandboxHealth | None
    servers: list[UpstreamHealth]
    more_servers: int
    """How many are left out."""


async def build_report(bench: Workbench, user: PageUser | None = None) -> HealthReport:
    """Describe the server as a user may see it; what takes long to find is `None` at first."""
    monitor, known = bench.monitor, bench.get_health()
    servers = [] if bench.servers is None else bench.servers.status()
    servers = [each for each in servers if may_see_server(bench, user, each.name)]
    sandbox = await monitor.find_sandbox(bench)
    is_profile = user is not None and user.profile is not None
    sizes = {} if is_profile else await monitor.measure_stores(bench) or {}
    replicas = None if is_profile else known.get("replicas")
    if user is None or not is_profile or bench.tickets is None:
        waiting = await monitor.count_waiting(bench)
    else:
        waiting = await count_waiting(bench, bench.tickets, user)
    return HealthReport(
        status=str(known.get("status", "ok")),
        name=bench.name,
        version=bench.version,
        started_at=datetime.fromtimestamp(monitor.started_at, UTC),
        uptime_seconds=round(time.time() - monitor.started_at, 1),
        running_calls=None if is_profile else bench.count_running(),
        sessions=None if is_profile else bench.count_sessions(),
        waiting_approvals=waiting,
        abandoned_threads=None if is_profile else bench.executor.abandoned_threads,
        tools=_count_tools(bench, user),
        replicas=replicas if isinstance(replicas, int) else None,
        stores=None if is_profile else _describe_stores(bench, sizes, known.get("spool")),
        sandbox=None if sandbox is None else _describe_sandbox(sandbox, is_profile=is_profile),
        servers=[describe_server(bench, each, user) for each in servers[:MAX_SERVERS]],
        more_servers=max(0, len(servers) - MAX_SERVERS),
    )


def _count_tools(bench: Workbench, user: PageUser | None, server: str | None = None) -> int:
    """Return how many tools a user may use, of one upstream server or of all."""
    entries = (each for each in bench.registry.entries() if server is None or each.mcp_server == server)
    return sum(user is None or may_see(bench, user, each.tool.name) for each in entries)


def describe_server(bench: Workbench, status: "ServerStatus", user: PageUser | None = None) -> UpstreamHealth:
    """Describe an upstream server; its own words are cut, and no value of a secret is in it."""
    withheld = [
        each for each in status.withheld if may_see_withheld(bench, user, status.name, kind=each.kind, name=each.name)
    ]
    is_profile = user is not None and user.profile is not None
    specs = () if bench.servers is None else bench.servers.specs
    spec = next((each for each in specs if each.name == status.name), None)
    latency = bench.monitor.latencies.get(status.name)
    recent = [] if latency is None else [round(each, 2) for each in latency.recent_ms]
    return UpstreamHealth(
        name=status.name,
        state=status.state,
        transport="unknown" if spec is None else "stdio" if spec.command is not None else "http",
        place=None if spec is None else _find_place(spec),
        is_required=status.required,
        is_enabled=spec is None or spec.enabled,
        is_trusted=spec is not None and spec.trusted,
        error=None if status.error is None else to_printable(status.error, _MAX_CHARS),
        restarts=status.restarts,
        tools=_count_tools(bench, user, status.name) if is_profile else status.tools,
        protocol_version=status.protocol_version,
        latency_ms=recent[-1] if recent else None,
        latencies_ms=recent,
        answers_pings=latency is None or not latency.is_silent,
        is_locked=status.locked,
        quarantined=len(withheld) if is_profile else status.quarantined,
        withheld=[
            WithheldHealth(kind=each.kind, name=to_printable(each.name, 200), reason=to_printable(each.reason, 200))
            for each in withheld
        ],
        secrets=[] if spec is None else sorted({*spec.env_secrets.values(), *spec.header_secrets.values()}),
        reach=None if status.reach is None else _describe_reach(status.reach),
    )


def _find_place(spec: "ServerSpec") -> str | None:
    if spec.command is not None:
        return to_printable(spec.command.replace("\\", "/").rpartition("/")[2], 200)
    return None if spec.url is None else to_printable(urlsplit(spec.url).netloc.rpartition("@")[2], 200)


def _describe_reach(reach: "ServerReach") -> ServerReachHealth:
    return ServerReachHealth(
        sandbox=reach.sandbox,
        is_confined=reach.is_confined,
        network=reach.network,
        read=_cut(reach.read),
        write=_cut((reach.home, *reach.write)),
        hidden=len(reach.hidden),
        limits=dict(reach.limits),
        notes=_cut(reach.notes),
    )


def _cut(texts: Sequence[str]) -> list[str]:
    return [to_printable(each, _MAX_CHARS) for each in texts[:_MAX_LISTED]]


def _describe_stores(bench: Workbench, sizes: JsonObject, spool: object) -> StoreSizes:
    problem = spool.get("error") if is_mapping(spool) else None
    most = bench.retention.get("max_bytes")
    return StoreSizes(
        spool_bytes=sizes.get("spool_bytes"),
        spool_artifacts=sizes.get("spool_artifacts"),
        spool_max_bytes=None if most is None else int(most),
        spool_max_age_days=bench.retention.get("max_age_days"),
        spool_problem=None if problem is None else to_printable(str(problem), _MAX_CHARS),
        journal_bytes=sizes.get("journal_bytes"),
        journal_file=None if bench.journal_file is None else to_printable(str(bench.journal_file), _MAX_CHARS),
    )


def _describe_sandbox(found: JsonObject, *, is_profile: bool) -> SandboxHealth:
    missing, enforced = found.get("missing"), found.get("enforced")
    return SandboxHealth(
        kind=str(found.get("sandbox")),
        mode=found.get("mode"),
        commands=None if is_profile else found.get("commands"),
        enforced=[str(each) for each in enforced] if is_array(enforced) else [],
        missing={str(name): str(why)[:_MAX_CHARS] for name, why in missing.items()} if is_mapping(missing) else {},
    )
