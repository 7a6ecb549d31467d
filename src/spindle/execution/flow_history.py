"""What the journal knows of a session: its ledger is rebuilt from there when a process sees the session first.

A session whose past cannot be read, or not all of it, counts as tainted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakKeyDictionary

import anyio

from spindle.calls import CallOutcome, Err, ErrCode
from spindle.errors import JournalError
from spindle.execution.cancellation import is_pause_due, pause
from spindle.journal.entries import JournalEntry
from spindle.json_types import JsonObject, is_array, is_object
from spindle.tools.context import ToolContext
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.flow.roles import ToolFlow
from spindle.trust.labels import UNKNOWN, Label, is_tainting, read_label

if TYPE_CHECKING:
    from spindle.journal.journal import Journal

MAX_ENTRIES: Final = 1_000
"""The newest calls of a session that are read; if there were more, the session counts as tainted."""
READ_SECONDS: Final = 5.0
"""How long a batch waits for the journal; afterwards the session counts as tainted."""
_THIRD_PARTY: Final = frozenset[Label]({"third-party-public", "third-party-private"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedDecision:
    """What the journal keeps of the decision about a call."""

    is_judged: bool = False
    """Whether a policy has judged the call; an older journal, or an executor without a policy, does not say."""
    tainted: bool = False
    asked: bool = False
    """Whether a person had to approve the call, by the policy or for another reason."""
    reasons: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    """What the user had said since the call before."""

    @classmethod
    def read(cls, entry: JournalEntry) -> "RecordedDecision":
        """Return the facts of a call; what is missing or malformed is left out, and the taint assumed."""
        facts: object = (entry.result or {}).get("flow")
        if not is_object(facts):
            return cls()
        return cls(
            is_judged=True,
            tainted=facts.get("tainted") is not False,
            asked=facts.get("asked") is True,
            reasons=_read_texts(facts, "reasons"),
            said=_read_texts(facts, "said"),
        )


@dataclass(slots=True)
class _Past:
    """What was read of one session."""

    unrecorded: list[str] = field(default_factory=list[str])
    """What the user said before the past was read, which no call has recorded."""
    ended: frozenset[str] = frozenset()
    """The keys of calls that have run to an end; the journal answers them, so they do not run again."""


class FlowHistory:
    """Rebuilds the ledgers of sessions from a journal, each once."""

    def __init__(self, journal: "Journal | None") -> None:
        self._journal = journal
        self._past: WeakKeyDictionary[FlowLedger, _Past] = WeakKeyDictionary()
        self._opened_at = datetime.now(UTC)

    async def read(self, ledger: FlowLedger, context: ToolContext, registry: ToolRegistry) -> None:
        """Add what the journal knows of the session of a context to its new ledger."""
        if self._journal is None or ledger in self._past or not context.flow.has_past:
            return
        try:
            with anyio.fail_after(READ_SECONDS):
                entries = await self._journal.list(limit=MAX_ENTRIES + 1, session_id=context.session_id)
        except (JournalError, TimeoutError) as error:
            text = "the past of the session could not be read from the journal, so it counts as tainted"
            context.events.warn(text, source="flow", error=error)
            ledger.lose_past()
            return  # the next batch tries again
        if context.flow.session_id not in (None, context.session_id):
            # Several sessions have this id in the journal, and the words of one must not vouch in another.
            if any(entry.started_at < self._opened_at for entry in entries):
                ledger.lose_past()
            entries = []
        if len(entries) > MAX_ENTRIES:
            entries.pop()
            ledger.lose_past()
        entries.reverse()
        unrecorded = ledger.take_unrecorded_texts()
        for entry in entries:
            for _ in add_entry(ledger, entry, find_flow(registry, entry.tool)):
                if is_pause_due():
                    await pause()
        ledger.take_unrecorded_texts()  # the journal has them
        known = {text for entry in entries for text in RecordedDecision.read(entry).said}
        self._past[ledger] = _Past(
            [text for text in unrecorded if text not in known],
            frozenset(entry.idempotency_key for entry in entries if entry.state == "finished" and entry.attempts),
        )

    def take_texts(self, ledger: FlowLedger) -> list[str]:
        """Return what the user has said since the last call, for the journal."""
        past, texts = self._past.get(ledger), ledger.take_unrecorded_texts()
        if past is not None and past.unrecorded:
            texts, past.unrecorded = [*past.unrecorded, *texts], []
        return texts

    def has_ended(self, ledger: FlowLedger, idempotency_key: str) -> bool:
        """Return whether a call ran to its end in a process before this one."""
        past = self._past.get(ledger)
        return past is not None and idempotency_key in past.ended

    def has_past(self, ledger: FlowLedger) -> bool:
        """Return whether a session has calls that ended in a process before this one."""
        past = self._past.get(ledger)
        return past is not None and bool(past.ended)


def find_flow(registry: ToolRegistry, name: str) -> ToolFlow:
    """Return what a policy knows of a tool; of one that is gone, nothing."""
    tool = registry.get(name)
    return ToolFlow(name=name) if tool is None else tool.flow


def add_entry(ledger: FlowLedger, entry: JournalEntry, tool: ToolFlow) -> Iterator[None]:
    """Add a recorded call to a ledger: what the user had said, its result, and that its session was tainted."""
    facts = RecordedDecision.read(entry)
    yield from add_words(ledger, facts.said)
    if facts.tainted and not ledger.is_tainted:
        ledger.taint()  # by what is not in the journal, such as a memory
    yield from add_outcome(ledger, entry, tool, get_entry_label(entry))


def add_words(ledger: FlowLedger, texts: Iterable[str]) -> Iterator[None]:
    """Add what the user said, each text once."""
    for text in texts:
        if text not in ledger.user_texts:
            yield from ledger.add_user_text_in_steps(text)


def get_entry_label(entry: JournalEntry) -> Label:
    """Return the label that the result of a call was recorded with; an older journal only knows if it was trusted."""
    if entry.code is not None:
        return UNKNOWN
    return read_label((entry.result or {}).get("label"), trusted=entry.trusted)


def brings_content(entry: JournalEntry) -> bool:
    """Return whether a call has brought something into its session: a result, or an error of the tool."""
    if entry.state != "finished":
        return False
    return entry.code is None or is_tainting(_to_outcome(entry))


def add_outcome(ledger: FlowLedger, entry: JournalEntry, tool: ToolFlow, label: Label) -> Iterator[None]:
    """Add the outcome of a recorded call to a ledger."""
    if entry.state == "interrupted" and tool.output in _THIRD_PARTY:
        ledger.taint(tool.output)  # its outcome may have been returned although it could not be written
    if not brings_content(entry):
        return
    result, is_error = entry.result or {}, entry.code is not None
    yield from ledger.add_result_in_steps(
        tool,
        (entry.error or "") if is_error else str(result.get("value") or ""),
        label,
        call_id=entry.tool_call_id,
        args={} if is_error else entry.args,
        structured=None if is_error else result.get("structured"),
    )
    if label == UNKNOWN and (result.get("is_partial") or result.get("media")):
        ledger.has_lost_private = True


def _to_outcome(entry: JournalEntry) -> CallOutcome:
    code = cast("ErrCode", entry.code)  # as an executor wrote it
    return CallOutcome(
        entry.tool_call_id, entry.tool, entry.checksum, Err(code, entry.error or ""), attempts=entry.attempts
    )


def _read_texts(facts: JsonObject, name: str) -> tuple[str, ...]:
    given: object = facts.get(name)
    return tuple(text for text in given if isinstance(text, str)) if is_array(given) else ()
