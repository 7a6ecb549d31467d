"""What a turn tells the ledger of its session: the user's messages, earlier calls, memories and retrieved texts.

Each is added once. Long texts are added with pauses, and large artifacts by their beginning.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar, cast, get_args

from anyio import Lock

from spindle.artifacts.artifact import Artifact
from spindle.calls import ToolCallRecord
from spindle.execution.cancellation import is_pause_due, pause
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_mapping
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.ledger import MAX_RESULT_CHARS, FlowLedger
from spindle.trust.flow.roles import ToolFlow
from spindle.trust.labels import TAINTING, UNKNOWN, Label, is_tainting_record, join, label_of_record
from spindle.turns.record_list import RecordCursor, RecordList, TurnRecords
from spindle.turns.record_types import Memory, Message, MessageLike, Retrievable

MAX_ADDED: Final = 100_000
"""How many things a ledger remembers to have; beyond, some of them may be added again."""
MAX_SAVED_CHARS: Final = 200_000
"""Of the user's words that are saved with a turn besides its messages; the oldest are left out first."""

Labelled = TypeVar("Labelled", Message, Memory)


class _Waiting(NamedTuple):
    record: object
    was_given: bool
    """Whether the turn began with it: no executor has added its text."""


class FlowFeed:
    """Passes the records of one turn on to the ledger of its session, each once."""

    def __init__(self, records: TurnRecords) -> None:
        lists = (records.message, records.memory, records.retrievable, records.tool_call)
        self._cursors = tuple(RecordCursor(cast("RecordList[object]", each)) for each in lists)
        self._waiting: deque[_Waiting] = deque()
        self._is_first = True
        self._lock = Lock()
        self.saved: JsonObject | None = None
        """What the ledger knew when the turn was saved; `None` once it is in the ledger."""

    async def feed(self, ledger: FlowLedger, tools: ToolRegistry) -> None:
        """Add what the turn has received since the last time; of several callers, each waits until all is added."""
        async with self._lock:
            if self.saved is not None:
                await _restore(ledger, self.saved)
                self.saved = None
            for cursor in self._cursors:
                self._waiting.extend(_Waiting(record, self._is_first) for record in cursor.read()[1])
            self._is_first = False
            while self._waiting:
                record, was_given = self._waiting[0]
                await _tell(ledger, record, tools, was_given=was_given)
                self._waiting.popleft()  # only now: a caller that is cancelled leaves it for the next one


class FedTurn(Protocol):
    """A turn, as its feed sees it."""

    records: TurnRecords
    flow_feed: FlowFeed | None


def get_feed(turn: FedTurn) -> FlowFeed:
    """Return what tells the ledger about a turn."""
    if turn.flow_feed is None:
        turn.flow_feed = FlowFeed(turn.records)
    return turn.flow_feed


async def add_user_text(ledger: FlowLedger, text: str) -> None:
    """Add words of the user, unless the ledger has them."""
    key = ("user", hash(text), len(text))
    if key not in ledger.added:
        await _take_steps(ledger.add_user_text_in_steps(text))
        _note(ledger, key)


async def add_foreign_text(
    ledger: FlowLedger,
    tool: ToolFlow,
    text: str,
    label: Label,
    *,
    call_id: str,
    args: Mapping[str, JsonValue] | None = None,
    key: Hashable,
) -> None:
    """Add the text of a result, or of a record, unless the ledger has it."""
    if key not in ledger.added:
        await _take_steps(ledger.add_result_in_steps(tool, text, label, call_id=call_id, args=args))
        _note(ledger, key)


async def _tell(ledger: FlowLedger, record: object, tools: ToolRegistry, *, was_given: bool) -> None:
    match record:
        case ToolCallRecord():
            await _tell_call(ledger, record, tools, was_given=was_given)
        case Memory():
            key = ("memory", record.id, record.updated_at)
            flow, label = ToolFlow(name="memory"), record.label or UNKNOWN
            await add_foreign_text(ledger, flow, record.content, label, call_id=record.id, key=key)
        case Retrievable():
            key = ("retrieved", record.id, record.updated_at)
            text = await _read(ledger, record.content, record.trust_tier)
            flow = ToolFlow(name="retrieval")
            await add_foreign_text(ledger, flow, text, record.trust_tier, call_id=record.id, key=key)
        case _:
            await _tell_message(ledger, record, was_given=was_given)


async def _tell_message(ledger: FlowLedger, message: object, *, was_given: bool) -> None:
    role, label, texts = _read_message(message)
    if role == "user":
        for text in texts:
            await add_user_text(ledger, text)
    elif role == "tool":
        for text in texts:
            key = ("message", hash(text), len(text))
            await add_foreign_text(
                ledger, ToolFlow(name="an earlier tool"), text, label or UNKNOWN, call_id="", key=key
            )
    elif role == "assistant" and was_given and label in TAINTING and not ledger.is_tainted:
        ledger.taint(label)


