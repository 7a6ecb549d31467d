"""`python -m benchmarks.gateways`: one ordinary and one hostile suite through Spindle's gateway and its peers.

Each gateway has an environment of its own, made here on first use. Every one gets the same servers, as HTTP servers on
loopback, and the same client of the official SDK. A gateway that cannot be installed or started is reported with the
reason.
"""

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.gateway_peers.processes import ROOT, NotStarted, start_gateway, start_upstreams
from benchmarks.gateway_peers.suites import HOSTILE, ORDINARY, Target, Verdict, run_suite
from benchmarks.peers.__main__ import NotMeasured, python_of

PACKAGES = {
    "spindle": "spindle",
    "fastmcp": "fastmcp",
    "litellm": "litellm[proxy]",
    "contextforge": "mcp-contextforge-gateway",
}
"""Each gateway and the package that holds it."""
SUITES = {"ordinary": (ORDINARY, {"first": "ordinary"}), "hostile": (HOSTILE, {"first": "hostile", "second": "second"})}
DIRECT = "no gateway"


@dataclass
class Row:
    """What one gateway did."""

    name: str
    verdicts: dict[str, dict[str, Verdict]] = field(default_factory=dict[str, dict[str, Verdict]])
    problem: str = ""

    def count(self, suite: str) -> str:
        """Return how many cases hold."""
        found = self.verdicts.get(suite, {})
        return f"{sum(each.holds for each in found.values())} of {len(found)}" if found else "-"


async def measure(name: str, python: Path) -> Row:
    """Run both suites through one gateway."""
    row = Row(name)
    for suite, (cases, kinds) in SUITES.items():
        with tempfile.TemporaryDirectory(prefix="gateways-") as folder:
            try:
                async with start_upstreams(kinds, Path(folder)) as upstreams:
                    if name == DIRECT:
                        target = Target(
                            url=upstreams.addresses["first"], folder=Path(folder), restart_server=upstreams.restart
                        )
                        row.verdicts[suite] = await run_suite(cases, target) if suite == "ordinary" else {}
                        continue
                    async with start_gateway(name, python, upstreams) as target:
                        row.verdicts[suite] = await run_suite(cases, target)
            except NotStarted as reason:
                row.problem = str(reason)
    return row


def show(rows: Sequence[Row], console: Console | None = None) -> None:
    """Print a table for each suite, then the reasons of what does not hold."""
    out = Console(highlight=False) if console is None else console
    for suite, (cases, _) in SUITES.items():
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=_TITLES[suite], title_justify="left")
        table.add_column("case")
        shown = [row for row in rows if row.verdicts.get(suite)]
        for row in shown:
            table.add_column(row.name, justify="center")
        for case in cases:
            table.add_row(case, *(_mark(row.verdicts[suite].get(case)) for row in shown))
        table.add_row("", *(Text(row.count(suite), style="bold") for row in shown))
        out.print(table)
    for row in rows:
        if row.problem:
            out.print(Text(f"{row.name}: not measured; {row.problem}", style="red"))
        for verdicts in row.verdicts.values():
            for case, verdict in verdicts.items():
                if verdict.reason:
                    out.print(Text(f"{row.name}: {case}: {verdict.reason}", style="dim"))


_TITLES: Mapping[str, str] = {
    "ordinary": "What a client still gets through each gateway",
    "hostile": "What a hostile server does not reach",
}


def _mark(verdict: Verdict | None) -> Text:
    if verdict is None:
        return Text("-")
    return Text("yes", style="green") if verdict.holds else Text("no", style="red")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; fails only when Spindle does not hold in every case."""
    parser = ArgumentParser(prog="python -m benchmarks.gateways", description="The same servers behind each gateway.")
    parser.add_argument("gateways", nargs="*", help=f"of {', '.join(PACKAGES)}; default: all")
    parser.add_argument("--cache", type=Path, default=ROOT / ".peers", help="where the environments are made")
    options = parser.parse_args(argv)
    unknown = set(options.gateways) - set(PACKAGES)
    if unknown:
        parser.error(f"no such gateway: {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    rows: list[Row] = []
    for name in (DIRECT, *(each for each in PACKAGES if not options.gateways or each in options.gateways)):
        print(f"… {name}", file=sys.stderr, flush=True)
        try:
            python = Path(sys.executable) if name == DIRECT else python_of(PACKAGES[name], options.cache.resolve())
        except NotMeasured as reason:
            rows.append(Row(name, problem=str(reason)))
            continue
        rows.append(anyio.run(measure, name, python))
    show(rows)
    ours = [row for row in rows if row.name == "spindle"]
    return 1 if any(not each.holds for row in ours for found in row.verdicts.values() for each in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
