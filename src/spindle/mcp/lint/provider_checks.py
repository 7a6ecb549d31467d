"""Checks against the limits of model providers, and the price of definitions in tokens."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.bridges.dialects import ALL, Dialect
from spindle.bridges.price import DIALECT_NAMES, define_tool, price_definition
from spindle.bridges.provider_limits import Rules, property_name
from spindle.bridges.schema_lowering.lowering import lower
from spindle.errors import CannotLowerError, SpindleError
from spindle.json_types import JsonObject
from spindle.mcp.lint.findings import Finding, show_name
from spindle.mcp.lint.memory import LintMemory
from spindle.mcp.lint.rules import report
from spindle.mcp.lint.subjects import Subject
from spindle.tools.declaration import Tool

MAX_TOOL_TOKENS: Final = 1_500
MAX_SERVER_TOKENS: Final = 15_000
MAX_ALL_TOKENS: Final = 30_000
_MAX_NAMED: Final = 4
_UNNOTICED: Final = frozenset(
    (
        *("title", "$schema", "$id", "$comment", "examples", "default", "deprecated", "readOnly", "$defs"),
        *("definitions", "additionalProperties", "strict"),
    )
)
"""Keywords that models do without."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceTable:
    """The estimated tokens of all definitions by dialect, in all and by server."""

    total: Mapping[str, int] = field(default_factory=dict[str, int])
    servers: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Tools that run here are under the empty name."""
    tools: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """By registered name."""


def check_providers(
    subjects: Sequence[Subject], dialect_names: Sequence[str] = DIALECT_NAMES, memory: LintMemory | None = None
) -> tuple[list[Finding], PriceTable]:
    """Return the findings about limits and prices, and the prices."""
    found: list[Finding] = []
    chosen = [each for each in ALL if each.name in dialect_names]
    known, part = LintMemory() if memory is None else memory, " ".join(each.name for each in chosen)
    prices: dict[str, dict[str, int]] = {}
    servers: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys((each.name for each in chosen), 0))
    for subject in subjects:
        if subject.tool is None:
            continue
        try:
            notes = known.recall(part, subject, lambda tool=subject.tool: _check_tool(tool, chosen))
        except SpindleError:  # it cannot be described at all, and is left out of the definitions
            continue
        found += _report(subject, notes)
        prices[subject.tool.name] = notes.price
        for name, tokens in notes.price.items():
            servers[subject.server or ""][name] += tokens
    total = {each.name: sum(by.get(each.name, 0) for by in servers.values()) for each in chosen}
    table = PriceTable(total=total, servers=servers, tools=prices)
    return found + list(_check_counts(len(prices), chosen)) + list(_check_sums(table)), table


@dataclass(slots=True)
class _ToolNotes:
    """What the dialects make of one tool: for each problem the dialects that have it."""

    renamed: list[str] = field(default_factory=list[str])
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    lost: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    remapped: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    loose: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    price: dict[str, int] = field(default_factory=dict[str, int])


def _check_tool(tool: Tool, chosen: Sequence[Dialect]) -> _ToolNotes:
    notes = _ToolNotes()
    strict: dict[Rules, str | None] = {}  # dialects share rules, and lowering takes most of the time
    schema: JsonObject = tool.describe()["input_schema"]
    for dialect in chosen:
        try:
            definition = define_tool(tool, dialect.name)
        except CannotLowerError as error:
            notes.refused[error.why or str(error)].append(dialect.name)
            continue
        notes.price[dialect.name] = price_definition(definition)
        if definition.wire_name != tool.name:
            notes.renamed.append(dialect.name)
        lost = sorted({loss.keyword for loss in definition.report.dropped} - _UNNOTICED)
        if lost:
            notes.lost[", ".join(lost)].append(dialect.name)
        names = [name for name in schema.get("properties", {}) if property_name(name, dialect.limits) != name]
        if names:
            notes.remapped[", ".join(show_name(name) for name in names[:_MAX_NAMED])].append(dialect.name)
        rules = dialect.strict_rules
        if rules is not None and schema.get("properties"):
            if rules not in strict:
                strict[rules] = _find_strict_problem(schema, rules)
            if (problem := strict[rules]) is not None:
                notes.loose[problem].append(dialect.name)
    return notes


def _find_strict_problem(schema: JsonObject, rules: Rules) -> str | None:
    try:
        lower(schema, rules)
    except CannotLowerError as error:
        return f"{error.path or '/'}: {error.why}"
    return None


def _report(subject: Subject, notes: _ToolNotes) -> Iterator[Finding]:
    if notes.renamed:
        yield report("SP401", subject, f"the name is changed for {', '.join(notes.renamed)}", place="/name")
    for why, names in notes.refused.items():
        yield report("SP402", subject, f"{', '.join(names)}: {why}", place="/inputSchema")
    for keywords, names in notes.lost.items():
        yield report("SP403", subject, f"{', '.join(names)} cannot express {keywords}", place="/inputSchema")
    for why, names in notes.loose.items():
        yield report("SP405", subject, f"{', '.join(names)}: {why}", place="/inputSchema")
    for changed, names in notes.remapped.items():
        yield report("SP406", subject, f"{', '.join(names)}: {changed}", place="/inputSchema/properties")
    worst = max(notes.price, key=lambda name: notes.price[name], default=None)
    if worst is not None and notes.price[worst] > MAX_TOOL_TOKENS:
        yield report("SP501", subject, f"costs about {notes.price[worst]:,} tokens in each request ({worst})")


def _check_counts(count: int, chosen: Sequence[Dialect]) -> Iterator[Finding]:
    for dialect in chosen:
        most = dialect.limits.max_tools
        if most is not None and count > most:
            yield report("SP404", None, f"{dialect.name} accepts {most} tools, and {count} are offered")


def _check_sums(table: PriceTable) -> Iterator[Finding]:
    for server, price in table.servers.items():
        worst = max(price, key=lambda name: price[name], default=None)
        if server and worst is not None and price[worst] > MAX_SERVER_TOKENS:
            message = f"the tools of this server cost about {price[worst]:,} tokens in each request ({worst})"
            yield report("SP502", None, message, server=server)
    worst = max(table.total, key=lambda name: table.total[name], default=None)
    if worst is not None and table.total[worst] > MAX_ALL_TOKENS:
        yield report("SP503", None, f"all tools cost about {table.total[worst]:,} tokens in each request ({worst})")
