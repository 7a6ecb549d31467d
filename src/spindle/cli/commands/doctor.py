"""`spindle doctor`: check the machine, the configuration, the MCP servers and the extras; problems come first."""

import dataclasses
import glob
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import cast

import anyio

from spindle.cli.checks.check import Check, Status
from spindle.cli.checks.configuration import check_config
from spindle.cli.checks.extras import check_extras
from spindle.cli.checks.flow import check_flow
from spindle.cli.checks.logins import check_logins
from spindle.cli.checks.machine import check_machine
from spindle.cli.checks.servers import check_servers
from spindle.cli.commands.journal import CallFilter, read_calls
from spindle.cli.config.loader import Config
from spindle.cli.main import FAILED, OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output, show_progress
from spindle.errors import InvalidConfigError, SpindleError


def check_journal_file(config: Config) -> Iterator[Check]:
    """Check that a journal in a file can be read."""
    if isinstance(config.journal, Path):
        yield _check_journal_file("configuration", config.journal)


def _check_journal_file(area: str, path: Path) -> Check:
    damaged = sorted(path.parent.glob(f"{glob.escape(path.name)}.damaged-*"))
    if damaged and not path.exists():
        fix = f"to start a new journal, move {damaged[-1]} to another folder"
        return Check(area, "journal", "failed", f"{path} is damaged; no calls can be made without a journal", fix)
    try:
        anyio.run(read_calls, path, CallFilter(limit=1))
    except SpindleError as error:
        return Check(area, "journal", "failed", str(error), f"move {path} to another folder, or set journal.path")
    return Check(area, "journal", "ok", str(path))


CHECKS: tuple[Callable[[Config], Iterable[Check]], ...] = (
    check_config,
    check_journal_file,
    check_flow,
    check_servers,
    check_logins,
    check_extras,
)
"""The checks of a configuration that could be loaded, in the order of the report; each may block."""

_ORDER: tuple[Status, ...] = ("failed", "warning", "ok")
_HEADINGS = {"failed": "problems", "warning": "warnings"}
_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


def doctor(*, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Check this machine, the configuration and its servers; exit code 1 if a check fails."""
    with show_progress("checking …") as progress:
        config, checks = _load(where)
        checks += check_machine(config)
        if config is not None:
            started = [name for name, entry in config.servers.items() if entry.enabled]
            progress.update(f"starting {', '.join(started)} …" if started else "checking …")
            checks += (check for run in CHECKS for check in run(config))
    checks.sort(key=lambda check: _ORDER.index(check.status))  # stable: areas stay together
    is_fine = not any(check.status == "failed" for check in checks)
    out = Output()
    if json:
        out.json({"ok": is_fine, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        _print(out, checks)
    return OK if is_fine else FAILED


def _load(where: ConfigOptions) -> tuple[Config | None, list[Check]]:
    try:
        return where.load(), []
    except InvalidConfigError as error:
        problems = error.problems
        return None, [Check("configuration", "config", "failed", problem, "fix the file") for problem in problems]


def _print(out: Output, checks: list[Check]) -> None:
    sections = groupby(checks, key=lambda check: _HEADINGS.get(check.status, check.area))
    for number, (heading, members) in enumerate(sections):
        if number:
            out.line()
        out.line((heading, "bold"))
        for check in members:
            place = f"{check.area}: " if check.status in _HEADINGS else ""
            out.line("  ", _MARKS[check.status], f" {place}{check.name}: {check.detail}")
            for name, value in check.facts.items():
                out.line("      ", (f"{name}: ", "dim"), _to_text(value))
            if check.fix:
                out.line(("    " + check.fix, "cyan"))


def _to_text(value: object) -> str:
    match value:
        case list():
            return ", ".join(map(str, cast("list[object]", value))) or "none"
        case dict():
            return ", ".join(f"{name} {each}" for name, each in cast("dict[str, object]", value).items()) or "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)
