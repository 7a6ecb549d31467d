"""A dry replay of recorded calls under a flow policy: what would have been asked. It runs no tool.

The batches are found by the times of calls, so that a call which waited may be judged by a little more than it was.
Secret arguments are masked in the journal, and count as values of unknown origin.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heappop, heappush
from typing import Final, Literal, TypeAlias

from spindle.execution.flow_history import RecordedDecision, add_outcome, brings_content, get_entry_label
from spindle.journal.entries import JournalEntry
from spindle.journal.summaries import CallSummary
from spindle.json_types import is_array, is_object
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.flow.policy import FlowCall, FlowPolicy
from spindle.trust.flow.roles import HasFlow, ToolFlow
from spindle.trust.labels import Label, join, media_label

AskChange: TypeAlias = Literal["same", "newly asked", "no longer asked"]
_THIRD_PARTY: Final = frozenset[Label]({"third-party-public", "third-party-private"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedCall:
    """A recorded call, and whether a person would be asked about it."""

    entry: JournalEntry
    was_asked: bool
    was_reasons: tuple[str, ...] = ()
    """Why a person was asked, as recorded."""
    would_ask: bool
    reasons: tuple[str, ...] = ()
    """Why a person would be asked."""
    tainted: bool
    """Whether third-party content would have entered the session before."""
    is_known: bool
    """Whether the tool still exists; one that is gone is judged as if nothing was declared about it."""

    @property
    def change(self) -> AskChange:
        """What the policy would change for this call."""
        if self.was_asked == self.would_ask:
            return "same"
        return "newly asked" if self.would_ask else "no longer asked"


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowReplay:
    """The recorded calls under a policy, oldest first within each session."""

    calls: tuple[ReplayedCall, ...]

    @property
    def asked_before(self) -> int:
        """How many calls a person was asked about."""
        return sum(call.was_asked for call in self.calls)

    @property
    def asked_now(self) -> int:
        """How many calls a person would be asked about."""
        return sum(call.would_ask for call in self.calls)

    @property
    def newly_asked(self) -> int:
        """How many calls would be asked about that were not."""
        return sum(call.change == "newly asked" for call in self.calls)

    @property
    def no_longer_asked(self) -> int:
        """How many calls were asked about that would not be."""
        return sum(call.change == "no longer asked" for call in self.calls)


def replay_flow(
    entries: Iterable[JournalEntry], tools: ToolRegistry | Iterable[HasFlow | ToolFlow], policy: FlowPolicy
) -> FlowReplay:
    """Judge recorded calls, in any order, by a policy and by what the tools declare now; nothing is run.

    Calls that were refused before they were judged, such as those with invalid arguments, are left out.
    """
    known = KnownTools(tools)
    sessions: dict[str | None, list[JournalEntry]] = {}
    for entry in entries:
        sessions.setdefault(entry.session_id, []).append(entry)
    replayed: list[ReplayedCall] = []
    for session in sessions.values():
        timeline = Timeline(known)
        timeline.add(session)
        replayed.extend(_judge(entry, facts, timeline, policy) for entry, facts in timeline.advance())
    return FlowReplay(calls=tuple(replayed))


class KnownTools:
    """What is declared about tools, by name."""

    def __init__(self, tools: ToolRegistry | Iterable[HasFlow | ToolFlow]) -> None:
        self._flows: dict[str, ToolFlow] = {}
        self._always_asked: set[str] = set()
        for tool in tools.all() if isinstance(tools, ToolRegistry) else tools:
            flow = tool if isinstance(tool, ToolFlow) else tool.flow
            self._flows[flow.name] = flow
            if isinstance(tool, Tool) and tool.requires_approval:
                self._always_asked.add(flow.name)

    def __contains__(self, name: str) -> bool:
        return name in self._flows

    def get(self, name: str) -> ToolFlow:
        """Return what is declared about a tool; about one that is gone, nothing."""
        return self._flows.get(name) or ToolFlow(name=name)

    def is_always_asked(self, name: str) -> bool:
        """Return whether a tool requires approval by its own declaration."""
        return name in self._always_asked


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowSource:
    """Something that entered a session: words of the user, or the result of a call."""

    number: int = 0
    """Its place among the sources of the session, from 0."""
    at: datetime
    label: Label
    text: str
    call_id: str = ""
    """Empty for the user's words, and for what the journal does not have."""
    key: str | None = None
    """The idempotency key of the call whose result it is."""
    tool: str = ""
    taints: bool = False
    """Whether it is what tainted the session first."""
    is_outside: bool = False
    """Whether the session was tainted by something that is not in the journal, such as a memory."""


