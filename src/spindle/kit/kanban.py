"""The kanban tools (list, show, add, move, comment), on the storage capability; one board for each session."""

from collections.abc import Iterable
from datetime import UTC, datetime
from secrets import token_hex
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from spindle.calls import Err
from spindle.capabilities.declare import Capabilities
from spindle.json_types import JsonObject
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.trust.flow.roles import Content, Ref, Setting


def _normal(status: str) -> str:
    return status.strip().lower()


Status = Annotated[str, Field(min_length=1, max_length=40), AfterValidator(_normal), Setting()]
"""Any text; `done` and `cancelled` close a ticket, in upper or lower case."""
Ticket: TypeAlias = JsonObject
TicketId = Annotated[str, Field(min_length=1, max_length=40, pattern="^[A-Za-z0-9_-]+$"), Ref("ticket")]

_PREFIX = "kanban/"
_CAPABILITIES = Capabilities(storage="session")
_LISTED = ("id", "title", "status", "updated_at")


def _resources(_args: object) -> Iterable[str]:
    return ["kanban"]


@tool(
    toolset="kanban",
    capabilities=_CAPABILITIES,
    resources=_resources,
    produces="ticket",
    read_only=True,
    timeout_seconds=30,
    max_result_chars=40_000,
)
async def kanban_list(status: Status | None = None, *, ctx: ToolContext) -> list[Ticket]:
    """List the tickets of the board, oldest first. A ticket is open unless it is done or cancelled.

    Args:
        status: Only tickets of this status, such as "doing"; leave it out for all of them.
    """
    tickets = [await ctx.storage.get(key) for key in await ctx.storage.keys(_PREFIX)]
    listed = [ticket for ticket in tickets if ticket is not None and status in (None, ticket["status"])]
    listed.sort(key=lambda ticket: (str(ticket["created_at"]), str(ticket["id"])))
    return [{name: ticket[name] for name in _LISTED} for ticket in listed]


@tool(
    toolset="kanban",
    capabilities=_CAPABILITIES,
    resources=_resources,
    produces="ticket",
    read_only=True,
    timeout_seconds=30,
)
async def kanban_show(id: TicketId, *, ctx: ToolContext) -> Ticket | Err:
    """Show one complete ticket, with its comments.

    Args:
        id: The ticket's id, as returned by kanban_list.
    """
    ticket = await ctx.storage.get(_PREFIX + id)
    return _build_missing_error(id) if ticket is None else ticket


@tool(toolset="kanban", capabilities=_CAPABILITIES, resources=_resources, produces="ticket", timeout_seconds=30)
async def kanban_add(
    title: Annotated[str, Field(min_length=1, max_length=300), Content()], status: Status = "todo", *, ctx: ToolContext
) -> Ticket:
    """Add a ticket to the board, and return it with its new id.

    Args:
        title: What is to be done, in one line.
        status: The initial status: "todo", "doing", "blocked", or a word of your own.
    """
    # Random instead of sequential: two processes may share a session, and storage has no locks.
    number = token_hex(3)
    while await ctx.storage.get(_PREFIX + number) is not None:
        number = token_hex(3)
    now = _now()
    ticket: Ticket = {
        "id": number,
        "title": title,
        "status": status,
        "created_at": now,
        "updated_at": now,
        "comments": [],
    }
    await ctx.storage.set(_PREFIX + number, ticket)
    return ticket


@tool(toolset="kanban", capabilities=_CAPABILITIES, resources=_resources, idempotent=True, timeout_seconds=30)
async def kanban_move(id: TicketId, status: Status, *, ctx: ToolContext) -> Ticket | Err:
    """Move a ticket to another status, and return the updated ticket.

    Args:
        id: The ticket's id, as returned by kanban_list.
        status: The new status: "todo", "doing", "blocked", "done", "cancelled", or a word of your own.
    """
    ticket = await ctx.storage.get(_PREFIX + id)
    if ticket is None:
        return _build_missing_error(id)
    moved = ticket | {"status": status, "updated_at": _now()}
    await ctx.storage.set(_PREFIX + id, moved)
    return moved


@tool(toolset="kanban", capabilities=_CAPABILITIES, resources=_resources, timeout_seconds=30)
async def kanban_comment(
    id: TicketId,
    text: Annotated[str, Field(min_length=1, max_length=4_000), Content()],
    *,
    ctx: ToolContext,
) -> Ticket | Err:
    """Add a comment to a ticket, and return the ticket with all of its comments.

    Args:
        id: The ticket's id, as returned by kanban_list.
        text: The comment.
    """
    ticket = await ctx.storage.get(_PREFIX + id)
    if ticket is None:
        return _build_missing_error(id)
    now = _now()
    said = ticket | {"comments": [*ticket["comments"], {"at": now, "text": text}], "updated_at": now}
    await ctx.storage.set(_PREFIX + id, said)
    return said


def _build_missing_error(number: str) -> Err:
    return Err("input_invalid", f"There is no ticket {number!r}; kanban_list shows the existing ids.", field="id")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
