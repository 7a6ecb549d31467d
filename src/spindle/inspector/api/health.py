"""Endpoints of health: the server and its stores, upstream servers, and calls over time."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import anyio
from pydantic import StringConstraints

from spindle.errors import RequestForbiddenError, UnknownItemError
from spindle.inspector.activity import Activity, build_activity
from spindle.inspector.approval_feeds import may_see
from spindle.inspector.call_stats import WindowName
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, PageUser, change, read
from spindle.inspector.health_report import HealthReport, UpstreamHealth, build_report, describe_server
from spindle.inspector.live import Feed, Publish, get_listener
from spindle.inspector.visibility import may_see_server
from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonObject

FEED_SECONDS: Final = 2.0
"""How often a page that listens gets a summary."""
_LOG: Final = logging.getLogger("spindle.inspector")


class ActivityQuery(ApiModel):
    """Which calls to count."""

    window: WindowName = "1h"


class ServerPath(ApiModel):
    """Names an upstream server."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]


async def get_health(request: ApiRequest[NoInput, NoInput]) -> HealthReport:
    """Describe the server, its stores and its upstream servers as they are now."""
    return await build_report(request.bench, request.user)


async def get_activity(request: ApiRequest[ActivityQuery, NoInput]) -> Activity:
    """Count the calls of the last minutes, hours or days."""
    follower = request.bench.monitor.get_follower(request.bench)
    await follower.update()
    is_shown = _find_tools(request.bench, request.user)
    return await build_activity(follower, request.params.window, is_shown=is_shown)


def _find_tools(bench: Workbench, user: PageUser | None) -> Callable[[str], bool] | None:
    """Return which tools a user may see numbers of; `None` for all, and for what is counted together."""
    return None if user is None or user.profile is None else partial(may_see, bench, user)


async def restart_server(request: ApiRequest[ServerPath, NoInput]) -> UpstreamHealth:
    """Stop an upstream server and start it again; its running calls fail."""
    bench, name = request.bench, request.params.name
    if bench.servers is None:
        raise UnknownItemError("this server has no upstream servers")
    if not may_see_server(bench, request.user, name):
        raise RequestForbiddenError("this profile may not use that server")
    _LOG.warning("%s restarts the upstream server %r", request.user.by, name)
    await bench.servers.restart(name)
    status = next(each for each in bench.servers.status() if each.name == name)
    return describe_server(bench, status, request.user)


async def watch_health(bench: Workbench, publish: Publish) -> None:
    """Send a summary every two seconds; meanwhile calls are counted and servers pinged."""
    follower, user = bench.monitor.get_follower(bench), get_listener()
    is_shown = _find_tools(bench, user)
    async with anyio.create_task_group() as tasks:
        if bench.servers is not None:
            tasks.start_soon(_keep_pinging, bench)
        while True:
            report = await build_report(bench, user)
            await follower.update()
            progress = follower.get_progress()
            facts: JsonObject = {
                "revision": follower.stats.get_revision(is_shown),
                "is_reading": not (progress.is_complete and progress.is_current),
            }
            publish(report.model_dump(mode="json") | facts, key="health")
            await anyio.sleep(FEED_SECONDS)


async def _keep_pinging(bench: Workbench) -> None:
    while bench.servers is not None:
        await bench.monitor.latencies.measure(bench.servers)
        await anyio.sleep(FEED_SECONDS)


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read("/health", get_health, summary="The server as it is now", params=NoInput, answer=HealthReport),
    read("/health/activity", get_activity, summary="Calls over time", params=ActivityQuery, answer=Activity),
    change(
        "/health/servers/{name}/restart",
        restart_server,
        summary="Restart an upstream server",
        params=ServerPath,
        body=NoInput,
        answer=UpstreamHealth,
    ),
)
FEEDS: Final[Mapping[str, Feed]] = {"health": watch_health}
