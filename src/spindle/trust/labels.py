"""Trust labels of content, and the policy that requires approval for dangerous tools in tainted turns.

The four labels are ordered from most to least trusted. Derived content gets the least trusted label of its sources, so
a tool cannot raise the trust of what it read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, overload

from typing_extensions import TypeIs

from spindle.calls import LABELS as _ROW
from spindle.calls import CallOutcome, Err, Label, Ok, ToolCallRecord
from spindle.errors import InvalidTrustError
from spindle.json_types import untyped
from spindle.text import quote_name, to_printable
from spindle.trust.decisions import FlowDecision

UNKNOWN: Final[Label] = "third-party-private"
"""The label of content whose origin is unknown: the least trusted one."""

TAINTING: Final = frozenset[Label]({"third-party-public", "third-party-private"})
"""The labels of content that outsiders may have written. First-party data may not be obeyed, but does not taint."""


def is_label(value: object) -> TypeIs[Label]:
    """Return whether a value is a trust label."""
    return isinstance(value, str) and value in _ROW


def join(*labels: Label) -> Label:
    """Return the label of content derived from sources with these labels: the least trusted of them.

    Raises:
        InvalidTrustError: A label is unknown, or none was passed.
    """
    for label in labels:
        if label not in _ROW:
            raise InvalidTrustError(f"Expected a trust label ({', '.join(_ROW)}), got {label!r}.", field="labels")
    if not labels:
        raise InvalidTrustError("Expected at least one label to join, got none.", field="labels")
    return max(labels, key=_ROW.index)


def label_of(result: Ok | Err, *, tool_trusted: bool, provenance: Label = UNKNOWN) -> Label:
    """Return the label of a result: trusted only if the tool, the result and all its media are.

    `provenance` is the label of an untrusted tool's text if the result has no label of its own. An error may quote
    untrusted text, so its label never depends on the tool.
    """
    if isinstance(result, Err):
        return UNKNOWN
    media: list[Label] = [media_label(each) for each in result.media]
    is_vouched_for = tool_trusted is True and result.trusted is True
    own: Label = "trusted" if is_vouched_for else provenance
    if result.label is not None:
        own = join(result.label, own) if is_vouched_for or result.label == "trusted" else result.label
    return join("trusted" if is_vouched_for else "first-party", own, *media)


def read_label(given: object, *, trusted: bool) -> Label:
    """Return the label of a recorded result; one without a label, or with one that cannot be, has the strictest."""
    if given is None:
        return "trusted" if trusted else UNKNOWN
    for label in _ROW:
        if label == given and (trusted or label != "trusted"):
            return label
    return UNKNOWN


def label_of_record(record: ToolCallRecord) -> Label:
    """Return the label of a recorded call's results; that of an error is unknown."""
    return UNKNOWN if record.is_error else read_label(record.label, trusted=record.trusted)


def media_label(media: object) -> Label:
    """Return the label of media by its tier alone, whatever tool returned it: first-party media is trusted."""
    own_tier: object = getattr(media, "trust_tier", None)
    for tier in _ROW[1:]:
        if tier == own_tier:
            return "trusted" if tier == "first-party" else tier
    return UNKNOWN


def derived_trust(*, tool_trusted: bool, sources: Iterable[bool | Label]) -> bool:
    """Return the `trusted` flag of a result derived from artifacts: the tool and every source must be trusted.

    A source is the flag or the label that its call was recorded with.
    """
    return tool_trusted is True and all(source is True or source == "trusted" for source in sources)


_MAX_SHOWN: Final = 80
_RUNS: Final = FlowDecision(needs_approval=False)
_REFUSALS: Final = ("input_invalid", "not_available", "denied", "needs_approval")


class ToolFacts(Protocol):
    """The attributes of a tool that a policy reads."""

    @property
    def name(self) -> str:
        """The name of the tool."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether the tool has no side effects."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the tool's output is trusted."""
        ...


class FlowFacts(Protocol):
    """What a policy reads of what is known about a tool."""

    @property
    def name(self) -> str:
        """The name of the tool."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether the tool has no side effects."""
        ...

    @property
    def output(self) -> Label:
        """The label of its output."""
        ...


class CallFacts(Protocol):
    """What a policy reads of a call."""

    @property
    def flow(self) -> FlowFacts:
        """What is known about its tool."""
        ...


class TaintFacts(Protocol):
    """What a policy reads of the ledger of a session."""

    @property
    def is_tainted(self) -> bool:
        """Whether third-party content has entered the session."""
        ...

    @property
    def tainted_by(self) -> object | None:
        """The first such content."""
        ...


