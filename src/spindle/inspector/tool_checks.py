"""Prices and lint findings of the tools of a running server: computed in a thread, again when the tools change."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from spindle.bridges.price import DIALECT_NAMES
from spindle.concurrency import spawn_background
from spindle.json_types import JsonObject
from spindle.mcp import lint
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle import mcp
    from spindle.mcp.lint import Finding, LintMemory, LintReport
    from spindle.trust.flow.policy import FlowPolicy

PAUSE_SECONDS: Final = 2.0
"""Between two rounds: a server that changes its tools all the time does not take the time of the gateway."""
MAX_FINDINGS: Final = 50
"""Shown of one tool."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """The prices and findings of all tools at one moment."""

    number: int
    """Counts the rounds."""
    prices: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Tool → dialect → tokens of its definition."""
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    findings: "Mapping[tuple[str | None, str], tuple[Finding, ...]]" = field(
        default_factory=dict[tuple[str | None, str], "tuple[Finding, ...]"]
    )
    """By the server and the name that it uses; findings about all tools have an empty name."""

    def find(self, server: str | None, name: str) -> "Sequence[Finding]":
        """Return the findings about one tool, the worst first."""
        return self.findings.get((server, name), ())


class ToolChecks:
    """Keeps the report of a server up to date while a page shows it."""

    def __init__(self) -> None:
        self.report: CheckReport | None = None
        self.changes = 0
        """Counts what upstream servers report."""
        self._memory: LintMemory | None = None
        self._checked: tuple[object, int] | None = None
        self._is_running = False
        self._has_subscribed = False
        self._round_ended = anyio.Event()

    def watch(self, servers: "mcp.McpServers | None") -> None:
        """Notice changes of upstream servers, from the first call on."""
        if servers is not None and not self._has_subscribed:
            self._has_subscribed = True
            servers.on_change(self._count_change)

    def refresh(
        self,
        registry: ToolRegistry,
        servers: "mcp.McpServers | None" = None,
        *,
        ignore: Iterable[str] = (),
        flow: "FlowPolicy | None" = None,
    ) -> CheckReport | None:
        """Return the latest report, `None` before the first; compute a new one in the background if it is stale."""
        self.watch(servers)
        current = registry.version, self.changes
        if self._checked == current or self._is_running:
            return self.report
        self._is_running, self._checked = True, current
        patterns = tuple(ignore)

        async def check() -> None:
            try:
                try:
                    done = await to_thread.run_sync(
                        lambda: self._lint(registry, servers, patterns, flow), abandon_on_cancel=True
                    )
                    self.report = _summarise(done, 1 if self.report is None else self.report.number + 1)
                finally:
                    ended, self._round_ended = self._round_ended, anyio.Event()
                    ended.set()
                await anyio.sleep(PAUSE_SECONDS)
            finally:
                self._is_running = False

        spawn_background(check, name="spindle tool checks")
        return self.report

    async def wait(self) -> None:
        """Wait until the first round has ended."""
        if self._is_running and self.report is None:
            await self._round_ended.wait()

    def _count_change(self) -> None:
        self.changes += 1

    def _lint(
        self,
        registry: ToolRegistry,
        servers: "mcp.McpServers | None",
        ignore: Sequence[str],
        flow: "FlowPolicy | None",
    ) -> "LintReport":
        # The door loads the patterns and all that they need in this thread, in the first round.
        self._memory = self._memory or lint.LintMemory()
        listings: dict[str, list[JsonObject]] = {} if servers is None else servers.definitions()
        subjects = lint.build_subjects(registry, listings)
        return lint.lint_subjects(subjects, dialects=DIALECT_NAMES, ignore=ignore, flow=flow, memory=self._memory)


def count_severities(findings: "Iterable[Finding]") -> dict[str, int]:
    """Return how many findings there are of each severity."""
    return dict(Counter(each.severity for each in findings))


def _summarise(report: "LintReport", number: int) -> CheckReport:
    grouped: dict[tuple[str | None, str], list[Finding]] = {}
    for finding in report.findings:
        grouped.setdefault((finding.server, finding.name), []).append(finding)
    findings = {key: tuple(each[:MAX_FINDINGS]) for key, each in grouped.items()}
    prices = report.prices
    return CheckReport(number=number, prices=prices.tools, totals=prices.total, findings=findings)
