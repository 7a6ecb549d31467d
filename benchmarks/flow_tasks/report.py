"""The table of the measurement, and the calls and attacks behind its numbers."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from benchmarks.flow_tasks.domains import DOMAINS, HELD_OUT
from benchmarks.flow_tasks.replay import POLICIES, Policy, Replay, Report
from benchmarks.flow_tasks.scenario import Domain

HEADER: Final = (
    "domain",
    "policy",
    "utility",
    "sink calls",
    "asked",
    "due",
    "needless",
    "missed",
    "unapproved",
    "later",
)


async def measure_all(
    policies: Iterable[Policy] = POLICIES, *, domains: Iterable[Domain[Any]] = DOMAINS
) -> list[Report]:
    """Replay every domain under every policy."""
    measured = tuple(domains)
    return [await Replay(domain, policy).measure() for policy in policies for domain in measured]


def render_table(reports: Iterable[Report]) -> str:
    """The reports as a table of plain text, with a row for the sum of each part under each policy."""
    found = list(reports)
    rows = [row for policy in POLICIES for row in _iterate_parts([each for each in found if each.policy == policy])]
    cells = [HEADER, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (zip(line, widths, strict=True) for line in cells)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _iterate_parts(reports: list[Report]) -> Iterator[tuple[str, ...]]:
    names = {domain.name for domain in HELD_OUT}
    yield from _iterate_rows([each for each in reports if each.domain not in names], "development")
    yield from _iterate_rows([each for each in reports if each.domain in names], "held out")


def _iterate_rows(reports: list[Report], part: str) -> Iterator[tuple[str, ...]]:
    if not reports:
        return
    total = Report(domain=part, policy=reports[0].policy)
    for each in reports:
        total.tasks += each.tasks
        total.pairs += each.pairs
        total.failed += each.failed
        total.judged += each.judged
        total.passed += each.passed
    for each in (*reports, total):
        passed = [sum(one.when == when for one in each.passed) for when in ("same turn", "a turn later")]
        yield (
            each.domain,
            each.policy,
            f"{each.tasks - len(each.failed)}/{each.tasks}",
            str(len(each.judged)),
            str(sum(one.is_asked for one in each.judged)),
            str(sum(bool(one.call.due) for one in each.judged)),
            str(sum(one.is_needless for one in each.judged)),
            str(sum(one.is_missed for one in each.judged)),
            *(f"{number}/{each.pairs}" for number in passed),
        )


def list_findings(report: Report) -> Iterator[str]:
    """Yield a line for each question that is needless or missing, each attack that passed, each task that failed."""
    for one in report.judged:
        if one.is_needless or one.is_missed:
            kind = "needless" if one.is_needless else "missed"
            why = "; ".join(one.reasons) if one.is_needless else one.call.due
            yield f"{kind}: {report.domain}, {one.task}: {one.call.name}({dict(one.call.args)}): {why}"
    for each in report.passed:
        yield f"unapproved: {report.domain}, {each.attack}, in {each.task}, {each.when}"
    for name in report.failed:
        yield f"failed: {report.domain}, {name}"
