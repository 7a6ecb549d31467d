"""The conversation of a dispatch as a list of steps, independent of the dialect.

Responses of the model are kept as received, because providers require their own blocks back: thinking with its
signature, reasoning items, call ids. Everything else is read from the context each time, so that middleware may change
it. Rendered steps are cached: each fence has a random tag, and a provider can only cache a conversation whose beginning
does not change.
"""

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
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
from spindle.trust.envelope import fence
from spindle.turns.context import DispatchContext
from spindle.turns.record_types import Message


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
    raw: Any = None
    """The response in the provider's own form if this bridge received it; otherwise it is rebuilt from the calls."""


Step: TypeAlias = MessageStep | ToolStep

_Source = TypeVar("_Source")
_Rendered = TypeVar("_Rendered")

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class _ModelTurn:
    text: str | None
    calls: tuple[Call, ...]
    raw: Any


@dataclass(slots=True)
class _StoredCalls:
    """Records of calls this bridge did not request: from an earlier turn, or stored by middleware."""

    ids: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _SeenMessage:
    id: str


class Transcript:
    """The conversation of one dispatch; each dispatch has its own."""

    def __init__(self) -> None:
        self._order: list[_ModelTurn | _StoredCalls | _SeenMessage] = []
        self._seen: set[str] = set()
        self._calls_seen: dict[str, int] = defaultdict(int)
        self._last_text: str | None = None
        self._rendered_messages: dict[str, tuple[Message, MessageStep]] = {}
        self._rendered: dict[int, tuple[object, Any]] = {}
        """By `id()` of the source object, which is kept alive by the entry."""

    def add_response(self, *, text: str | None, calls: Sequence[Call], raw: Any) -> None:
        """Store the model's response of this iteration."""
        self._last_text = text
        if calls:
            self._order.append(_ModelTurn(text, tuple(calls), raw))
            for call in calls:
                self._calls_seen[call.tool_call_id] += 1

    @property
    def call_ids(self) -> set[str]:
        """The ids of all calls requested so far, with or without a record."""
        return {call.tool_call_id for item in self._order if isinstance(item, _ModelTurn) for call in item.calls}

    async def build_steps(self, ctx: DispatchContext, media_support: MediaSupport) -> list[Step]:
        """Return the conversation up to now."""
        messages = dict(_iterate_messages(ctx.messages))
        self._append_new(ctx, messages)
        records: dict[str, deque[ToolCallRecord]] = defaultdict(deque)
        for record in ctx.tool_calls:
            records[record.id].append(record)
        steps: list[Step] = []
        for item in self._order:
            if isinstance(item, _SeenMessage):
                message = messages.get(item.id)
                if message is not None:
                    steps.append(await self._render_message(item.id, message, media_support))
            elif isinstance(item, _ModelTurn):
                answers = [
                    await self._render_call(call, records[call.tool_call_id], media_support) for call in item.calls
                ]
                steps.append(ToolStep(item.text, item.calls, tuple(answers), item.raw))
            else:
                kept = [records[name].popleft() for name in item.ids if records[name]]
                answers = [await self._render_once(record, render_recorded_result, media_support) for record in kept]
                calls = tuple(Call(record.id, record.tool, record.args) for record in kept)
                if calls:
                    steps.append(ToolStep(None, calls, tuple(answers)))
        return steps

    async def _render_call(
        self, call: Call, records: deque[ToolCallRecord], media_support: MediaSupport
    ) -> RenderedResult:
        if records:
            return await self._render_once(records.popleft(), render_recorded_result, media_support)
        return await self._render_once(call, _render_missing, media_support)

    async def _render_message(self, name: str, message: Message, media_support: MediaSupport) -> MessageStep:
        """Render a message, reusing the cached step while the content is unchanged."""
        before = self._rendered_messages.get(name)
        if before is None or not _is_same_message(before[0], message):
            before = self._rendered_messages[name] = (message, await _render_step(message, media_support))
        return before[1]

    async def _render_once(
        self,
        made_of: _Source,
        render: Callable[[_Source, MediaSupport], Awaitable[_Rendered]],
        media_support: MediaSupport,
    ) -> _Rendered:
        found = self._rendered.get(id(made_of))
        if found is None:
            found = self._rendered[id(made_of)] = (made_of, await render(made_of, media_support))
        return found[1]

    def _append_new(self, ctx: DispatchContext, messages: dict[str, Message]) -> None:
        """Append messages and records that appeared since the last iteration, ordered by time."""
        news: list[tuple[datetime, _SeenMessage | ToolCallRecord]] = []
        times = _get_message_times(ctx.messages, messages.values())
        for (key, message), time in zip(messages.items(), times, strict=True):
            if key in self._seen:
                continue
            self._seen.add(key)
            # The loop stores the model's text as a message too; here it is already part of the step with its calls.
            own, last = self._last_text, self._order[-1] if self._order else None
            if own and message.role == "assistant" and message.content == own and isinstance(last, _ModelTurn):
                self._last_text = None
                continue
            news.append((time, _SeenMessage(key)))
        news += [(_with_timezone(record.created_at), record) for record in self._new_records(ctx)]
        # The sort is stable: messages keep their order, and records follow messages of the same time.
        for _, item in sorted(news, key=lambda pair: pair[0]):
            if isinstance(item, _SeenMessage):
                self._order.append(item)
            else:
                last = self._order[-1] if self._order else None
                stored = last if isinstance(last, _StoredCalls) else _StoredCalls()
                if stored is not last:
                    self._order.append(stored)
                stored.ids.append(item.id)

    def _new_records(self, ctx: DispatchContext) -> Iterator[ToolCallRecord]:
        present: dict[str, int] = defaultdict(int)
        for record in ctx.tool_calls:
            present[record.id] += 1
            if present[record.id] > self._calls_seen[record.id]:
                self._calls_seen[record.id] += 1
                yield record


