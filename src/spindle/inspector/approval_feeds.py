"""Live feeds of approvals: how many calls wait, and that something about them has changed."""

from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import anyio

from spindle.inspector.endpoints import PageUser
from spindle.inspector.live import Publish, get_listener
from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonObject
from spindle.tools.filters import find_refusal

if TYPE_CHECKING:  # it needs the extra `tickets`
    from spindle.execution.tickets import Approval, TicketOffice

MAX_WAITING: Final = 1_000
"""Beyond this many, waiting calls are not counted."""
MAX_READ: Final = 2_000
"""Approvals that are read for one page of a profile; then it ends, and may be empty."""
_PAGE: Final = 100
_MAX_KNOWN: Final = 5 * MAX_WAITING
_tools: "WeakKeyDictionary[TicketOffice, OrderedDict[str, str]]" = WeakKeyDictionary()
"""The tools of tickets, by their ids: pages count them every second, and tickets are large."""
_POLL_SECONDS: Final = 1.0


def may_see(bench: Workbench, user: PageUser, tool: str) -> bool:
    """Return whether a user may see calls of a tool: the owner of the server all, a profile those it may make."""
    if user.profile is None:
        return True
    entry = bench.registry.entry(tool)
    return entry is not None and find_refusal(entry, bench.get_filter(user.profile)) is None


async def list_visible(
    bench: Workbench,
    office: "TicketOffice",
    user: PageUser | None,
    *,
    is_pending: bool | None,
    before: str | None = None,
    limit: int,
) -> "tuple[list[Approval], str | None]":
    """Return approvals that a user may see, newest first, and where to go on; `None` if there are no more.

    A page of a profile ends at what it may see: how many others there are is not its business.
    """
    found: list[Approval] = []
    place, size = before, min(limit + 1, _PAGE)
    for _ in range(0, MAX_READ, size):
        page = await office.list_page(is_pending=is_pending, before=place, limit=size)
        for each in page:
            if user is None or may_see(bench, user, each.tool):
                if len(found) == limit:
                    return found, found[-1].id
                found.append(each)
        if len(page) < size:
            return found, None
        place = page[-1].id
    return found, place


async def count_waiting(bench: Workbench, office: "TicketOffice", user: PageUser | None) -> int:
    """Return how many calls wait that a user may see; at most `MAX_WAITING`."""
    if user is None or user.profile is None:
        return len(await office.read_heads(is_pending=True, limit=MAX_WAITING))
    return len(await _list_waiting(bench, office, user))


async def _list_waiting(bench: Workbench, office: "TicketOffice", user: PageUser) -> list[tuple[str, str]]:
    """Return the ids and tools of the waiting calls that a user may see, newest first; each ticket is read once."""
    known = _tools.setdefault(office, OrderedDict())
    found: list[tuple[str, str]] = []
    for head in await office.read_heads(is_pending=True, limit=MAX_WAITING):
        if head.id not in known:
            ticket = await office.get(head.id)
            if ticket is None:
                continue
            known[head.id] = ticket.facts["tool"]
        found.append((head.id, known[head.id]))
    while len(known) > _MAX_KNOWN:
        known.popitem(last=False)
    seen = {tool: may_see(bench, user, tool) for tool in {tool for _, tool in found}}
    return [each for each in found if seen[each[1]]]


async def watch_waiting(bench: Workbench, publish: Publish) -> None:
    """Send the number of waiting calls, and the newest of them, whenever they change."""
    office, user = bench.tickets, get_listener()
    last: object = None
    sent: JsonObject | None = None
    while office is not None:
        heads = await office.read_heads(is_pending=True, limit=MAX_WAITING)
        seen = tuple(each.id for each in heads)
        if seen != last:
            last = seen
            newest, _ = await list_visible(bench, office, user, is_pending=True, limit=1)
            facts = {"id": newest[0].id, "tool": newest[0].tool} if newest else None
            value: JsonObject = {"count": await count_waiting(bench, office, user), "newest": facts}
            if value != sent:  # a change of what only others see is not sent
                publish(value, key="")
                sent = value
        await anyio.sleep(_POLL_SECONDS)
    publish({"count": 0, "newest": None}, key="")
    await anyio.sleep_forever()


async def watch_approvals(bench: Workbench, publish: Publish) -> None:
    """Tell the page that approvals have changed, so that it reads them again."""
    office, user = bench.tickets, get_listener()
    last: object = None
    visible: object = None
    while office is not None:
        heads = await office.read_heads(is_pending=True, limit=MAX_WAITING)
        heads += await office.read_heads(is_pending=False, limit=50)
        seen = tuple((each.id, each.version) for each in heads)
        if seen != last:
            last = seen
            shown = seen if user is None or user.profile is None else await _list_states(bench, office, user)
            if shown != visible:
                visible = shown
                publish({"changed_at": datetime.now(UTC).isoformat()}, key="")
        await anyio.sleep(_POLL_SECONDS)
    await anyio.sleep_forever()


async def _list_states(bench: Workbench, office: "TicketOffice", user: PageUser) -> object:
    found, _ = await list_visible(bench, office, user, is_pending=None, limit=_PAGE)
    return [(each.id, each.status) for each in found]
