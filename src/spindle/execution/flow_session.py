"""The information flow of one session, from its recorded calls: what entered it, in order, and what was asked."""

from collections import deque
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final

from spindle.execution.flow_explanation import ExplainedValue, FlowExplanation, explain_entry
from spindle.execution.flow_history import RecordedDecision, brings_content, get_entry_label
from spindle.execution.flow_replay import FlowSource, KnownTools, Timeline, is_asked_about, was_asked
from spindle.journal.entries import JournalEntry
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.policy import FlowPolicy
from spindle.trust.flow.roles import HasFlow, ToolFlow
from spindle.trust.labels import Label

_THIRD_PARTY: Final = frozenset[Label]({"third-party-public", "third-party-private"})


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowStep:
    """A call of a session."""

    entry: JournalEntry
    source_count: int
    """How many of the session's sources had entered it before the call."""
    is_judged: bool
    """Whether a policy judged the call when it was made."""
    was_tainted: bool
    """Whether the session was tainted before the call, as it was recorded or as the sources show."""
    was_asked: bool
    reasons: tuple[str, ...]
    """Why a person was asked, as recorded."""
    values: tuple[ExplainedValue, ...] = ()
    """Where its values come from; only of calls that a person was asked about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionTrace:
    """What has entered a session, and its calls, both in order."""

    sources: tuple[FlowSource, ...]
    steps: tuple[FlowStep, ...]
    is_tainted: bool
    """Whether third-party content has entered the session."""


class SessionTracer:
    """Follows a session whose calls come in pages, oldest first, and keeps its newest steps and sources."""

    def __init__(
        self,
        tools: ToolRegistry | Iterable[HasFlow | ToolFlow],
        policy: FlowPolicy,
        *,
        explained: Set[str] = frozenset(),
        max_steps: int | None = None,
        max_sources: int | None = None,
    ) -> None:
        """`explained` are the keys of the calls whose decisions are explained."""
        self.timeline = Timeline(KnownTools(tools), as_recorded=True, max_sources=max_sources)
        self.steps: deque[FlowStep] = deque(maxlen=max_steps)
        self.explanations: dict[str, FlowExplanation] = {}
        self.call_count = self.asked_count = 0
        self._policy = policy
        self._explained = explained

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Follow the calls of the page before this one, whose words of the user may stand in this one."""
        self._advance(keep=self.timeline.add(entries))

    def finish(self) -> None:
        """Follow the last page."""
        self._advance()
        self.timeline.finish()

    def forget_texts(self) -> None:
        """Free the texts of the session, in this thread; nothing can be added afterwards."""
        ledger = self.timeline.ledger
        for index in (ledger.user, ledger.trusted, ledger.other):
            index.clear()

    def _advance(self, *, keep: int = 0) -> None:
        timeline = self.timeline
        for entry, facts in timeline.advance(keep=keep):
            values: tuple[ExplainedValue, ...] = ()
            if entry.idempotency_key in self._explained:
                explanation = explain_entry(entry, facts, timeline, self._policy)
                self.explanations[entry.idempotency_key], values = explanation, explanation.values
            is_asked = is_asked_about(entry, facts)
            self.call_count += 1
            self.asked_count += is_asked
            self.steps.append(
                FlowStep(
                    entry=entry,
                    source_count=timeline.source_count,
                    is_judged=facts.is_judged,
                    was_tainted=facts.tainted if facts.is_judged else timeline.ledger.is_tainted,
                    was_asked=is_asked,
                    reasons=facts.reasons,
                    values=values,
                )
            )


def trace_session(
    entries: Iterable[JournalEntry],
    tools: ToolRegistry | Iterable[HasFlow | ToolFlow],
    policy: FlowPolicy,
    *,
    max_explained: int = 50,
) -> SessionTrace:
    """Follow the recorded calls of one session, in any order, with the labels that were recorded.

    The values are explained of the newest `max_explained` calls that a person was asked about.
    """
    recorded = list(entries)
    tracer = SessionTracer(tools, policy, explained=select_asked(recorded, max_explained))
    tracer.add(recorded)
    tracer.finish()
    timeline = tracer.timeline
    return SessionTrace(
        sources=tuple(timeline.sources), steps=tuple(tracer.steps), is_tainted=timeline.ledger.is_tainted
    )


def select_asked(entries: Iterable[JournalEntry], count: int) -> frozenset[str]:
    """Return the keys of the newest calls that a person was asked about."""
    asked = sorted((each.started_at, each.idempotency_key) for each in entries if was_asked(each))
    return frozenset(key for _, key in asked[max(0, len(asked) - count) :])


def is_tainted_after(entry: JournalEntry) -> bool | None:
    """Return whether a session is tainted after a call that has ended; `None` if its record does not tell."""
    facts = RecordedDecision.read(entry)
    if facts.tainted or (brings_content(entry) and get_entry_label(entry) in _THIRD_PARTY):
        return True
    return False if facts.is_judged else None