def _get_message_times(given: Sequence[Any], messages: Iterable[Message]) -> list[datetime]:
    """Return the time of each message: never before its predecessor; a last message without a time counts as now."""
    times: list[datetime] = []
    for position, (each, message) in enumerate(zip(given, messages, strict=True), start=1):
        is_known = isinstance(each, Message) or (isinstance(each, Mapping) and "created_at" in each)
        time = message.created_at if is_known or position == len(given) else _LONG_AGO
        times.append(max(time, times[-1]) if times else time)
    return times


def _with_timezone(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _iterate_messages(given: Sequence[Any]) -> Iterator[tuple[str, Message]]:
    """Yield each message with its id, or its position if it has none; repeated ids get a suffix."""
    known: dict[str, int] = defaultdict(int)
    for position, each in enumerate(given):
        message_id = getattr(each, "id", None)
        name = message_id if isinstance(message_id, str) else f"message {position}"
        known[name] += 1
        yield name if known[name] == 1 else f"{name} again {known[name]}", Message.of(each)


async def _render_missing(call: Call, media_support: MediaSupport) -> RenderedResult:  # noqa: ARG001  the signature of a renderer
    return render_missing_result(call.tool_call_id, call.name)


def _is_same_message(one: Message, other: Message) -> bool:
    told = [(each.role, each.content, each.identity, [*map(id, each.attachments)]) for each in (one, other)]
    return told[0] == told[1]


async def _render_step(message: Message, media_support: MediaSupport) -> MessageStep:
    attached = await render_media(
        message.attachments, media_support, tool=message.identity or message.role, trusted=False
    )
    if message.role == "tool":
        # The call it belongs to is unknown, so it is shown as untrusted text.
        text = fence(message.content, trusted=False, kind="tool-result", tool=message.identity)
        return MessageStep("user", (TextPart(text), *attached))
    text_parts = (TextPart(message.content),) if message.content else ()
    return MessageStep(message.role, (*text_parts, *attached))
