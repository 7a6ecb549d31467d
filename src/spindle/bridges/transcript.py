"""The conversation of a dispatch as a list of steps, independent of the dialect.

Responses of the model are kept as received, because providers require their own blocks back: thinking with its
signature, reasoning items, call ids. Everything else is read from the records of the turn, which middleware may change.
Rendered steps are cached: each fence has a random tag, and a provider can only cache a conversation whose beginning
does not change.
"""

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar

from spindle.bridges.rendering import (
    MediaSupport,
    Part,
    RenderedResult,
    TextPart,
    render_media,
    render_missing_result,
    render_recorded_result,
)
from spindle.calls import Call, ToolCallRecord
from spindle.json_types import JsonObject, JsonValue
from spindle.trust.envelope import fence
from spindle.turns.context import DispatchContext
from spindle.turns.record_list import RecordCursor
from spindle.turns.record_types import Message, MessageLike


@dataclass(frozen=True, slots=True)
class MessageStep:
    """A message of the user, the assistant or the system."""

    role: Literal["user", "assistant", "system"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All text parts, in order."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class ToolStep:
    """A response of the model that requested calls, and the result of each call."""

    text: str | None
    calls: tuple[Call, ...]
    results: tuple[RenderedResult, ...]
    raw: JsonValue = None
    """The response in the provider's own form if this bridge received it; otherwise it is rebuilt from the calls."""


Step: TypeAlias = MessageStep | ToolStep

_Source = TypeVar("_Source")
_Rendered = TypeVar("_Rendered")

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class _ModelTurn:
    text: str | None
    calls: tuple[Call, ...]
    raw: JsonValue


@dataclass(slots=True)
class _StoredCalls:
    """Records of calls this bridge did not request: from an earlier turn, or stored by middleware."""

    ids: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _SeenMessage:
    id: str


class Transcript:
    """The conversation of one dispatch; each dispatch has its own.

    Its end is read and rendered when it grows; after another change of the records everything is put together anew.
    """

    def __init__(self) -> None:
        self.call_ids: set[str] = set()
        """The ids of all calls so far, with or without a record."""
        self._messages = _SeenMessages()
        self._message_cursor: RecordCursor[MessageLike] | None = None
        self._record_cursor: RecordCursor[ToolCallRecord] | None = None
        self._order: list[_ModelTurn | _StoredCalls | _SeenMessage] = []
        self._seen: set[str] = set()
        self._calls_seen: dict[str, int] = defaultdict(int)
        self._calls_present: dict[str, int] = defaultdict(int)
        self._unused: dict[str, deque[ToolCallRecord]] = defaultdict(deque)
        """The records that are not part of a step yet, by id."""
        self._unanswered: set[str] = set()
        """The ids of calls whose step says that there is no record."""
        self._last_text: str | None = None
        self._steps: list[Step] = []
        self._placed = 0
        """The number of items of `_order` that are in `_steps`."""
        self._is_outdated = False
        self._rendered_messages: dict[str, tuple[Message, MessageStep]] = {}
        self._rendered: dict[int, tuple[object, Any]] = {}
        """By `id()` of the source object, which is kept alive by the entry."""

    def add_response(self, *, text: str | None, calls: Sequence[Call], raw: JsonValue) -> None:
        """Store the model's response of this iteration."""
        self._last_text = text
        if calls:
            self._order.append(_ModelTurn(text, tuple(calls), raw))
            for call in calls:
                self._calls_seen[call.tool_call_id] += 1
                self.call_ids.add(call.tool_call_id)

    def save(self) -> JsonObject:
        """Return the order of the conversation and the model's own responses as JSON."""
        return {"order": [_save_item(item) for item in self._order], "seen": sorted(self._seen)}

    def restore(self, saved: JsonObject) -> None:
        """Set what `save` returned, before anything is read."""
        self._seen.update(saved["seen"])
        for each in saved["order"]:
            if "message" in each:
                self._order.append(_SeenMessage(each["message"]))
            elif "ids" in each:
                self._order.append(_StoredCalls(each["ids"]))
                for call_id in each["ids"]:
                    self._calls_seen[call_id] += 1
            else:
                calls = [Call(*saved_call) for saved_call in each["calls"]]
                self.add_response(text=each["text"], calls=calls, raw=each["raw"])

    async def build_steps(self, ctx: DispatchContext, media_support: MediaSupport) -> list[Step]:
        """Return the conversation up to now."""
        self._read(ctx)
        if self._is_outdated:
            self._start_anew(ctx)
        self._is_outdated = True  # unless every step is rendered
        for item in self._order[self._placed :]:
            step = await self._build_step(item, media_support)
            if step is not None:
                self._steps.append(step)
            self._placed += 1
        self._is_outdated = False
        return list(self._steps)

    def _start_anew(self, ctx: DispatchContext) -> None:
        self._steps, self._placed = [], 0
        self._unanswered.clear()
        self._unused.clear()
        for record in ctx.tool_calls:
            self._unused[record.id].append(record)

    async def _build_step(
        self, item: "_ModelTurn | _StoredCalls | _SeenMessage", media_support: MediaSupport
    ) -> Step | None:
        if isinstance(item, _SeenMessage):
            message = self._messages.get(item.id)
            return None if message is None else await self._render_message(item.id, message, media_support)
        if isinstance(item, _ModelTurn):
            results = [await self._render_call(call, media_support) for call in item.calls]
            return ToolStep(item.text, item.calls, tuple(results), item.raw)
        stored = [record for record in map(self._use_record, item.ids) if record is not None]
        results = [await self._render_once(record, render_recorded_result, media_support) for record in stored]
        calls = tuple(Call(record.id, record.tool, record.args) for record in stored)
        return ToolStep(None, calls, tuple(results)) if calls else None

    async def _render_call(self, call: Call, media_support: MediaSupport) -> RenderedResult:
        record = self._use_record(call.tool_call_id)
        if record is None:
            return await self._render_once(call, _render_missing, media_support)
        return await self._render_once(record, render_recorded_result, media_support)

    def _use_record(self, id: str) -> ToolCallRecord | None:
        """Return the next record with this id."""
        records = self._unused.get(id)
        if records:
            return records.popleft()
        self._unanswered.add(id)
        return None

    async def _render_message(self, name: str, message: Message, media_support: MediaSupport) -> MessageStep:
        """Render a message, reusing the cached step while the content is unchanged."""
        before = self._rendered_messages.get(name)
        if before is None or not _is_same_message(before[0], message):
            before = self._rendered_messages[name] = (message, await _render_step(message, media_support))
        return before[1]

    async def _render_once(
        self,
        source: _Source,
        render: Callable[[_Source, MediaSupport], Awaitable[_Rendered]],
        media_support: MediaSupport,
    ) -> _Rendered:
        found = self._rendered.get(id(source))
        if found is None:
            found = self._rendered[id(source)] = (source, await render(source, media_support))
        return found[1]

    def _read(self, ctx: DispatchContext) -> None:
        """Read messages and records that appeared since the last iteration, and append them in order of time."""
        lists = ctx.turn.records
        if self._message_cursor is None or self._record_cursor is None:
            self._message_cursor, self._record_cursor = RecordCursor(lists.message), RecordCursor(lists.tool_call)
        news: list[tuple[datetime, _SeenMessage | ToolCallRecord]] = []
        has_changed, given = self._message_cursor.read()
        self._is_outdated = has_changed or self._messages.update_mappings() or self._is_outdated
        if has_changed:
            self._messages = _SeenMessages()
        for key, message, time in self._messages.read(given):
            if key in self._seen:
                self._is_outdated = True  # it was deleted, and is back in its place
                continue
            self._seen.add(key)
            # The loop stores the model's text as a message too; here it is already part of the step with its calls.
            own, last = self._last_text, self._order[-1] if self._order else None
            if own and message.role == "assistant" and message.content == own and isinstance(last, _ModelTurn):
                self._last_text = None
                continue
            news.append((time, _SeenMessage(key)))
        news += [(_with_timezone(record.created_at), record) for record in self._read_records(self._record_cursor)]
        # The sort is stable: messages keep their order, and records follow messages of the same time.
        for _, item in sorted(news, key=lambda pair: pair[0]):
            self._append(item)

    def _append(self, item: _SeenMessage | ToolCallRecord) -> None:
        if isinstance(item, _SeenMessage):
            self._order.append(item)
            return
        # A group that is already in a step does not grow: the request with it has been sent.
        if len(self._order) == self._placed or not isinstance(self._order[-1], _StoredCalls):
            self._order.append(_StoredCalls())
        group = self._order[-1]
        if isinstance(group, _StoredCalls):
            group.ids.append(item.id)

    def _read_records(self, cursor: RecordCursor[ToolCallRecord]) -> Iterator[ToolCallRecord]:
        """Read new records; yield those of calls that this bridge did not request."""
        has_changed, records = cursor.read()
        if has_changed:
            self._is_outdated = True
            self._calls_present.clear()
        for record in records:
            self.call_ids.add(record.id)
            self._calls_present[record.id] += 1
            self._unused[record.id].append(record)
            self._is_outdated = self._is_outdated or record.id in self._unanswered
            if self._calls_present[record.id] > self._calls_seen[record.id]:
                self._calls_seen[record.id] += 1
                yield record


class _SeenMessages:
    """The messages of a conversation by key: the id, or the position if there is none; repeated ids get a suffix."""

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}
        self._mappings: dict[str, Mapping[str, object]] = {}
        """Messages that were given as mappings, which middleware may change in place."""
        self._counts: dict[str, int] = defaultdict(int)
        self._latest = _LONG_AGO

    def get(self, key: str) -> Message | None:
        """Return the message with this key."""
        return self._messages.get(key)

    def read(self, given: Sequence[MessageLike]) -> Iterator[tuple[str, Message, datetime]]:
        """Add messages; yield each with its key and its time.

        A time is never before that of an earlier message. A last message without a time counts as now.
        """
        for place, each in enumerate(given, start=1):
            message, key = Message.of(each), self._build_key(each)
            self._messages[key] = message
            if isinstance(each, Mapping):
                self._mappings[key] = each
            if isinstance(each, Message) or (isinstance(each, Mapping) and "created_at" in each):
                self._latest = max(message.created_at, self._latest)
                yield key, message, self._latest
            else:
                is_last = place == len(given)
                yield key, message, max(message.created_at, self._latest) if is_last else self._latest

    def update_mappings(self) -> bool:
        """Read the messages that were given as mappings again; return whether one changed."""
        has_changed = False
        for key, mapping in self._mappings.items():
            message = Message.of(mapping)
            has_changed = has_changed or not _is_same_message(self._messages[key], message)
            self._messages[key] = message
        return has_changed

    def _build_key(self, given: object) -> str:
        message_id = getattr(given, "id", None)
        name = message_id if isinstance(message_id, str) else f"message {len(self._messages)}"
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name} again {self._counts[name]}"


