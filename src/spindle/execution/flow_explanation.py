"""Why a recorded call was asked about, or ran: what its session had read, and where each of its values comes from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from spindle.errors import UsageError
from spindle.execution.flow_history import RecordedDecision
from spindle.execution.flow_replay import FlowSource, KnownTools, Timeline, is_asked_about
from spindle.journal.entries import JournalEntry
from spindle.text import to_line
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.ledger import FlowLedger, to_text
from spindle.trust.flow.policy import FlowCall, FlowPolicy
from spindle.trust.flow.roles import HasFlow, Leaf, Ref, Setting, ToolFlow
from spindle.trust.flow.said import Moment
from spindle.trust.flow.sources import Source

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
    call_id: str | None = None
    """The call in whose result the value stands, if it comes from one."""
    source: int | None = None
    """The number of that result among the sources of the session."""


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
    timeline = Timeline(known, as_recorded=True)
    timeline.add(found)
    for entry, facts in timeline.advance():
        if entry.idempotency_key == call.idempotency_key:
            return explain_entry(entry, facts, timeline, policy)
    raise build_unjudged_error(call)


def build_unjudged_error(call: JournalEntry) -> UsageError:
    """Build the error for a call that no policy could have judged, such as one with invalid arguments."""
    return UsageError(
        f"The call {call.tool_call_id!r} is not among the recorded calls of its session that can be judged.",
        field="call",
    )


def explain_entry(
    entry: JournalEntry, facts: RecordedDecision, timeline: Timeline, policy: FlowPolicy
) -> FlowExplanation:
    """Explain the decision on a call that a timeline has just come to."""
    tool = timeline.tools.get(entry.tool)
    [decision] = policy.judge([FlowCall(tool=tool, args=entry.args)], timeline.ledger)
    leaves = tool.get_leaves(entry.args)[:_MAX_VALUES]
    return FlowExplanation(
        entry=entry,
        is_known=entry.tool in timeline.tools,
        is_judged=facts.is_judged,
        was_tainted=facts.tainted,
        was_asked=is_asked_about(entry, facts),
        reasons=facts.reasons,
        sources=tuple(timeline.sources),
        values=tuple(_explain_value(leaf, tool, timeline, policy) for leaf in leaves),
        would_ask=decision.needs_approval or timeline.tools.is_always_asked(entry.tool),
        reasons_now=decision.reasons,
    )


def _explain_value(leaf: Leaf, tool: ToolFlow, timeline: Timeline, policy: FlowPolicy) -> ExplainedValue:
    origin, detail, source = _find_origin(leaf, tool, timeline.ledger, policy)
    call_id = None if source is None else source.call_id or None
    return ExplainedValue(
        path=leaf.name,
        role=tool.get_role(leaf).to_json(),
        is_declared=any(".".join(leaf.path[:end]) in tool.roles for end in range(1, len(leaf.path) + 1)),
        value=to_text(leaf.value),
        origin=origin,
        detail=detail,
        call_id=call_id,
        source=None if call_id is None else timeline.numbers.get(call_id),
    )


def _find_origin(
    leaf: Leaf, tool: ToolFlow, ledger: FlowLedger, policy: FlowPolicy
) -> tuple[Origin, str, Source | None]:
    text, role = to_text(leaf.value), tool.get_role(leaf)
    vouched = ledger.find_vouched(text)
    if vouched is not None:
        is_said = vouched.kind == "user"
        return ("user", "the user's words", None) if is_said else ("trusted", f"trusted {vouched}", vouched)
    if isinstance(role, Setting) and _is_said(leaf, ledger):
        return "user", "the user's words, in another form", None
    if isinstance(role, Ref):
        if ledger.has_made(role.kind, text):
            return "made", f"a {role.kind} that this session made", None
        named = ledger.find_named(role.kind, text)
        if named is not None:
            return "named", f"the {role.kind} that the user named {to_line(named)!r}", None
    if _is_in_directory(text, role.kind if isinstance(role, Ref) else role.name, policy):
        return "directory", "the operator's directory", None
    if len(leaf.path) == 1 and tool.defaults.get(leaf.path[0]) == leaf.value:
        return "default", "the default of the tool", None
    foreign = ledger.find_foreign(text)
    if foreign is not None:
        return "foreign", f"only in {foreign} ({foreign.label})", foreign
    return "nowhere", "neither in the user's words nor in a result", None


def _is_said(leaf: Leaf, ledger: FlowLedger) -> bool:
    if isinstance(leaf.value, bool):
        return False
    if isinstance(leaf.value, str):
        moment = Moment.read(leaf.value)
        return moment is not None and ledger.said.has_moment(moment, (moment,))
    return ledger.said.has_number(leaf.value)


def _is_in_directory(text: str, key: str, policy: FlowPolicy) -> bool:
    return to_line(text).casefold() in {to_line(each).casefold() for each in policy.directory.get(key, ())}
