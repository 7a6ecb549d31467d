"""The page /metrics of `spindle serve`: calls, sessions, upstream servers, stores and refusals."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, get_args

from spindle.cli.config.loader import Config
from spindle.cli.runtime import Runtime
from spindle.cli.runtime_stores import read_state_key
from spindle.errors import SpindleError
from spindle.execution.ticket_settings import TicketSettings
from spindle.execution.tickets import open_office
from spindle.extras import missing_extra
from spindle.json_types import JsonObject
from spindle.mcp.client.lifecycle import ServerState
from spindle.mcp.server.http import MetricsAnswer
from spindle.mcp.server.tool_server import ToolServer
from spindle.telemetry.prometheus import CONTENT_TYPE, CallMetrics, Family, render_metrics

SAMPLE_SECONDS: Final = 15.0
"""Sizes of stores and waiting approvals are looked up at most this often: a large spool takes long to list."""
_MAX_APPROVALS: Final = 1_000
_NOT_FOUND: Final = 404


def build_call_metrics(config: Config) -> CallMetrics | None:
    """Return the interceptor that counts calls; `None` if the page is off or its extra is not installed."""
    is_on = config.server.metrics and find_spec("prometheus_client") is not None
    return CallMetrics() if is_on else None


@dataclass(kw_only=True, slots=True)
class GatewayMetrics:
    """Collects the numbers of one gateway."""

    runtime: Runtime
    calls: CallMetrics | None
    refusals: Counter[int] = field(default_factory=Counter[int])
    """Requests that were refused before they reached the server, by HTTP status."""
    _stores: tuple[Family, ...] = ()
    _sampled_at: float = float("-inf")

    async def answer(self, server: ToolServer) -> MetricsAnswer:
        """Return the status, the content type and the page; without the extra, what to install."""
        if self.calls is None:
            problem = missing_extra("metrics", purpose="/metrics", package="prometheus_client")
            return _NOT_FOUND, "text/plain; charset=utf-8", f"{problem}\n".encode()
        if (now := time.monotonic()) - self._sampled_at >= SAMPLE_SECONDS:
            self._sampled_at = now
            self._stores = tuple([each async for each in self._sample_stores()])
        families = [*self._list_families(server), *self._stores]
        return 200, CONTENT_TYPE, render_metrics(families, self.calls)

    def _list_families(self, server: ToolServer) -> Iterator[Family]:
        executor = self.runtime.executor
        yield Family(name="spindle_info", help="The version.", values=[({"version": version("spindle")}, 1)])
        yield Family(name="spindle_calls_running", help="Calls in progress.", values=[({}, server.load.running)])
        yield Family(name="spindle_sessions", help="Open sessions of clients.", values=[({}, server.sessions)])
        yield Family(name="spindle_tools", help="Tools that are offered.", values=[({}, len(self.runtime.registry))])
        yield Family(
            name="spindle_abandoned_threads",
            help="Threads that still run an abandoned call.",
            values=[({}, executor.abandoned_threads)],
        )
        yield Family(
            name="spindle_http_refusals",
            help="Requests refused by Host, Origin, token or rate, by HTTP status; 429 is a limit.",
            kind="counter",
            values=[({"status": str(status)}, count) for status, count in sorted(self.refusals.items())],
        )
        yield from self._list_upstream()

    def _list_upstream(self) -> Iterator[Family]:
        servers = [] if self.runtime.servers is None else self.runtime.servers.status()
        yield Family(
            name="spindle_upstream_state",
            help="1 for the state that an upstream server is in.",
            values=[
                ({"server": each.name, "state": state}, float(each.state == state))
                for each in servers
                for state in get_args(ServerState)
            ],
        )
        yield Family(
            name="spindle_upstream_restarts",
            help="Restarts of an upstream server that had been ready.",
            kind="counter",
            values=[({"server": each.name}, each.restarts) for each in servers],
        )
        yield Family(
            name="spindle_upstream_tools",
            help="Tools of an upstream server.",
            values=[({"server": each.name}, each.tools) for each in servers],
        )

    async def _sample_stores(self) -> AsyncIterator[Family]:
        sizes = await measure_stores(self.runtime)
        for name, what in _SIZES.items():
            if sizes.get(name) is not None:
                yield Family(name=f"spindle_{name}", help=what, values=[({}, sizes[name])])
        waiting = await self._count_approvals()
        if waiting is not None:
            what = f"Calls that wait for a person's approval, at most {_MAX_APPROVALS}."
            yield Family(name="spindle_approvals_waiting", help=what, values=[({}, waiting)])

    async def _count_approvals(self) -> int | None:
        config = self.runtime.config
        if config.journal is None:
            return 0
        try:
            settings = TicketSettings(self.runtime.journal, read_state_key(config), ttl_seconds=1, policy=None)
            office = open_office(settings)
            return None if office is None else len(await office.list("pending", limit=_MAX_APPROVALS))
        except (SpindleError, OSError):
            return None


_SIZES: Final = {
    "spool_bytes": "Bytes in the spool.",
    "spool_artifacts": "Artifacts in the spool.",
    "journal_bytes": "Bytes of the journal's file.",
}


async def measure_stores(runtime: Runtime) -> JsonObject:
    """Return the sizes of the spool and the journal; one that is not known is left out."""
    sizes: JsonObject = {}
    with suppress(SpindleError, OSError):  # /health says what is wrong with it
        stats = await runtime.spool.stats()
        sizes |= {"spool_bytes": stats.bytes, "spool_artifacts": stats.count}
    journal = runtime.config.journal
    if isinstance(journal, Path):
        sizes["journal_bytes"] = sum(_measure(journal.with_name(journal.name + suffix)) for suffix in ("", "-wal"))
    return sizes


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
