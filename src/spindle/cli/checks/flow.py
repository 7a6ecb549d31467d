"""Checks of what tools declare for `[flow]`: arguments without a role, and sources that outsiders can write to."""

from collections.abc import Iterator

from spindle.cli.checks.check import Check
from spindle.cli.config.loader import Config
from spindle.cli.runtime_flow import FlowDeclarations, build_flow_policy
from spindle.cli.runtime_servers import build_backends
from spindle.cli.runtime_tools import build_local_registry
from spindle.errors import SpindleError
from spindle.json_types import JsonObject
from spindle.mcp.lint.flow_checks import describe_undeclared, find_exposed_source, find_undeclared
from spindle.tools.registry import ToolRegistry

_AREA = "flow"
_MAX_NAMED = 30


def check_flow(config: Config) -> Iterator[Check]:
    """Report whether calls are judged, and what local tools leave undeclared; servers report theirs when they start."""
    policy = build_flow_policy(config)
    if policy is None:
        yield Check(_AREA, "policy", "ok", "flow is off: no [flow] in the configuration, or enabled = false")
        return
    sinks = (
        "every tool that changes something or has a target" if policy.sinks is None else f"{len(policy.sinks)} tools"
    )
    vouched = sum(map(len, policy.directory.values()))
    yield Check(_AREA, "policy", "ok", f"on; judged: {sinks}; {vouched} values in the directory")
    try:
        registry = build_local_registry(config, build_backends(config))
    except (SpindleError, OSError):
        return  # the check of the configuration reports it
    yield from check_declarations(config, registry, what="of this machine")


def check_declarations(config: Config, registry: ToolRegistry, *, what: str) -> Iterator[Check]:
    """Yield warnings about tools whose arguments have no role, or whose label trusts what outsiders can write."""
    policy = build_flow_policy(config)
    if policy is None:
        return
    declarations = FlowDeclarations(config)
    tools = [declarations.declare(tool) for tool in registry.all()]
    undeclared: JsonObject = {
        tool.name: describe_undeclared(found) for tool in tools if (found := find_undeclared(tool, policy))
    }
    if undeclared:
        detail = f"{len(undeclared)} tools {what} have arguments without a role, which count as the strictest"
        fix = 'declare them: [flow.tools."NAME"] roles = { ARGUMENT = "content" }'
        yield Check(_AREA, f"roles {what}", "warning", detail, fix, _limit(undeclared))
    exposed: JsonObject = {tool.name: found for tool in tools if (found := find_exposed_source(tool)) is not None}
    if exposed:
        detail = f"{len(exposed)} tools {what} trust what outsiders can write"
        fix = '[flow.tools."NAME"] output = "third-party-public", unless only you can write there'
        yield Check(_AREA, f"sources {what}", "warning", detail, fix, _limit(exposed))


def _limit(facts: JsonObject) -> JsonObject:
    if len(facts) <= _MAX_NAMED:
        return facts
    shown = dict(list(facts.items())[:_MAX_NAMED])
    return {**shown, "more": f"{len(facts) - _MAX_NAMED} tools; `spindle lint --rule SP6` lists all"}
