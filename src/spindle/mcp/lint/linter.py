"""The linter: all checks over all definitions of a registry, in a fixed order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from spindle.bridges.price import DIALECT_NAMES
from spindle.errors import InvalidToolError
from spindle.json_types import JsonObject, is_object
from spindle.mcp.lint.findings import SEVERITIES, Finding
from spindle.mcp.lint.flow_checks import check_flow
from spindle.mcp.lint.memory import LintMemory
from spindle.mcp.lint.name_checks import check_names
from spindle.mcp.lint.provider_checks import PriceTable, check_providers
from spindle.mcp.lint.rules import RULES, report
from spindle.mcp.lint.schema_checks import check_registry, check_schema
from spindle.mcp.lint.subjects import Subject, build_subjects
from spindle.mcp.lint.text_checks import check_texts
from spindle.text import escape_invisible
from spindle.tools.registry import ToolRegistry
from spindle.trust.definitions import DefinitionTexts, sanitise_definition
from spindle.trust.flow.policy import FlowPolicy

_MAX_REASON_CHARS: Final = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class LintReport:
    """The findings, the worst first, and the price of the definitions."""

    findings: list[Finding]
    prices: PriceTable = field(default_factory=PriceTable)
    definitions: int = 0
    """How many were linted."""


def lint_registry(
    registry: ToolRegistry,
    listings: Mapping[str, Iterable[JsonObject]] | None = None,
    *,
    extra: Iterable[Subject] = (),
    dialects: Sequence[str] = DIALECT_NAMES,
    ignore: Iterable[str] = (),
    flow: FlowPolicy | None = None,
) -> list[Finding]:
    """Return the findings about all tools of a registry, the worst first.

    `listings` has the definitions of upstream servers before they were sanitised: `McpServers.definitions()`. Without
    it, their sanitised definitions are linted. `extra` has further definitions, such as prompts. `ignore` has rules to
    leave out: `SP304`, a family such as `SP3`, or `SP104:server/tool` with `*` for any text. With `flow`, what
    the tools declare for that policy is checked too.
    """
    subjects = [*build_subjects(registry, listings), *extra]
    return lint_subjects(subjects, dialects=dialects, ignore=ignore, flow=flow).findings


def lint_subjects(
    subjects: Sequence[Subject],
    *,
    dialects: Sequence[str] = DIALECT_NAMES,
    ignore: Iterable[str] = (),
    flow: FlowPolicy | None = None,
    memory: LintMemory | None = None,
) -> LintReport:
    """Lint definitions, and return the findings and the prices; a `memory` spares those it has seen unchanged."""
    known = LintMemory() if memory is None else memory
    priced, prices = check_providers(subjects, dialects, known)
    found = [
        *(
            finding
            for subject in subjects
            for finding in known.recall("definition", subject, lambda each=subject: tuple(_check_subject(each)))
        ),
        *check_names(subjects),
        *check_registry(subjects),
        *priced,
        *(() if flow is None else check_flow(subjects, flow)),
    ]
    patterns = tuple(ignore)
    kept = {each.fingerprint: each for each in found if not is_covered(each, patterns)}
    ordered = sorted(kept.values(), key=_sort_key)
    return LintReport(findings=ordered, prices=prices, definitions=len(subjects))


def lint_poison(subjects: Iterable[Subject], *, ignore: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield the poison in single definitions, errors only: what a gateway looks for while it runs."""
    patterns = tuple(ignore)
    for subject in subjects:
        for each in check_texts(subject):
            if each.severity == "error" and not is_covered(each, patterns):
                yield each


def is_covered(finding: Finding, patterns: Iterable[str]) -> bool:
    """Return whether a pattern such as `SP3` or `SP104:server/*` covers a finding."""
    for pattern in patterns:
        rule, _, subject = pattern.partition(":")
        if finding.rule.startswith(rule) and (not subject or fnmatchcase(finding.subject, subject)):
            return True
    return False


def is_known_pattern(pattern: str) -> bool:
    """Return whether a pattern to ignore can cover a finding: its rule or family exists."""
    rule = pattern.partition(":")[0]
    return len(rule) >= 3 and any(each.startswith(rule) for each in RULES)


def _sort_key(finding: Finding) -> tuple[int, str, str, str, str, str]:
    return (
        SEVERITIES.index(finding.severity),
        finding.rule,
        finding.server or "",
        finding.name,
        finding.place,
        finding.message,
    )


def _check_subject(subject: Subject) -> Iterator[Finding]:
    yield from check_texts(subject)
    yield from check_schema(subject)
    if subject.tool is None and subject.kind == "tool":
        yield report("SP310", subject, f"is not offered: {_find_reason(subject)}")


def _find_reason(subject: Subject) -> str:
    output = subject.raw.get("outputSchema")
    texts = DefinitionTexts(
        name=subject.name, input_schema=subject.input_schema, output_schema=output if is_object(output) else None
    )
    try:
        sanitise_definition(texts)
    except InvalidToolError as error:
        return escape_invisible(str(error))[:_MAX_REASON_CHARS]
    return "its definition is not accepted; the warnings of `spindle list` say why"
