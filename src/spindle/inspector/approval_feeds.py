"""Live feeds of approvals: how many calls wait, and that something about them has changed."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio

from spindle.inspector.endpoints import PageUser
from spindle.inspector.live import Publish, get_listener
from spindle.inspector.workbench import Workbench
from spindle.tools.filters import find_refusal

if TYPE_CHECKING:  # it needs the extra `tickets`
    from spindle.execution.tickets import TicketOffice

MAX_WAITING: Final = 1_000
"""Beyond this many, waiting calls are not counted."""
_POLL_SECONDS: Final = 1.0


def may_see(bench: Workbench, user: PageUser, tool: str) -> bool:
    """Return whether a user may see calls of a tool: the owner of the server all, a profile those it may make."""
    if user.profile is None:
        return True
    entry = bench.registry.entry(tool)
    return entry is not None and find_refusal(entry, bench.get_filter(user.profile)) is None


async def count_waiting(bench: Workbench, office: "TicketOffice", user: PageUser | None) -> int:
    """Return how many calls wait that a user may see; at most `MAX_WAITING`."""
    if user is None or user.profile is None:
        return len(await office.read_heads(is_pending=True, limit=MAX_WAITING))
    found = await office.list_page(is_pending=True, limit=100)
    return sum(may_see(bench, user, each.tool) for each in found)


async def watch_waiting(bench: Workbench, publish: Publish) -> None:
    """Send the number of waiting calls, and the newest of them, whenever they change."""
    office, user = bench.tickets, get_listener()
    last: object = None
    while office is not None:
        heads = await office.read_heads(is_pending=True, limit=MAX_WAITING)
        seen = tuple(each.id for each in heads)
        if seen != last:
            last = seen
            newest = await office.get(heads[0].id) if heads else None
            is_seen = newest is not None and (user is None or may_see(bench, user, newest.facts["tool"]))
            facts = {"id": newest.record.id, "tool": newest.facts["tool"]} if newest is not None and is_seen else None
            publish({"count": await count_waiting(bench, office, user), "newest": facts}, key="")
        await anyio.sleep(_POLL_SECONDS)
    publish({"count": 0, "newest": None}, key="")
    await anyio.sleep_forever()


async def watch_approvals(bench: Workbench, publish: Publish) -> None:
    """Tell the page that approvals have changed, so that it reads them again."""
    office = bench.tickets
    last: object = None
    while office is not None:
        heads = await office.read_heads(is_pending=True, limit=MAX_WAITING)
        heads += await office.read_heads(is_pending=False, limit=50)
        seen = tuple((each.id, each.version) for each in heads)
        if seen != last:
            last = seen
            publish({"changed_at": datetime.now(UTC).isoformat()}, key="")
        await anyio.sleep(_POLL_SECONDS)
    await anyio.sleep_forever()