class Timeline:
    """The recorded calls of one session, in order; its ledger knows what each call could know.

    Long sessions are added in pages, oldest first, and only the newest `max_sources` sources are kept: thousands of
    entries at once keep the garbage collector busy for long enough to be noticed by every other task.
    """

    def __init__(self, tools: KnownTools, *, as_recorded: bool = False, max_sources: int | None = None) -> None:
        self.ledger = FlowLedger()
        self.sources: deque[FlowSource] = deque(maxlen=max_sources)
        self.source_count = 0
        self.labels: dict[str, Label] = {}
        """Of what each call brought, by idempotency key."""
        self.numbers: dict[str, int] = {}
        """Of the newest source of each call id; calls of several turns may share an id."""
        self.tools = tools
        self._as_recorded = as_recorded
        """Whether results keep the labels they were recorded with, or have those that their tools declare now."""
        self._waiting: deque[tuple[JournalEntry, RecordedDecision]] = deque()
        """Calls that were added and not come to."""
        self._ending: list[tuple[datetime, int, JournalEntry]] = []
        """A heap of calls that have ended after the current one began, or that began together with it."""
        self._added = 0
        self._words: dict[tuple[str, str], list[str]] = {}
        """What the user said by turn; it stands in one call of a batch, and counts for the others too."""
        self._heard: set[str] = set()
        self._was_tainted = False
        self._has_taint = False
        """Whether one of the sources has tainted the session."""

    def add(self, entries: Iterable[JournalEntry]) -> int:
        """Add calls, in any order, none of which began before one that was added earlier; return how many."""
        added = [(entry, RecordedDecision.read(entry)) for entry in sorted(entries, key=get_order)]
        for entry, facts in added:
            if facts.said:
                self._words.setdefault(_get_turn(entry), []).extend(facts.said)
        self._waiting.extend(added)
        return len(added)

    def advance(self, *, keep: int = 0) -> Iterator[tuple[JournalEntry, RecordedDecision]]:
        """Yield each call that was judged, or could be, when the ledger has what came before it.

        The last `keep` calls wait for the next page, which may have the user's words for them.
        """
        while len(self._waiting) > keep:
            entry, facts = self._waiting.popleft()
            start = _get_start(entry)
            while self._ending and self._ending[0][0] <= start and _get_start(self._ending[0][2]) < start:
                self._add_outcome(heappop(self._ending)[2])
            self._add_words(entry, start)
            if facts.tainted and not self._was_tainted and not self.ledger.is_tainted:
                self.ledger.taint()
                self._note(FlowSource(at=start, label=self.ledger.label, text="", is_outside=True))
            if facts.is_judged or entry.attempts or entry.code is None or is_asked_about(entry, facts):
                yield entry, facts
            if entry.state != "started":
                self._added += 1
                heappush(self._ending, (_get_end(entry), self._added, entry))

    def finish(self) -> None:
        """Add the outcomes of the calls that had not ended when the last call began."""
        while self._ending:
            self._add_outcome(heappop(self._ending)[2])

    def _add_words(self, entry: JournalEntry, at: datetime) -> None:
        for text in self._words.pop(_get_turn(entry), ()):
            self._note(FlowSource(at=at, label="trusted", text=text))
            if text not in self._heard:
                self._heard.add(text)
                self.ledger.add_user_text(text)

    def _add_outcome(self, entry: JournalEntry) -> None:
        tool, recorded = self.tools.get(entry.tool), get_entry_label(entry)
        is_kept = self._as_recorded or entry.code is not None or entry.tool not in self.tools
        label = recorded if is_kept else self.ledger.get_result_label(tool, entry.args, _get_media_label(entry))
        for _ in add_outcome(self.ledger, entry, tool, label):
            pass
        if brings_content(entry):
            self._was_tainted |= recorded in _THIRD_PARTY
            text = str((entry.result or {}).get("value") or "") if entry.code is None else entry.error or ""
            self.labels[entry.idempotency_key] = label
            if entry.tool_call_id:
                self.numbers[entry.tool_call_id] = self.source_count
            self._note(
                FlowSource(
                    at=_get_end(entry),
                    label=label,
                    text=text,
                    call_id=entry.tool_call_id,
                    key=entry.idempotency_key,
                    tool=entry.tool,
                )
            )

    def _note(self, source: FlowSource) -> None:
        taints = source.label in _THIRD_PARTY and not self._has_taint
        self._has_taint |= taints
        self.sources.append(replace(source, number=self.source_count, taints=taints))
        self.source_count += 1


def was_asked(entry: JournalEntry) -> bool:
    """Return whether a person had to approve a recorded call."""
    return is_asked_about(entry, RecordedDecision.read(entry))


def is_asked_about(entry: JournalEntry, facts: RecordedDecision) -> bool:
    """Return whether a person had to approve a recorded call, by what is recorded of its decision."""
    return facts.asked or entry.code == "needs_approval"


def _judge(entry: JournalEntry, facts: RecordedDecision, timeline: Timeline, policy: FlowPolicy) -> ReplayedCall:
    tool, ledger = timeline.tools.get(entry.tool), timeline.ledger
    [decision] = policy.judge([FlowCall(tool=tool, args=entry.args, call_id=entry.tool_call_id)], ledger)
    return ReplayedCall(
        entry=entry,
        was_asked=is_asked_about(entry, facts),
        was_reasons=facts.reasons,
        would_ask=decision.needs_approval or timeline.tools.is_always_asked(entry.tool),
        reasons=decision.reasons,
        tainted=ledger.is_tainted,
        is_known=entry.tool in timeline.tools,
    )


def _get_turn(entry: JournalEntry) -> tuple[str, str]:
    return ("call", entry.idempotency_key) if entry.turn_id is None else ("turn", entry.turn_id)


def get_order(entry: JournalEntry | CallSummary) -> tuple[datetime, datetime]:
    """Return by what the calls of a session are sorted: when each began, and ended."""
    return _get_start(entry), _get_end(entry)


def _get_start(entry: JournalEntry | CallSummary) -> datetime:
    # The calls of a batch that ran have one start; one that never ran is recorded with a start slightly after its end.
    if entry.ended_at is None or entry.attempts:
        return entry.started_at
    return min(entry.started_at, entry.ended_at)


def _get_end(entry: JournalEntry | CallSummary) -> datetime:
    # It is recorded before the start if the clock was set back meanwhile.
    return entry.started_at if entry.ended_at is None else max(entry.ended_at, _get_start(entry))


def _get_media_label(entry: JournalEntry) -> Label:
    described: object = (entry.result or {}).get("media")
    tiers = [each.get("trust_tier") for each in described if is_object(each)] if is_array(described) else []
    labels: list[Label] = ["trusted", *(media_label(_Tier(tier)) for tier in tiers)]
    return join(*labels)


@dataclass(frozen=True, slots=True)
class _Tier:
    trust_tier: object
