"""Information flow of an executor: it judges calls by the ledger of their session, and adds their results to it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from spindle.artifacts.artifact import Artifact
from spindle.calls import Err, Ok
from spindle.errors import UsageError
from spindle.events import Events
from spindle.execution.call_state import AdmittedCall, CallState, compute_identity
from spindle.execution.cancellation import is_pause_due, pause
from spindle.execution.flow_history import FlowHistory
from spindle.execution.results import HandlerResult
from spindle.json_types import JsonObject
from spindle.tools.context import ToolContext, get_turn
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.flow.policy import FlowCall, FlowDecision, FlowPolicy
from spindle.trust.flow.references import Reference
from spindle.trust.flow.sessions import FlowSessions
from spindle.trust.labels import UNKNOWN, Label, SinkPolicy, is_tainting, join

if TYPE_CHECKING:
    from spindle.journal.journal import Journal
    from spindle.media import Media

Policy: TypeAlias = FlowPolicy | SinkPolicy


def choose_policy(flow: Policy | None, sinks: SinkPolicy | None, registry: ToolRegistry) -> Policy | None:
    """Return the policy of an executor, checked against its tools.

    Raises:
        UsageError: Both are given.
        InvalidTrustError: The policy names an unknown tool or role.
    """
    if flow is not None and sinks is not None:
        raise UsageError("Pass flow=FlowPolicy(…) or sinks=SinkPolicy(…), not both.", field="flow")
    if isinstance(flow, FlowPolicy):
        flow.check(registry.all())
    return flow or sinks


def may_ask(policy: Policy | None, tool: Tool) -> bool:
    """Return whether some call of a tool needs approval in a tainted session."""
    if policy is None:
        return False
    if isinstance(policy, SinkPolicy):
        return policy.is_dangerous(tool)
    return policy.may_ask(tool)


def describe_asking(policy: Policy | None, tool: Tool) -> str:
    """Describe when a policy asks about a tool."""
    if not may_ask(policy, tool):
        return "never"
    return "if tainted" if isinstance(policy, SinkPolicy) else "by values"


@runtime_checkable
class FlowFeeder(Protocol):
    """A turn that tells the ledger of its session what it has received, such as the user's messages."""

    async def feed_flow(self, ledger: FlowLedger) -> None:
        """Add what came in since the last time, with pauses, because texts may be long."""
        ...


class FlowGuard:
    """Judges the calls of an executor by its policy, and keeps the ledgers of its sessions."""

    def __init__(self, policy: Policy, journal: "Journal | None" = None) -> None:
        self.policy = policy
        self.sessions = FlowSessions()
        self._history = FlowHistory(journal)

    def open(self, context: ToolContext) -> FlowLedger:
        """Return the ledger of the session of a context, which from now on shares it."""
        ledger = self.sessions.get(context.flow.session_id or context.session_id)
        context.flow.bind(ledger)
        return ledger

    async def prepare(self, context: ToolContext, registry: ToolRegistry) -> None:
        """Let the ledger of a session know all that came before a batch: its past in the journal, and its turn."""
        ledger, turn = self.open(context), get_turn(context)
        await self._history.read(ledger, context, registry)
        if isinstance(turn, FlowFeeder):
            await turn.feed_flow(ledger)
        if context.tainted and not ledger.is_tainted:
            ledger.taint()

    async def judge(self, states: Sequence[AdmittedCall], context: ToolContext) -> None:
        """Require approval for calls whose values neither the user nor the operator chose."""
        ledger = context.flow.ledger
        tainted = context.tainted or ledger.is_tainted
        said = self._history.take_texts(ledger) if states else []
        calls = [FlowCall(tool=state.entry.tool, args=state.arguments) for state in states]
        decisions = await self._decide(calls, ledger, context.events, tainted=tainted)
        for state, decision in zip(states, decisions, strict=True):
            if decision.needs_approval and not self._has_ended(state, ledger):
                state.reasons += decision.reasons
                state.needs_approval = True
            flow = state.entry.tool.flow
            state.input_label = ledger.get_input_label(flow, state.arguments)
            state.flow_facts = _describe(state, tainted=tainted, said=said)
            ledger.start_call(flow, state.arguments)
            said = []

    async def preview(self, calls: Sequence[FlowCall], context: ToolContext) -> Sequence[FlowDecision]:
        """Return what `judge` will decide about calls, for those who ask a person before they run them."""
        ledger = context.flow.ledger
        return await self._decide(calls, ledger, context.events, tainted=context.tainted or ledger.is_tainted)

    async def _decide(
        self, calls: Sequence[FlowCall], ledger: FlowLedger, events: Events, *, tainted: bool
    ) -> Sequence[FlowDecision]:
        try:
            if tainted and ledger.has_references:
                await ledger.recall(calls)
            return self.policy.judge(calls, ledger, tainted=tainted)
        except Exception as error:  # noqa: BLE001  a guard that fails lets nothing pass
            events.warn("the flow policy failed; every call of the batch is asked about", source="flow", error=error)
            return [FlowDecision(needs_approval=True, reasons=("the flow policy failed",)) for _ in calls]

    def _has_ended(self, state: AdmittedCall, ledger: FlowLedger) -> bool:
        """Return whether a call has run in an earlier process, so that the journal answers it and nothing runs."""
        if state.entry.tool.read_only or not self._history.has_past(ledger):
            return False
        return self._history.has_ended(ledger, compute_identity(state.call, state.arguments, state.ctx)[1])

    async def absorb(self, states: Sequence[CallState], context: ToolContext) -> None:
        """Add the results of calls to the ledger, in steps that let other tasks run."""
        if context.dry_run:
            return
        ledger = context.flow.ledger
        _note_inner_labels(states, context)
        for state in states:
            for _ in _add_result(ledger, state):
                if is_pause_due():
                    await pause()

    def absorb_now(self, states: Sequence[CallState], context: ToolContext) -> None:
        """Add the results of calls to the ledger at once, where nothing may wait."""
        if context.dry_run:
            return
        _note_inner_labels(states, context)
        for state in states:
            for _ in _add_result(context.flow.ledger, state):
                pass


