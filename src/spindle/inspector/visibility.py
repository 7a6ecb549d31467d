"""What a login with a profile may see: what was brought by tools that the profile may use, and nothing else.

The owner of the server sees all. Where it is not known which tool brought something, a profile does not see it.
"""

from collections.abc import Iterable

from spindle.artifacts.spool import SpoolEntry
from spindle.inspector.approval_feeds import may_see
from spindle.inspector.endpoints import PageUser
from spindle.inspector.workbench import Workbench
from spindle.journal.summaries import CallQuery
from spindle.tools.filters import ToolFilter
from spindle.turns import TurnStory

_MAX_CALLS = 20
"""How many calls of one artifact are looked at; more than one have it if a call was repeated."""


def may_see_all(bench: Workbench, user: PageUser | None, tools: Iterable[str]) -> bool:
    """Return whether a user may see something that all these tools have a part in."""
    return user is None or user.profile is None or all(may_see(bench, user, name) for name in set(tools))


def find_tools(bench: Workbench, user: PageUser) -> frozenset[str] | None:
    """Return the tools whose calls a user may see; `None` for all, also of tools that are not registered any more.

    A search must look for nothing else: how it ends would tell whether a hidden call matches.
    """
    if user.profile is None:
        return None
    names = (entry.tool.name for entry in bench.registry.entries())
    return frozenset(name for name in names if may_see(bench, user, name))


def may_see_turn(bench: Workbench, user: PageUser | None, story: TurnStory) -> bool:
    """Return whether a user may see a turn: the model says there what the tools answered."""
    if user is None or user.profile is None:
        return True
    if _has_unknown_tools(story):
        return False
    calls = (call.tool for step in story.iterations for call in step.calls)
    others = (each.tool for each in (*story.gates, *story.artifacts) if each.tool is not None)
    filling = (part.name for part in story.context if part.kind in {"calls", "results"} and part.name is not None)
    return may_see_all(bench, user, {*calls, *others, *filling})


def _has_unknown_tools(story: TurnStory) -> bool:
    """Return whether a turn is so long that its story does not name all tools that it used."""
    is_cut = bool(story.iterations_omitted) or any(step.calls_omitted for step in story.iterations)
    return is_cut or any(part.kind in {"calls", "results"} and part.name is None for part in story.context)


async def may_see_artifact(bench: Workbench, user: PageUser, entry: SpoolEntry) -> bool:
    """Return whether a user may see an artifact: the journal must have its call, of a tool that the user may see."""
    if user.profile is None:
        return True
    query = CallQuery(artifact_id=entry.id, turn_id=entry.turn_id)
    found = await bench.journal.search(query, limit=_MAX_CALLS)
    return bool(found.calls) and may_see_all(bench, user, (call.tool for call in found.calls))


def may_see_server(bench: Workbench, user: PageUser | None, name: str) -> bool:
    """Return whether a user may use an upstream server."""
    allowed = None if user is None or user.profile is None else bench.get_filter(user.profile)
    servers = None if allowed is None else allowed.allowed_mcp_servers
    return servers is None or name in servers


def may_see_withheld(bench: Workbench, user: PageUser | None, server: str, *, kind: str, name: str) -> bool:
    """Return whether a user could use a definition of an upstream server if it were not in quarantine."""
    allowed = None if user is None or user.profile is None else bench.get_filter(user.profile)
    return allows_withheld(allowed, server, kind=kind, name=name)


def allows_withheld(allowed: ToolFilter | None, server: str, *, kind: str, name: str) -> bool:
    """Return whether a filter would allow a definition of an upstream server, which is not registered."""
    if allowed is None:
        return True
    if allowed.allowed_mcp_servers is not None and server not in allowed.allowed_mcp_servers:
        return False
    if kind != "tool":
        # Clients see another name than that of the definition, so that it cannot be compared with the filter.
        return allowed.allowed_prompts is None and allowed.allowed_resources is None
    tools = None if allowed.allowed_mcp_tools is None else allowed.allowed_mcp_tools.get(server)
    return (tools is None or name in tools) and f"mcp__{server}__{name}" not in allowed.exclude_tools