@dataclass(frozen=True, slots=True, init=False)
class SinkPolicy:
    """The simplest flow policy, which looks at no values.

    A policy that requires approval for the tools in `dangerous`, unless read-only, once a turn is tainted.

    Raises:
        InvalidTrustError: `dangerous` is not a collection of tool names.
    """

    dangerous: frozenset[str]

    def __init__(self, dangerous: Iterable[str]) -> None:
        object.__setattr__(self, "dangerous", _names(dangerous))

    def is_dangerous(self, tool: ToolFacts) -> bool:
        """Return whether a tool is in `dangerous` and not read-only."""
        return tool.name in self.dangerous and not tool.read_only

    def needs_approval(self, tool: ToolFacts, *, tainted: bool, batch: Iterable[ToolFacts] = ()) -> bool:
        """Return whether a call of `tool` needs approval: in a tainted turn, or in a batch with a tool that taints it.

        `batch` has the tool of each call of the batch, including this one, in any order.
        """
        return self.is_dangerous(tool) and (tainted or _others_untrusted(tool, batch))

    @overload
    def judge(self, batch: Iterable[ToolFacts], *, tainted: bool) -> tuple[bool, ...]: ...
    @overload
    def judge(
        self, batch: Iterable["CallFacts"], ledger: "TaintFacts", *, tainted: bool = False
    ) -> list[FlowDecision]: ...
    def judge(
        self, batch: Iterable[Any], ledger: "TaintFacts | None" = None, *, tainted: bool = False
    ) -> tuple[bool, ...] | list[FlowDecision]:
        """Return for each call of a batch whether it needs approval, as `needs_approval` does for one call.

        With the ledger of a session, the batch has calls instead of tools, and each decision has its reason, as those
        of a `FlowPolicy` have.
        """
        if ledger is not None:
            return self._judge_calls(tuple(batch), ledger, tainted=tainted or ledger.is_tainted)
        tools: tuple[ToolFacts, ...] = tuple(batch)
        tainting = sum(map(_is_tainting_tool, tools))
        return tuple(self.is_dangerous(tool) and (tainted or tainting > _is_tainting_tool(tool)) for tool in tools)

    def _judge_calls(self, calls: "Sequence[CallFacts]", ledger: "TaintFacts", *, tainted: bool) -> list[FlowDecision]:
        decisions: list[FlowDecision] = []
        for call in calls:
            others = (each.flow for each in calls if each is not call)
            beside = next((flow.name for flow in others if is_third_party(flow.output)), None)
            is_asked = call.flow.name in self.dangerous and not call.flow.read_only and (tainted or beside is not None)
            decisions.append(_explain(call.flow.name, ledger, beside, tainted=tainted) if is_asked else _RUNS)
        return decisions


def is_third_party(label: Label) -> bool:
    """Return whether a label is one of outside content, which taints a session."""
    return label not in ("trusted", "first-party")


def _explain(tool: str, ledger: TaintFacts, beside: str | None, *, tainted: bool) -> FlowDecision:
    if tainted:
        source = "" if ledger.tainted_by is None else f" ({to_printable(str(ledger.tainted_by), _MAX_SHOWN)})"
        reason = f"{quote_name(tool)} is a sink, and the session has read third-party content{source}"
    else:
        reason = f"{quote_name(tool)} is a sink, and {quote_name(beside or '')} reads third-party content beside it"
    return FlowDecision(needs_approval=True, reasons=(reason,))


def is_tainting(outcome: CallOutcome) -> bool:
    """Return whether an outcome brings untrusted content into its turn.

    First-party data does not. An error does, unless the call was refused before its handler started: Spindle wrote
    that text.
    """
    result = outcome.result
    if isinstance(result, Ok):
        return read_label(result.label, trusted=result.trusted) in TAINTING
    return outcome.attempts > 0 or result.code not in _REFUSALS


def _others_untrusted(tool: ToolFacts, batch: Iterable[ToolFacts]) -> bool:
    is_own_seen = False
    for each in batch:
        if each is tool and not is_own_seen:
            is_own_seen = True
        elif _is_tainting_tool(each):
            return True
    return False


def _is_tainting_tool(tool: ToolFacts) -> bool:
    return not tool.trusted and getattr(tool, "output", UNKNOWN) in TAINTING


def _names(given: Iterable[str]) -> frozenset[str]:
    # A str is an iterable of its characters: the policy would silently match no tool.
    if isinstance(given, str) or not isinstance(untyped(given), Iterable):
        raise InvalidTrustError(
            f"Expected dangerous as a collection of tool names such as ['send_mail'], got {given!r:.80}.",
            field="dangerous",
        )
    names = frozenset(given)
    if not all(isinstance(untyped(name), str) and name for name in names):
        raise InvalidTrustError("Expected every name in dangerous to be a non-empty str.", field="dangerous")
    return names