def _save_item(item: "_ModelTurn | _StoredCalls | _SeenMessage") -> JsonObject:
    if isinstance(item, _SeenMessage):
        return {"message": item.id}
    if isinstance(item, _StoredCalls):
        return {"ids": item.ids}
    calls = [(call, call.args.decode() if isinstance(call.args, bytes) else call.args) for call in item.calls]
    return {"text": item.text, "calls": [[call.tool_call_id, call.name, args] for call, args in calls], "raw": item.raw}


def _with_timezone(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


async def _render_missing(call: Call, media_support: MediaSupport) -> RenderedResult:  # noqa: ARG001  the signature of a renderer
    return render_missing_result(call.tool_call_id, call.name)


def _is_same_message(one: Message, other: Message) -> bool:
    contents = [(each.role, each.content, each.identity, [*map(id, each.attachments)]) for each in (one, other)]
    return contents[0] == contents[1]


async def _render_step(message: Message, media_support: MediaSupport) -> MessageStep:
    attached = await render_media(message.attachments, media_support, tool=message.identity or message.role)
    if message.role == "tool":
        # The call it belongs to is unknown, so it is shown as untrusted text.
        text = fence(message.content, trusted=False, kind="tool-result", tool=message.identity)
        return MessageStep("user", (TextPart(text), *attached))
    text_parts = (TextPart(message.content),) if message.content else ()
    return MessageStep(message.role, (*text_parts, *attached))
