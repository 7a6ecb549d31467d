"""Findings as SARIF 2.1.0, which code hosts and editors show."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote as quote_url

from spindle.json_types import JsonObject
from spindle.mcp.lint.findings import Finding, Rule
from spindle.mcp.lint.rules import RULES
from spindle.text import escape_invisible

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FAMILIES: Final = {"1": "poison", "2": "secrets", "3": "quality", "4": "provider-limits", "5": "price", "6": "flow"}
_SECURITY: Final = {"error": "8.0", "warning": "5.0", "note": "2.0"}


def to_sarif(findings: Iterable[Finding], *, version: str, config: str = "spindle.toml") -> JsonObject:
    """Return a SARIF log with one run; results point at the configuration and, logically, at server and tool."""
    order = {rule: number for number, rule in enumerate(RULES)}
    driver: JsonObject = {
        "name": "spindle lint",
        "version": version,
        "rules": [_rule_to_sarif(rule) for rule in RULES.values()],
    }
    results = [_result_to_sarif(each, order[each.rule], config) for each in findings]
    run: JsonObject = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule_to_sarif(rule: Rule) -> JsonObject:
    family = _FAMILIES[rule.id[2]]
    properties: JsonObject = {"tags": [family]}
    if family in {"poison", "secrets", "flow"}:
        properties = {"tags": ["security", family], "security-severity": _SECURITY[rule.severity]}
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.title.replace("'", "").split()),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.help},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": rule.severity},
        "properties": properties,
    }


def _result_to_sarif(finding: Finding, index: int, config: str) -> JsonObject:
    said = f"{finding.subject}: {finding.message}"
    quoted = f" — {finding.quote}" if finding.quote else ""
    location: JsonObject = {
        "physicalLocation": {"artifactLocation": {"uri": quote_url(config)}, "region": {"startLine": 1}}
    }
    logical = _logical_locations(finding)
    if logical:
        location["logicalLocations"] = logical
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": _to_text(said + quoted)},
        "locations": [location],
        "partialFingerprints": {"spindleFinding/v1": finding.fingerprint},
        "properties": {"server": finding.server, "kind": finding.kind, "place": _to_text(finding.place)},
    }


def _logical_locations(finding: Finding) -> list[JsonObject]:
    if finding.kind == "registry" and finding.server is None:
        return []
    names = [finding.server or "local", *([finding.name] if finding.name else [])]
    kind = "function" if finding.name else "module"
    place = finding.place if finding.name else ""
    return [{"name": _to_text(names[-1]), "fullyQualifiedName": _to_text("/".join(names) + place), "kind": kind}]


def _to_text(text: str) -> str:
    """Escape what a viewer would not show, and lone surrogates, which a file cannot hold."""
    return escape_invisible(text)
