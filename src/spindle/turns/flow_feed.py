"""What a turn tells the ledger of its session: the user's messages, earlier calls, and texts that were retrieved."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spindle.calls import ToolCallRecord
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.flow.roles import ToolFlow
from spindle.trust.labels import UNKNOWN, Label, is_tainting_record

if TYPE_CHECKING:
    from spindle.turns.context import TurnContext


class FlowFeed:
    """Passes the records of one turn on to a ledger, each once."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def feed(self, turn: "TurnContext", ledger: FlowLedger) -> None:
        """Add what the turn has received since the last time."""
        for message in turn.messages:
            if message.role == "user" and self._is_new("message", message.id):
                ledger.add_user_text(message.content)
        for memory in turn.records.iterate_memories():
            if self._is_new("memory", memory.id):
                _add_text(ledger, "memory", memory.id, memory.content, UNKNOWN)
        for found in turn.retrievables:
            if self._is_new("retrievable", found.id):
                label: Label = found.trust_tier
                _add_text(ledger, "retrieval", found.id, found.content if isinstance(found.content, str) else "", label)
        for call in turn.tool_calls:
            if self._is_new("call", call.id):
                self._add_call(turn, call, ledger)

    def _add_call(self, turn: "TurnContext", call: ToolCallRecord, ledger: FlowLedger) -> None:
        label: Label = call.label or ("trusted" if call.trusted else UNKNOWN)
        if call.is_error and not is_tainting_record(call):
            return
        if ledger.knows_call(call.id):
            ledger.receive(label, call.id, call.tool)  # an executor has added its text
            return
        tool = turn.tools.get(call.tool)
        flow = ToolFlow(name=call.tool) if tool is None else tool.flow
        for text in _iterate_texts(call):
            for _ in ledger.add_result_in_steps(flow, text, label, call_id=call.id):
                pass

    def _is_new(self, kind: str, id: str) -> bool:
        if (kind, id) in self._seen:
            return False
        self._seen.add((kind, id))
        return True


def _iterate_texts(call: ToolCallRecord) -> Iterator[str]:
    results = call.results
    texts = [each for each in (results if isinstance(results, tuple) else (results,)) if isinstance(each, str)]
    yield from texts or [call.shown or ""]


def _add_text(ledger: FlowLedger, kind: str, id: str, text: str, label: Label) -> None:
    for _ in ledger.add_result_in_steps(ToolFlow(name=kind), text, label, call_id=id):
        pass
