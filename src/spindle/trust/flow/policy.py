"""The policy that decides which calls of a tainted session a person must approve, by the values in their arguments."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from spindle.errors import InvalidTrustError
from spindle.json_types import JsonValue, is_iterable, is_mapping
from spindle.text import did_you_mean
from spindle.trust.decisions import FlowDecision
from spindle.trust.flow.judging import Judge, Vouched
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.flow.roles import ROLE_NAMES, HasFlow, Ref, Role, Target, ToolFlow

_NOTHING: Final[Mapping[str, Collection[str]]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowCall:
    """A call to judge: its tool, or what a policy knows of it, and its arguments."""

    tool: HasFlow | ToolFlow
    args: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    call_id: str = ""

    @property
    def flow(self) -> ToolFlow:
        """What a policy knows about the tool."""
        return self.tool if isinstance(self.tool, ToolFlow) else self.tool.flow


_RUNS: Final = FlowDecision(needs_approval=False)


@dataclass(frozen=True, init=False)
class FlowPolicy:
    """A policy that asks a person about calls whose values neither the user nor the operator chose.

    In a session without third-party content nothing is asked. In a tainted one a sink call runs unasked only if each of
    its values may be used as its role says; `docs/flow.md` has the rules.

    Raises:
        InvalidTrustError: A value has the wrong type.
    """

    sinks: frozenset[str] | None
    """The tools whose calls are judged; by default all that are not read-only, and those with a target."""
    directory: Mapping[str, frozenset[str]]
    """Values that the operator vouches for, by role (`target`, `setting`, `content`) or by kind of reference."""
    readers: Mapping[str, frozenset[str]]
    """Who may see what a private source returned, by the name of the tool; `*` for everyone."""

    def __init__(
        self,
        sinks: Iterable[str] | None = None,
        directory: Mapping[str, Collection[str]] = _NOTHING,
        readers: Mapping[str, Collection[str]] = _NOTHING,
    ) -> None:
        object.__setattr__(self, "sinks", None if sinks is None else _read_names(sinks, "sinks"))
        object.__setattr__(self, "directory", _read_lists(directory, "directory"))
        object.__setattr__(self, "readers", _read_lists(readers, "readers"))
        object.__setattr__(self, "_vouched", Vouched(self.directory))

    def judge(self, calls: Iterable[FlowCall], ledger: FlowLedger, *, tainted: bool = False) -> list[FlowDecision]:
        """Return for each call whether a person must approve it, and why; `tainted` if the ledger does not know all.

        The calls of a batch are judged by what was known before it: the model wrote them before it saw their results.
        """
        if not (tainted or ledger.is_tainted):
            return [_RUNS for _ in calls]
        return [self._judge_one(call, ledger) for call in calls]

    def _judge_one(self, call: FlowCall, ledger: FlowLedger) -> FlowDecision:
        tool = call.flow
        leaves = tool.get_leaves(call.args)
        is_sink = tool.is_sink(leaves) if self.sinks is None else tool.name in self.sinks
        if not is_sink:
            return _RUNS
        reasons = Judge(tool, leaves, ledger, self._get_vouched(), self.readers).find_reasons()
        return FlowDecision(bool(reasons), tuple(reasons))

    def may_ask(self, tool: HasFlow | ToolFlow) -> bool:
        """Return whether some call of a tool needs approval in a tainted session."""
        flow = tool if isinstance(tool, ToolFlow) else tool.flow
        if self.sinks is not None:
            return flow.name in self.sinks
        return not flow.is_reader and (not flow.is_free_by_default or any(map(_is_target, flow.roles.values())))

    def _get_vouched(self) -> Vouched:
        vouched: Vouched = getattr(self, "_vouched")  # noqa: B009  not a field: two policies with equal fields are equal
        return vouched

    def check(self, tools: Iterable[HasFlow | ToolFlow]) -> None:
        """Check that every name in the policy is known, when it is wired to its tools.

        Raises:
            InvalidTrustError: A sink or a reader names no tool, or the directory no role and no kind of reference.
        """
        flows = [tool if isinstance(tool, ToolFlow) else tool.flow for tool in tools]
        names = {flow.name for flow in flows}
        for field_name, given in (("sinks", self.sinks or ()), ("readers", self.readers)):
            for name in given:
                if name not in names:
                    raise InvalidTrustError(
                        f"FlowPolicy({field_name}=…) names the tool {name!r:.80}, which is not registered."
                        f"{did_you_mean(name, names)}",
                        field=field_name,
                    )
        kinds = {role.kind for flow in flows for role in flow.roles.values() if isinstance(role, Ref)}
        kinds |= {flow.produces.kind for flow in flows if flow.produces is not None}
        known = kinds.union(ROLE_NAMES) - {"ref", "free"}
        for key in self.directory:
            if key not in known:
                raise InvalidTrustError(
                    f"FlowPolicy(directory=…) has the key {key!r:.80}; expected a role (target, setting, content) or a "
                    f"kind of reference that a tool declares.{did_you_mean(key, known)}",
                    field="directory",
                )


def _is_target(role: Role) -> bool:
    return isinstance(role, Target)


def _read_names(given: object, field_name: str) -> frozenset[str]:
    if isinstance(given, str) or not is_iterable(given):
        raise InvalidTrustError(
            f"Expected FlowPolicy({field_name}=…) as a collection of texts such as ['send_mail'], got {given!r:.80}.",
            field=field_name,
        )
    names = frozenset(given)
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise InvalidTrustError(f"Expected every item of FlowPolicy({field_name}=…) to be a text.", field=field_name)
    return frozenset(str(name) for name in names)


def _read_lists(given: object, field_name: str) -> Mapping[str, frozenset[str]]:
    if not is_mapping(given) or not all(isinstance(key, str) and key for key in given):
        raise InvalidTrustError(
            f"Expected FlowPolicy({field_name}=…) as a mapping of names to collections of texts, got {given!r:.80}.",
            field=field_name,
        )
    return MappingProxyType({str(key): _read_names(values, f"{field_name}[{key!r}]") for key, values in given.items()})