async def _tell_call(ledger: FlowLedger, call: ToolCallRecord, tools: ToolRegistry, *, was_given: bool) -> None:
    if call.is_error and not is_tainting_record(call):
        return  # Spindle wrote it
    key, label = ("call", call.id, call.created_at), label_of_record(call)
    if not was_given and ledger.knows_call(call.id):
        _note(ledger, (*key, 0))
        ledger.receive(label, call.id, call.tool)  # the executor has added its text
        return
    tool, args = tools.get(call.tool), cast("JsonObject", call.args)
    flow = ToolFlow(name=call.tool) if tool is None else tool.flow
    results: object = call.results
    parts = results if is_list_or_tuple(results) else (results,)
    for number, part in enumerate(parts):
        text = await _read(ledger, part, label, instead=call.shown or "")
        await add_foreign_text(ledger, flow, text, label, call_id=call.id, args=args, key=(*key, number))


async def _read(ledger: FlowLedger, content: object, label: Label, *, instead: str = "") -> str:
    """Return a text, or the beginning of an artifact; that of media, which has none, is `instead`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Artifact):
        # What a picture shows is in no text.
        ledger.has_lost_private = ledger.has_lost_private or (content is not None and label == "third-party-private")
        return instead
    try:
        is_whole = await content.byte_length() <= MAX_RESULT_CHARS
        text = (await content.first_bytes(MAX_RESULT_CHARS)).decode("utf-8", "replace")
    except Exception:  # noqa: BLE001  gone, or a class of the application; what was shown is left of it
        is_whole, text = False, instead
    ledger.has_lost_private = ledger.has_lost_private or (not is_whole and label == "third-party-private")
    return text


def _read_message(message: object) -> tuple[object, Label | None, list[str]]:
    """Return role, label and texts of a message in any form that a turn accepts."""
    if isinstance(message, Message):
        return message.role, message.label, [message.content]
    if isinstance(message, str):
        return "user", None, [message]
    if not is_mapping(message):
        return None, None, []
    given = message.get("label")
    label = next((each for each in get_args(Label) if each == given), None)
    return message.get("role"), label, list(read_texts(message.get("content")))


def read_texts(content: object) -> Iterator[str]:
    """Iterate over the texts of a message's content: a text, or parts with `text` as most model APIs have them."""
    if isinstance(content, str):
        yield content
    elif is_list_or_tuple(content):
        for part in content:
            text = part.get("text") if is_mapping(part) else part
            if isinstance(text, str):
                yield text


def label_records(records: TurnRecords, ledger: FlowLedger) -> None:
    """Let new memories and messages of the model have the label of the session, so that neither launders a text."""
    records.memory.prepare = partial(_add_label, records, ledger)
    records.message.prepare = partial(_label_message, records, ledger)


def _label_message(records: TurnRecords, ledger: FlowLedger, message: MessageLike) -> MessageLike:
    if isinstance(message, Message) and message.role == "assistant":
        return _add_label(records, ledger, message)
    return message


def _add_label(records: TurnRecords, ledger: FlowLedger, record: Labelled) -> Labelled:
    if record.label is not None:
        return record
    return replace(record, label=join(ledger.label, *_iterate_labels(records)))


def _iterate_labels(records: TurnRecords) -> Iterator[Label]:
    """Iterate over the labels of what the turn has, because the ledger may not have it yet."""
    for call in records.tool_call:
        if not call.is_error or is_tainting_record(call):
            yield label_of_record(call)
    for found in records.retrievable:
        yield found.trust_tier
    for memory in records.memory:
        yield memory.label or UNKNOWN
    for message in records.message:
        role, label, _ = _read_message(message)
        if role == "tool" or (role == "assistant" and label is not None):
            yield label or UNKNOWN


def save_flow(turn: FedTurn, ledger: FlowLedger | None) -> JsonObject | None:
    """Return what another process needs of the ledger to continue a turn, besides its records and messages."""
    if turn.flow_feed is not None and turn.flow_feed.saved is not None:
        return turn.flow_feed.saved
    if ledger is None:
        return None
    own = {text for message in turn.records.message for text in _read_message(message)[2]}
    kept: list[str] = []
    left = MAX_SAVED_CHARS
    for text in reversed(ledger.user_texts):
        left -= 0 if text in own else len(text)
        if left < 0:
            break  # what is forgotten vouches for nothing
        if text not in own:
            kept.append(text)
    return ledger.save() | {"user": kept[::-1]}


async def _restore(ledger: FlowLedger, saved: JsonObject) -> None:
    for text in saved.get("user", ()):
        await add_user_text(ledger, text)
    ledger.restore({**saved, "user": []})


def _note(ledger: FlowLedger, key: Hashable) -> None:
    if len(ledger.added) >= MAX_ADDED:
        ledger.added.clear()
    ledger.added.add(key)  # only once all of it is in the ledger: adding a long text may be cancelled


async def _take_steps(steps: Iterable[None]) -> None:
    for _ in steps:
        if is_pause_due():
            await pause()
