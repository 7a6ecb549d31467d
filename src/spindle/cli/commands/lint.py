"""`spindle lint`: check the definitions of all tools for poison, secrets, poor quality, provider limits and price."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from spindle.bridges.price import DIALECT_NAMES
from spindle.cli.config.loader import Config
from spindle.cli.main import FAILED, OK, USAGE
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output, build_warning_events, print_message, show_progress
from spindle.cli.runtime_flow import FlowDeclarations, build_flow_policy
from spindle.cli.runtime_registry import start_servers
from spindle.cli.runtime_servers import build_backends
from spindle.cli.runtime_tools import build_local_registry
from spindle.errors import CommandError, UsageError
from spindle.json_types import JsonObject
from spindle.mcp.client.features import KINDS as LIST_KINDS
from spindle.mcp.lint.baseline import Baseline
from spindle.mcp.lint.findings import SEVERITIES, Finding
from spindle.mcp.lint.linter import LintReport, is_covered, is_known_pattern, lint_subjects
from spindle.mcp.lint.rules import RULES
from spindle.mcp.lint.sarif import to_sarif
from spindle.mcp.lint.subjects import Subject, build_feature_subjects, build_subjects

_STYLES = {"error": "red bold", "warning": "yellow", "note": "dim"}
_MAX_FIXED_SHOWN = 20


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LintOptions:
    """What is reported, and what fails."""

    sarif: Annotated[bool, Parameter(negative="", help="Print SARIF 2.1.0, for code hosts and editors.")] = False
    rule: Annotated[
        tuple[str, ...], Parameter(negative="", help="Only this rule or family, such as SP101 or SP1; repeatable.")
    ] = ()
    ignore: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="Leave out a rule, a family or RULE:SERVER/TOOL, with * for any; repeatable."),
    ] = ()
    baseline: Annotated[Path | None, Parameter(help="Do not report the findings of this file.")] = None
    write_baseline: Annotated[
        bool, Parameter(negative="", help="Write the current findings to the file of --baseline.")
    ] = False
    fail_on: Annotated[
        Literal["error", "warning", "note"], Parameter(help="The mildest severity that fails; error by default.")
    ] = "error"
    dialect: Annotated[
        tuple[str, ...], Parameter(negative="", help="Check the limits and prices of this dialect only; repeatable.")
    ] = ()


_DEFAULT_OPTIONS = LintOptions()


def lint(
    *, json: Json = False, what: LintOptions = _DEFAULT_OPTIONS, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS
) -> int:
    """Check the definitions of all tools, and fail if one of them has an error."""
    config = where.load_for_tools()
    _check_options(what, config)
    accepted = _read_baseline(what)
    loaded = _load(config)
    report = lint_subjects(
        declare_subjects(config, loaded.subjects),
        dialects=what.dialect or DIALECT_NAMES,
        ignore=(*config.lint.ignore, *what.ignore),
        flow=build_flow_policy(config),
    )
    wanted = [each for each in report.findings if not what.rule or is_covered(each, what.rule)]
    if what.write_baseline:
        return _write_baseline(what, wanted, loaded.missing)
    new, fixed = accepted.split(wanted)
    out = Output()
    if what.sarif:
        out.json(to_sarif(new, version=version("spindle"), config="spindle.toml"))
    elif json:
        out.json(_to_json(report, new, fixed, loaded.missing))
    else:
        _print(out, report, new, fixed)
    for name in loaded.missing:
        reason = "it did not start"
        if config.servers[name].oauth:
            reason = f"it did not connect, or needs a login: run: spindle login {name}"
        print_message(f"MCP server {name!r} was not linted", f"{reason}; the command fails because of that")
    worst = SEVERITIES.index(what.fail_on)
    has_failed = any(SEVERITIES.index(each.severity) <= worst for each in new)
    return FAILED if has_failed or loaded.missing else OK


def declare_subjects(config: Config, subjects: Sequence[Subject]) -> list[Subject]:
    """Return definitions with their tools as `[flow]` declares them."""
    declarations = FlowDeclarations(config)
    return [each if each.tool is None else replace(each, tool=declarations.declare(each.tool)) for each in subjects]


def _check_options(what: LintOptions, config: Config) -> None:
    unknown = [each for each in (*what.rule, *what.ignore) if not is_known_pattern(each)]
    if unknown:
        raise CommandError(f"unknown rule {unknown[0]!r}", exit_code=USAGE, hint="docs/lint.md lists every rule")
    configured = [each for each in config.lint.ignore if not is_known_pattern(each)]
    if configured:
        raise config.error(("lint", "ignore"), f"unknown rule {configured[0]!r}; docs/lint.md lists every rule")
    strange = [each for each in what.dialect if each not in DIALECT_NAMES]
    if strange:
        hint = f"known dialects: {', '.join(DIALECT_NAMES)}"
        raise CommandError(f"unknown dialect {strange[0]!r}", exit_code=USAGE, hint=hint)
    if what.write_baseline and what.baseline is None:
        raise CommandError("--write-baseline needs a file", exit_code=USAGE, hint="name it with --baseline FILE")


def _read_baseline(what: LintOptions) -> Baseline:
    if what.baseline is None or what.write_baseline:
        return Baseline()
    try:
        return Baseline.from_json(what.baseline.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "write it with --write-baseline"
        raise CommandError(f"no baseline at {what.baseline}", exit_code=USAGE, hint=hint) from error
    except (UsageError, UnicodeDecodeError) as error:
        raise CommandError(f"{what.baseline}: {error}", exit_code=USAGE) from error


def _write_baseline(what: LintOptions, findings: Sequence[Finding], missing: Sequence[str]) -> int:
    if missing:
        message = f"no baseline was written: MCP server {missing[0]!r} did not start"
        raise CommandError(message, exit_code=FAILED, hint="its findings would be missing; start it, or disable it")
    if what.baseline is not None:
        what.baseline.write_text(Baseline.from_findings(findings).to_json(), encoding="utf-8")
        print_message(f"{len(findings)} findings were written to {what.baseline}")
    return OK


@dataclass(frozen=True, kw_only=True, slots=True)
class _Loaded:
    """The definitions of a configuration, and the servers that did not start."""

    subjects: list[Subject]
    missing: list[str] = field(default_factory=list[str])


def _load(config: Config) -> _Loaded:
    names = [name for name, entry in config.servers.items() if entry.enabled]
    if names:
        return anyio.run(_load_with_servers, config, names)
    return _Loaded(subjects=build_subjects(build_local_registry(config, build_backends(config))))


async def _load_with_servers(config: Config, names: list[str]) -> _Loaded:
    registry = build_local_registry(config, build_backends(config))
    with show_progress(f"starting {', '.join(names)} …") as progress:
        async with AsyncExitStack() as stack:
            servers, _ = await start_servers(config, registry, build_warning_events(progress), stack, wait=True)
            if servers is None:
                return _Loaded(subjects=build_subjects(registry))
            missing = [each.name for each in servers.status() if each.name in names and each.state != "ready"]
            for kind in LIST_KINDS:
                await servers.features.list(kind)  # a server lists its prompts and resources when it is asked
            features = [
                each for name in names for each in build_feature_subjects(name, servers.features.get_definitions(name))
            ]
            return _Loaded(subjects=[*build_subjects(registry, servers.definitions()), *features], missing=missing)


def _to_json(
    report: LintReport, new: Sequence[Finding], fixed: Sequence[JsonObject], missing: Sequence[str]
) -> JsonObject:
    return {
        "findings": [each.to_dict() for each in new],
        "fixed": list(fixed),
        "definitions": report.definitions,
        "missing": list(missing),
        "price": {
            "total": dict(report.prices.total),
            "servers": {name: dict(price) for name, price in report.prices.servers.items()},
            "tools": {name: dict(price) for name, price in report.prices.tools.items()},
        },
    }


def _print(out: Output, report: LintReport, new: Sequence[Finding], fixed: Sequence[JsonObject]) -> None:
    for each in new:
        place = f" {each.place}" if each.place else ""
        out.line(
            (f"{each.severity:7}", _STYLES[each.severity]),
            f" {each.rule} ",
            (each.subject, "cyan"),
            (place, "dim"),
            f": {each.message}",
        )
        if each.quote:
            out.line(f"          {each.quote}")
    if new:
        out.line()
        _print_rules(out, new)
    _print_price(out, report)
    counts = {severity: sum(each.severity == severity for each in new) for severity in SEVERITIES}
    said = ", ".join(f"{count} {severity}{'' if count == 1 else 's'}" for severity, count in counts.items())
    out.line((f"{report.definitions} definitions: {said}", "bold"))
    for entry in fixed[:_MAX_FIXED_SHOWN]:
        subject = "/".join(str(part) for part in (entry.get("server"), entry.get("name")) if part) or "all tools"
        out.line(("fixed", "green"), f"   {entry.get('rule')} {subject}: can be removed from the baseline")
    if len(fixed) > _MAX_FIXED_SHOWN:
        out.line(f"        and {len(fixed) - _MAX_FIXED_SHOWN} more")


def _print_rules(out: Output, new: Sequence[Finding]) -> None:
    """Print what each broken rule means, once."""
    for rule in dict.fromkeys(each.rule for each in new):
        out.line((rule, "bold"), f" {RULES[rule].title}. {RULES[rule].help}")
    out.line()


def _print_price(out: Output, report: LintReport) -> None:
    total = report.prices.total
    if not total or not any(total.values()):
        return
    rows = [
        [name or "this machine", *(f"{price.get(each, 0):,}" for each in total)] for name, price in _by_price(report)
    ]
    rows.append(["all", *(f"{tokens:,}" for tokens in total.values())])
    out.table(["tokens in each request", *total], rows, ["cyan"])
    out.line()


def _by_price(report: LintReport) -> list[tuple[str, dict[str, int]]]:
    servers = [(name, dict(price)) for name, price in report.prices.servers.items()]
    return sorted(servers, key=lambda item: -max(item[1].values(), default=0))
