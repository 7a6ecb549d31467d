"""Why a recorded call was asked about, or ran: what its session had read, and where each of its values comes from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from spindle.errors import UsageError
from spindle.execution.flow_history import RecordedDecision
from spindle.execution.flow_replay import FlowSource, KnownTools, Timeline, was_asked
from spindle.journal.entries import JournalEntry
from spindle.text import to_line
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.ledger import FlowLedger, to_text
from spindle.trust.flow.policy import FlowCall, FlowPolicy
from spindle.trust.flow.roles import HasFlow, Leaf, Ref, Setting, ToolFlow
from spindle.trust.flow.said import Moment

Origin: TypeAlias = Literal["user", "directory", "trusted", "made", "named", "default", "foreign", "nowhere"]
"""Where a value comes from: the user's words, the operator's directory, a trusted result, a record that this session
made, one that the user named, the default of the tool, only a result that is not trusted, or nothing that is known."""
_MAX_VALUES: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedValue:
    """One value in the arguments of a call."""

    path: str
    role: str
    is_declared: bool
    """Whether the tool declares the role; else it is the one that undeclared values have."""
    value: str
    origin: Origin
    detail: str
    """The origin in words, such as `only in result c3 of fetch_page (third-party-public)`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowExplanation:
    """What is known about the decision on a recorded call."""

    entry: JournalEntry
    is_known: bool
    """Whether the tool still exists."""
    is_judged: bool
    """Whether a policy judged the call when it was made."""
    was_tainted: bool
    was_asked: bool
    reasons: tuple[str, ...]
    """Why a person was asked, as recorded."""
    sources: tuple[FlowSource, ...]
    """What had entered the session before the call, in order, with the labels that were recorded."""
    values: tuple[ExplainedValue, ...]
    would_ask: bool
    """Whether a person would be asked now, by this policy and what the tools declare now."""
    reasons_now: tuple[str, ...]


def explain_flow(
    entries: Iterable[JournalEntry],
    tools: ToolRegistry | Iterable[HasFlow | ToolFlow],
    policy: FlowPolicy,
    call: JournalEntry,
) -> FlowExplanation:
    """Explain the decision on a recorded call, from the recorded calls of its session, in any order.

    Raises:
        UsageError: The call is not among them.
    """
    known = KnownTools(tools)
    found = [entry for entry in entries if entry.session_id == call.session_id]
    timeline = Timeline(found, known, as_recorded=True)
    for entry in timeline:
        if entry.idempotency_key == call.idempotency_key:
            return _explain(entry, timeline, policy)
    raise UsageError(
        f"The call {call.tool_call_id!r} is not among the recorded calls of its session that can be judged.",
        field="call",
    )


def _explain(entry: JournalEntry, timeline: Timeline, policy: FlowPolicy) -> FlowExplanation:
    tool, facts = timeline.tools.get(entry.tool), RecordedDecision.read(entry)
    [decision] = policy.judge([FlowCall(tool=tool, args=entry.args)], timeline.ledger)
    leaves = tool.get_leaves(entry.args)[:_MAX_VALUES]
    return FlowExplanation(
        entry=entry,
        is_known=entry.tool in timeline.tools,
        is_judged=facts.is_judged,
        was_tainted=facts.tainted,
        was_asked=was_asked(entry),
        reasons=facts.reasons,
        sources=tuple(timeline.sources),
        values=tuple(_explain_value(leaf, tool, timeline.ledger, policy) for leaf in leaves),
        would_ask=decision.needs_approval or timeline.tools.is_always_asked(entry.tool),
        reasons_now=decision.reasons,
    )


def _explain_value(leaf: Leaf, tool: ToolFlow, ledger: FlowLedger, policy: FlowPolicy) -> ExplainedValue:
    origin, detail = _find_origin(leaf, tool, ledger, policy)
    return ExplainedValue(
        path=leaf.name,
        role=tool.get_role(leaf).to_json(),
        is_declared=any(".".join(leaf.path[:end]) in tool.roles for end in range(1, len(leaf.path) + 1)),
        value=to_text(leaf.value),
        origin=origin,
        detail=detail,
    )


def _find_origin(leaf: Leaf, tool: ToolFlow, ledger: FlowLedger, policy: FlowPolicy) -> tuple[Origin, str]:
    text, role = to_text(leaf.value), tool.get_role(leaf)
    vouched = ledger.find_vouched(text)
    if vouched is not None:
        return ("user", "the user's words") if vouched.kind == "user" else ("trusted", f"trusted {vouched}")
    if isinstance(role, Setting) and _is_said(leaf, ledger):
        return "user", "the user's words, in another form"
    if isinstance(role, Ref):
        if ledger.has_made(role.kind, text):
            return "made", f"a {role.kind} that this session made"
        named = ledger.find_named(role.kind, text)
        if named is not None:
            return "named", f"the {role.kind} that the user named {to_line(named)!r}"
    if _is_in_directory(text, role.kind if isinstance(role, Ref) else role.name, policy):
        return "directory", "the operator's directory"
    if len(leaf.path) == 1 and tool.defaults.get(leaf.path[0]) == leaf.value:
        return "default", "the default of the tool"
    foreign = ledger.find_foreign(text)
    if foreign is not None:
        return "foreign", f"only in {foreign} ({foreign.label})"
    return "nowhere", "neither in the user's words nor in a result"


def _is_said(leaf: Leaf, ledger: FlowLedger) -> bool:
    if isinstance(leaf.value, bool):
        return False
    if isinstance(leaf.value, str):
        moment = Moment.read(leaf.value)
        return moment is not None and ledger.said.has_moment(moment, (moment,))
    return ledger.said.has_number(leaf.value)


def _is_in_directory(text: str, key: str, policy: FlowPolicy) -> bool:
    return to_line(text).casefold() in {to_line(each).casefold() for each in policy.directory.get(key, ())}
