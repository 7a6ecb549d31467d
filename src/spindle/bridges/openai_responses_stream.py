"""Puts a streamed answer of the Responses API together."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from spindle.bridges.definitions import Definitions
from spindle.bridges.openai_responses_items import Item
from spindle.bridges.openai_usage import usage_of
from spindle.bridges.partial_calls import CallIds
from spindle.bridges.provider import Answered, Piece
from spindle.bridges.reading import count_of, field_of, is_record, items_of, text_of
from spindle.calls import Call
from spindle.errors import ModelStoppedError

_THOUGHTS: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ARGUMENTS: Final = frozenset({"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"})
_ALL_ARGUMENTS: Final = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}
_WORDS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})


class Stream:
    """One answer, as it comes in."""

    def __init__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> None:
        self.usage: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self._definitions = definitions
        self._ids = CallIds(taken)
        self._items: list[Item] = []
        self._latest: Item | None = None
        """Pieces of one item mostly come in a row."""

    def feed(self, event: Any) -> Sequence[Piece]:
        """Take one event of the stream, and give what is new in it; kinds that are not known say nothing."""
        kind = text_of(event, "type")
        if kind in _ARGUMENTS:
            return self._take_arguments(event)
        if kind in _WORDS:
            return self._take_words(event, is_refusal=kind == "response.refusal.delta")
        if kind in _THOUGHTS:
            thought = text_of(event, "delta")
            return [Piece("thought", thought)] if thought else ()
        if kind in _ALL_ARGUMENTS:
            item = self._item(event)
            if item is not None and item.call is not None:
                item.call.replace(field_of(event, _ALL_ARGUMENTS[kind]))
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            return self._take_item(event, is_done=kind.endswith("done"))
        elif kind in _ENDS:
            self.feed_whole(field_of(event, "response"))
        return ()

    def feed_whole(self, response: Any) -> None:
        """Take an answer as a whole; its items are the last word."""
        self.usage = usage_of(field_of(response, "usage")) or self.usage
        items = [each for each in items_of(response, "output") if is_record(each)]
        status = text_of(response, "status")
        if items:
            self._items, self._latest = [self._finished(index, item) for index, item in enumerate(items)], None
            last = self._items[-1]
            if status == "incomplete" and last.call is not None and text_of(last.item, "status") != "completed":
                # Where an answer was cut, its last call is whole only by its own word.
                last.is_done = False
        if status == "incomplete":
            self.finish_reason = text_of(field_of(response, "incomplete_details"), "reason") or status
        elif status in {"", "completed"} and is_record(response):
            self.finish_reason = "completed"

    @property
    def text(self) -> str:
        """What the model said so far, or why it would not."""
        return "\n\n".join(filter(None, [item.text for item in self._items]))

    @property
    def is_complete(self) -> bool:
        """Whether the provider said that this is the end."""
        return self.finish_reason is not None

    def calls(self) -> list[Call]:
        """Give the calls so far; one that was cut short has arguments that are refused."""
        found = [item.to_call(self._definitions) for item in self._ordered()]
        return [call for call in found if call is not None]

    def answered(self) -> Answered:
        """Give the whole answer.

        Raises:
            ModelStoppedError: It was stopped before it said anything.
        """
        calls, text, reason = self.calls(), self.text, self.finish_reason
        if reason not in {None, "completed"} and not text and not calls:
            raise ModelStoppedError(f"the model stopped without an answer: {reason}", reason=reason)
        repeated = [item.to_input() for item in self._ordered()]
        return Answered(
            text=text or None,
            calls=calls,
            usage=self.usage,
            finish_reason=reason,
            raw=[each for each in repeated if each is not None],
            is_cut=reason != "completed",
        )

    def _ordered(self) -> list[Item]:
        """Items that never said where they stand come last, in the order they came."""
        return sorted(self._items, key=lambda item: (item.index is None, item.index or 0))

    def _finished(self, index: int, item: Any) -> Item:
        known = next((each for each in self._items if each.id and each.id == text_of(item, "id")), None)
        if known is None:
            return Item(index, item, ids=self._ids, is_done=True)
        known.index = index
        known.read(item, is_done=True)
        return known

    def _item(self, event: Any) -> Item | None:
        """Find the item an event is about: by its id, which some servers leave out, or by its place."""
        item_id, latest = text_of(event, "item_id"), self._latest
        if latest is None or not item_id or latest.id != item_id:
            self._latest = latest = self._known(item_id, count_of(event, "output_index"))
        return latest

    def _known(self, item_id: str, index: int | None) -> Item | None:
        by_id = next((item for item in self._items if item_id and item.id == item_id), None)
        if by_id is not None or index is None:
            return by_id
        return next((item for item in self._items if item.index == index and not (item_id and item.id)), None)

    def _take_item(self, event: Any, *, is_done: bool) -> Sequence[Piece]:
        given, index = field_of(event, "item"), count_of(event, "output_index")
        if not is_record(given):
            return ()
        item = self._known(text_of(given, "id"), index)
        if item is None:
            item = Item(index, given, ids=self._ids, is_done=is_done)
            self._items.append(item)
        else:
            item.read(given, is_done=is_done)
        # What an item that is done says was told piece by piece.
        return () if is_done or item.call is None else [item.call.piece("", self._definitions)]

    def _take_arguments(self, event: Any) -> Sequence[Piece]:
        item = self._item(event)
        if item is None or item.call is None:
            # It belongs to nobody: any call that is not done may lack it.
            for each in self._items:
                if each.call is not None and not each.is_done:
                    each.call.is_damaged = True
            return ()
        return [item.call.piece(item.call.add(field_of(event, "delta")), self._definitions)]

    def _take_words(self, event: Any, *, is_refusal: bool) -> Sequence[Piece]:
        words = text_of(event, "delta")
        if not words:
            return ()
        item = self._item(event)
        if item is None:
            begun = {"type": "message", "id": text_of(event, "item_id")}
            item = Item(count_of(event, "output_index"), begun, ids=self._ids)
            self._items.append(item)
        (item.refused if is_refusal else item.said).append(words)
        return [Piece("text", words)]
