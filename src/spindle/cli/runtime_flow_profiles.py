"""The flow policy of profiles, which can only be stricter than `[flow]`: an interceptor that also judges by theirs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spindle.calls import Call, CallOutcome, Ok
from spindle.cli.config.loader import Config
from spindle.cli.config.schema_flow import ProfileFlowSection
from spindle.cli.runtime_flow import ConfiguredPolicy, find_matching, find_tools, get_flow, merge_entries
from spindle.execution.flow import get_label
from spindle.execution.interceptors import Next
from spindle.json_types import is_object
from spindle.tools.context import ToolContext
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.policy import FlowCall
from spindle.trust.flow.roles import ToolFlow
from spindle.trust.labels import UNKNOWN, Label, join

_UNREADABLE = "its arguments cannot be judged by the policy of this profile"


@dataclass(frozen=True, slots=True)
class TightenedFlow:
    """The policy of one profile."""

    section: ProfileFlowSection
    policy: ConfiguredPolicy
    """For the sinks of `[flow]`."""
    for_any_tool: ConfiguredPolicy
    """For the tools that the profile itself names."""

    def find_reasons(self, tool: ToolFlow, call: Call, ctx: ToolContext) -> tuple[str, ...]:
        """Return why a person must approve a call, by the policy of this profile."""
        is_destructive = any(self.section.tools[each].destructive for each in self._find_entries(tool.name))
        is_named = is_destructive or tool.name in self.section.sinks
        if is_named:
            tool = replace(tool, read_only=False, destructive=tool.destructive or is_destructive)
        policy = self.for_any_tool if is_named else self.policy
        if not is_object(call.args):
            return (_UNREADABLE,)
        [decision] = policy.judge([FlowCall(tool=tool, args=call.args)], ctx.flow.ledger, tainted=ctx.tainted)
        return decision.reasons

    def get_output(self, tool: str) -> Label:
        """Return the label that the results of a tool have at least."""
        label: Label = "trusted"
        for each in self._find_entries(tool):
            label = join(label, self.section.tools[each].output or "trusted")
        return label

    def _find_entries(self, tool: str) -> list[str]:
        return find_matching(self.section.tools, tool)


class ProfileFlow:
    """Interceptor that requires approval where the policy of the caller's profile does, and lowers labels by it."""

    def __init__(self, flows: Mapping[str, TightenedFlow], registry: ToolRegistry, default: str | None) -> None:
        self._flows, self._registry, self._default = flows, registry, default

    async def __call__(self, call: Call, ctx: ToolContext, next: Next) -> CallOutcome:
        """Judge a call by the policy of the profile of its caller."""
        profile = _find_profile(ctx) or self._default
        flow, tool = self._flows.get(str(profile)), self._registry.get(call.name)
        if flow is None or tool is None:
            return await next()
        for reason in flow.find_reasons(tool.flow, call, ctx):
            ctx.flow.require_approval(reason)
        outcome = await next()
        result, least = outcome.result, flow.get_output(tool.name)
        if not isinstance(result, Ok) or least == "trusted":
            return outcome
        return replace(outcome, result=replace(result, label=join(get_label(result), least), trusted=False))


def _find_profile(ctx: ToolContext) -> object:
    """Return the profile of the MCP client of a call, or of the person on the page who made it."""
    if ctx.client is not None:
        return getattr(ctx.client, "profile", None)
    return None if ctx.caller is None else ctx.caller.get("profile")


def build_profile_flow(
    config: Config, registry: ToolRegistry, policy: ConfiguredPolicy | None, profile: str | None
) -> ProfileFlow | None:
    """Build the interceptor for the profiles with a policy; `profile` is that of callers without one.

    Raises:
        InvalidConfigError: A profile would loosen `[flow]`, or there is none.
    """
    flows: dict[str, TightenedFlow] = {}
    for name, entry in config.profiles.items():
        if entry.flow is None:
            continue
        if policy is None:
            what = "a profile can only tighten [flow], which is missing or not enabled; add it"
            raise config.error(("profiles", name, "flow"), what)
        _check_tightening(config, registry, name, entry.flow)
        directory = policy.directory if entry.flow.directory is None else entry.flow.directory
        readers = policy.readers if entry.flow.readers is None else entry.flow.readers
        flows[name] = TightenedFlow(
            entry.flow,
            ConfiguredPolicy(policy.sinks, directory, readers),
            ConfiguredPolicy(None, directory, readers),
        )
    return ProfileFlow(flows, registry, profile or config.profile) if flows else None


def _check_tightening(config: Config, registry: ToolRegistry, name: str, section: ProfileFlowSection) -> None:
    base = config.flow
    for table, given in (("directory", section.directory), ("readers", section.readers)):
        known: Mapping[str, tuple[str, ...]] = {} if base is None else getattr(base, table)
        for key, values in (given or {}).items():
            for value in values:
                if value not in known.get(key, ()):
                    what = f"{value!r} is not in [flow] {table}.{key}; a profile can only leave values out"
                    raise config.error(("profiles", name, "flow", table, key), what)
    for tool, entry in section.tools.items():
        if entry.output is None:
            continue
        for label in _find_labels(config, registry, tool):
            if join(label, entry.output) != entry.output:
                what = f"{entry.output!r} is more trusted than {label!r} without the profile, which can only tighten"
                raise config.error(("profiles", name, "flow", "tools", tool, "output"), what)


def _find_labels(config: Config, registry: ToolRegistry, name: str) -> list[Label]:
    """Return the labels that tools of this name have without the profile; of unconnected servers, by their entry."""
    tools = [registry.get(each) for each in find_tools(registry, name)]
    known: list[Label] = [tool.output for tool in tools if tool is not None]
    section = get_flow(config)
    declared = None if section is None else merge_entries(section.tools, name).output
    if declared is not None:
        return [*known, declared]
    server = config.servers.get(name.removeprefix("mcp__").partition("__")[0])
    if known or server is None:
        return known
    return ["trusted" if server.trusted else UNKNOWN]