def join_input_label(state: AdmittedCall, handled: HandlerResult) -> HandlerResult:
    """Return a result with the labels of its arguments and of what its handler has read by calls of its own.

    What was not trusted does not become so.
    """
    result, label = handled.result, state.input_label
    if label is None or not isinstance(result, Ok):
        return handled
    joined = join(get_label(result), label, state.ctx.flow.inner_label)
    return handled._replace(result=replace(result, label=joined, trusted=result.trusted and joined == "trusted"))


def get_label(result: Ok) -> Label:
    """Return the label of a result."""
    return result.label or ("trusted" if result.trusted else UNKNOWN)


def _note_inner_labels(states: Sequence[CallState], context: ToolContext) -> None:
    """Let the call in whose context these calls were made know what they brought in."""
    for state in states:
        if state.handled is not None:
            result, outcome = state.handled.result, state.outcome()
            label = get_label(result) if isinstance(result, Ok) else UNKNOWN if is_tainting(outcome) else "trusted"
            context.flow.inner_label = join(context.flow.inner_label, label)


def _add_result(ledger: FlowLedger, state: CallState) -> Iterator[None]:
    handled, entry = state.handled, state.entry
    if handled is None or entry is None or not isinstance(state, AdmittedCall):
        return
    result, tool, whole = handled.result, entry.tool.flow, state.get_whole_result()
    if isinstance(result, Err):
        if is_tainting(state.outcome()):
            yield from ledger.add_result_in_steps(tool, result.error, UNKNOWN, call_id=state.call.tool_call_id)
        return
    yield from ledger.add_result_in_steps(
        tool,
        "\n".join([whole.value, *_iterate_media_texts(whole)]) if isinstance(whole, Ok) else "",
        get_label(result),
        call_id=state.call.tool_call_id,
        args=state.arguments,
        structured=whole.structured if isinstance(whole, Ok) else None,
        reference=_find_reference(state),
    )
    if get_label(result) == UNKNOWN and (not isinstance(whole, Ok) or any(map(_is_unreadable, whole.media))):
        ledger.has_lost_private = True  # what a picture shows is in no text


def _iterate_media_texts(result: Ok) -> Iterator[str]:
    for each in result.media:
        data = each.get_text_bytes()
        if data is not None:
            yield data.decode("utf-8", "replace")


def _is_unreadable(media: "Media") -> bool:
    return media.get_text_bytes() is None


def _find_reference(state: AdmittedCall) -> Reference | None:
    """Return where the whole of a large result can be searched."""
    artifact = state.reduced.artifact if isinstance(state.reduced, Ok) else None
    return artifact if isinstance(artifact, Artifact) else None


def _describe(state: AdmittedCall, *, tainted: bool, said: Sequence[str]) -> JsonObject:
    """Describe a decision for the journal, with the user's words since the last one."""
    facts: JsonObject = {"tainted": tainted}
    if said:
        facts["said"] = [state.ctx.redact(text) for text in said]
    return facts
