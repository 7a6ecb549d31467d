"""A dry replay of recorded calls under a flow policy: what would have been asked. It runs no tool.

The batches are found by the times of calls, so that a call which waited may be judged by a little more than it was.
Secret arguments are masked in the journal, and count as values of unknown origin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from spindle.execution.flow_history import RecordedDecision, add_outcome, add_words, brings_content, get_entry_label
from spindle.journal.entries import JournalEntry
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
        timeline = Timeline(session, known)
        replayed.extend(_judge(entry, timeline, policy) for entry in timeline)
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

    at: datetime
    label: Label
    text: str
    call_id: str = ""
    """Empty for the user's words, and for what the journal does not have."""
    tool: str = ""
    taints: bool = False
    """Whether it is what tainted the session first."""
    is_outside: bool = False
    """Whether the session was tainted by something that is not in the journal, such as a memory."""


class Timeline:
    """The recorded calls of one session, in order; its ledger knows what each call could know."""

    def __init__(self, entries: Sequence[JournalEntry], tools: KnownTools, *, as_recorded: bool = False) -> None:
        self.ledger = FlowLedger()
        self.sources: list[FlowSource] = []
        self.tools = tools
        self._as_recorded = as_recorded
        """Whether results keep the labels they were recorded with, or have those that their tools declare now."""
        self._entries = sorted(entries, key=_get_start)
        self._ended = sorted((entry for entry in entries if entry.state != "started"), key=_get_end)
        self._words = _collect_words(self._entries)
        self._was_tainted = False

    def __iter__(self) -> Iterator[JournalEntry]:
        """Yield each call that was judged, or could be, when the ledger has what came before it."""
        position = 0
        for entry in self._entries:
            start = _get_start(entry)
            while position < len(self._ended) and _get_end(self._ended[position]) <= start:
                if self._ended[position] is not entry:
                    self._add_outcome(self._ended[position])
                position += 1
            self._add_words(entry, start)
            facts = RecordedDecision.read(entry)
            if facts.tainted and not self._was_tainted and not self.ledger.is_tainted:
                self.ledger.taint()
                self._note(FlowSource(at=start, label=self.ledger.label, text="", is_outside=True))
            if facts.is_judged or entry.attempts or entry.code is None:
                yield entry

    def _add_words(self, entry: JournalEntry, at: datetime) -> None:
        for text in self._words.pop(_get_turn(entry), ()):
            self.sources.append(FlowSource(at=at, label="trusted", text=text))
            for _ in add_words(self.ledger, (text,)):
                pass

    def _add_outcome(self, entry: JournalEntry) -> None:
        tool, recorded = self.tools.get(entry.tool), get_entry_label(entry)
        is_kept = self._as_recorded or entry.code is not None or entry.tool not in self.tools
        label = recorded if is_kept else self.ledger.get_result_label(tool, entry.args, _get_media_label(entry))
        for _ in add_outcome(self.ledger, entry, tool, label):
            pass
        if brings_content(entry):
            self._was_tainted |= recorded in _THIRD_PARTY
            text = str((entry.result or {}).get("value") or "") if entry.code is None else entry.error or ""
            self._note(
                FlowSource(at=_get_end(entry), label=label, text=text, call_id=entry.tool_call_id, tool=entry.tool)
            )

    def _note(self, source: FlowSource) -> None:
        taints = source.label in _THIRD_PARTY and not any(each.taints for each in self.sources)
        self.sources.append(replace(source, taints=taints))


def was_asked(entry: JournalEntry) -> bool:
    """Return whether a person had to approve a recorded call."""
    return RecordedDecision.read(entry).asked or entry.code == "needs_approval"


def _judge(entry: JournalEntry, timeline: Timeline, policy: FlowPolicy) -> ReplayedCall:
    tool, ledger = timeline.tools.get(entry.tool), timeline.ledger
    [decision] = policy.judge([FlowCall(tool=tool, args=entry.args, call_id=entry.tool_call_id)], ledger)
    return ReplayedCall(
        entry=entry,
        was_asked=was_asked(entry),
        was_reasons=RecordedDecision.read(entry).reasons,
        would_ask=decision.needs_approval or timeline.tools.is_always_asked(entry.tool),
        reasons=decision.reasons,
        tainted=ledger.is_tainted,
        is_known=entry.tool in timeline.tools,
    )


def _collect_words(entries: Iterable[JournalEntry]) -> dict[tuple[str, str], list[str]]:
    """Return what the user said by turn; it stands in one call of a batch, and counts for the others too."""
    words: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        words.setdefault(_get_turn(entry), []).extend(RecordedDecision.read(entry).said)
    return words


def _get_turn(entry: JournalEntry) -> tuple[str, str]:
    return ("call", entry.idempotency_key) if entry.turn_id is None else ("turn", entry.turn_id)


def _get_start(entry: JournalEntry) -> datetime:
    # A call that never ran is recorded with a start slightly after its end.
    return entry.started_at if entry.ended_at is None else min(entry.started_at, entry.ended_at)


def _get_end(entry: JournalEntry) -> datetime:
    return entry.ended_at or entry.started_at


def _get_media_label(entry: JournalEntry) -> Label:
    described: object = (entry.result or {}).get("media")
    tiers = [each.get("trust_tier") for each in described if is_object(each)] if is_array(described) else []
    labels: list[Label] = ["trusted", *(media_label(_Tier(tier)) for tier in tiers)]
    return join(*labels)


@dataclass(frozen=True, slots=True)
class _Tier:
    trust_tier: object
