"""The tools of a running server as rows of a list: those of the registry, and those in quarantine."""

from typing import Final, Literal

from spindle.calls import Label
from spindle.errors import UnknownItemError
from spindle.inspector.endpoints import ApiModel, PageUser
from spindle.inspector.tool_checks import CheckReport, count_severities
from spindle.inspector.tool_facts import (
    LockFacts,
    LockState,
    OriginKind,
    WithheldTool,
    find_lock,
    find_origin,
    find_title,
    list_withheld,
)
from spindle.inspector.visibility import allows_withheld
from spindle.inspector.workbench import Workbench
from spindle.mcp.lint.findings import Finding
from spindle.mcp.lint.rules import RULES
from spindle.text import shorten, to_encodable
from spindle.tools.declaration import Tool
from spindle.tools.entry import Entry, is_available
from spindle.tools.filters import ToolFilter, find_refusal
from spindle.trust.flow.policy import FlowPolicy

_MAX_ROW_CHARS: Final = 500
_ABOUT_OTHERS: Final = frozenset(("SP113", "SP114", "SP115", "SP116"))
"""Rules that compare a tool with others and name them; a profile may not know these."""


class ToolLock(ApiModel):
    """Whether the definition of a tool was accepted, and why it is withheld."""

    state: LockState
    reason: str | None = None


class ToolRow(ApiModel):
    """One tool of the list."""

    name: str
    title: str | None = None
    description: str = ""
    origin: OriginKind
    source: str
    """The server, the API, the toolset of the kit, or the module."""
    toolset: str | None = None
    trust: Label | None = None
    """The trust label of its results."""
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False
    needs_approval: bool = False
    is_available: bool = True
    capabilities: tuple[str, ...] = ()
    lock: ToolLock
    prices: dict[str, int] | None = None
    """Dialect → tokens of its definition; `None` until they are computed."""
    findings: dict[str, int] | None = None
    """Severity → number of lint findings."""


class ToolFinding(ApiModel):
    """A lint finding."""

    rule: str
    severity: Literal["error", "warning", "note"]
    title: str
    help: str
    message: str
    place: str
    quote: str


def find_entries(bench: Workbench, user: PageUser) -> list[Entry]:
    """Return the tools that a user may use, without hidden ones and those of other users."""
    allowed = bench.get_filter(user.profile)
    others = frozenset[str]() if bench.servers is None else bench.servers.find_hidden_tools(user.user)
    return [each for each in bench.registry.entries() if _is_listed(each, allowed) and each.tool.name not in others]


def find_entry(bench: Workbench, user: PageUser, name: str) -> Entry:
    """Return a tool that a user may use.

    Raises:
        UnknownItemError: No tool has that name.
    """
    found = next((each for each in find_entries(bench, user) if each.tool.name == name), None)
    if found is None:
        raise UnknownItemError("no tool has this name, or this profile may not use it")
    return found


def refresh_checks(bench: Workbench) -> CheckReport | None:
    """Return the prices and findings, as far as they are known, and compute them again if tools have changed."""
    flow = bench.policy if isinstance(bench.policy, FlowPolicy) else None
    return bench.checks.refresh(bench.registry, bench.servers, ignore=bench.lint_ignore, flow=flow)


def build_row(entry: Entry, bench: Workbench, report: CheckReport | None, user: PageUser) -> ToolRow:
    """Build the row of a registered tool."""
    tool, origin = entry.tool, find_origin(entry)
    lock = find_lock(entry, None if bench.servers is None else bench.servers.lock)
    findings = None if report is None else _find_findings(entry, report, user)
    return ToolRow(
        name=to_encodable(tool.name),
        title=find_title(tool),
        description=shorten(to_encodable(tool.description.strip()), _MAX_ROW_CHARS),
        origin=origin.kind,
        source=origin.name,
        toolset=tool.toolset,
        trust="trusted" if tool.trusted else tool.output,
        is_read_only=tool.read_only,
        is_destructive=tool.destructive,
        is_idempotent=tool.idempotent,
        needs_approval=tool.requires_approval,
        is_available=is_available(tool),
        capabilities=tool.capabilities.declared(),
        lock=_build_lock(lock),
        prices=None if report is None else dict(report.prices.get(tool.name, {})),
        findings=None if findings is None else count_severities(findings),
    )


def build_withheld_row(tool: WithheldTool) -> ToolRow:
    """Build the row of a tool in quarantine."""
    name = to_encodable(f"mcp__{tool.server}__{tool.name}")
    return ToolRow(name=name, origin="server", source=tool.server, is_available=False, lock=_build_lock(tool.lock))


def _build_lock(lock: LockFacts) -> ToolLock:
    return ToolLock(state=lock.state, reason=None if lock.reason is None else to_encodable(lock.reason))


def find_withheld(bench: Workbench, profile: str | None) -> list[WithheldTool]:
    """Return the tools in quarantine that a profile could use otherwise."""
    if bench.servers is None:
        return []
    allowed = bench.get_filter(profile)
    found = list_withheld(bench.servers.status(), bench.servers.lock)
    return [each for each in found if allows_withheld(allowed, each.server, kind="tool", name=each.name)]


def _is_listed(entry: Entry, allowed: ToolFilter | None) -> bool:
    return not entry.hidden and find_refusal(entry, allowed) is None


def is_match(tool: Tool, wanted: str) -> bool:
    """Return whether the name, the title or the description of a tool contains a text in lower case."""
    return not wanted or any(
        wanted in text.casefold() for text in (tool.name, find_title(tool) or "", tool.description)
    )


def _find_findings(entry: Entry, report: CheckReport, user: PageUser) -> list[Finding]:
    found = report.find(entry.mcp_server, entry.mcp_tool or entry.tool.name)
    return [each for each in found if user.profile is None or each.rule not in _ABOUT_OTHERS]


def build_findings(entry: Entry, report: CheckReport | None, user: PageUser) -> list[ToolFinding]:
    """Return the lint findings about a tool, the worst first."""
    found = [] if report is None else _find_findings(entry, report, user)
    return [
        ToolFinding(
            rule=each.rule,
            severity=each.severity,
            title=RULES[each.rule].title,
            help=RULES[each.rule].help,
            message=to_encodable(each.message),
            place=to_encodable(each.place),
            quote=to_encodable(each.quote),
        )
        for each in found
    ]
