"""One item of an answer of the Responses API, while it is being written and as it is sent back."""

from typing import Any, Final

from spindle.bridges.definitions import Definitions
from spindle.bridges.limits import OPENAI_RESPONSES
from spindle.bridges.partial_calls import CallIds, PartialCall, repeated, repeated_name
from spindle.bridges.reading import field_of, items_of, plain, text_of
from spindle.calls import Call

_INPUTS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""The items that are calls, and where each has what it is called with."""


class Item:
    """A message, a call, a piece of reasoning, or anything else a model gave."""

    def __init__(self, index: int | None, item: Any, *, ids: CallIds, is_done: bool = False) -> None:
        self.index = index
        self._ids = ids
        self.said: list[str] = []
        self.refused: list[str] = []
        self.call: PartialCall | None = None
        self.is_done = False
        self.read(item, is_done=is_done)

    def read(self, item: Any, *, is_done: bool) -> None:
        """Take the item as the provider has it, in the place of what was known of it."""
        kind = text_of(item, "type")
        self.item, self.id = item, text_of(item, "id")
        self.is_done = is_done and text_of(item, "status") in {"", "completed"}
        if kind in _INPUTS:
            self._read_call(item, kind)
        elif kind == "message" and is_done:
            parts = items_of(item, "content")
            self.said = [text_of(part, "text") for part in parts]
            self.refused = [text_of(part, "refusal") for part in parts]

    def _read_call(self, item: Any, kind: str) -> None:
        self.call = self.call or PartialCall(text_of(item, "call_id"), ids=self._ids)
        self.call.identify(text_of(item, "call_id"))
        self.call.name = text_of(item, "name")
        self.call.is_custom = kind == "custom_tool_call"
        self.call.replace(field_of(item, _INPUTS[kind]))

    @property
    def text(self) -> str:
        """What a message says, or why it says nothing."""
        return "".join(self.said) or "".join(self.refused)

    def to_call(self, definitions: Definitions | None) -> Call | None:
        """Give the call this item is, if it is one."""
        if self.call is None:
            return None
        # What looks whole and is said not to be is not run either.
        self.call.is_damaged = self.call.is_damaged or text_of(self.item, "status") == "incomplete"
        return self.call.to_call(definitions, is_whole=self.is_done)

    def to_input(self) -> dict[str, Any] | None:
        """Give the item as the next request repeats it; `None` for one that was only begun."""
        call, is_begun = self.call, not self.is_done and text_of(self.item, "status") != "incomplete"
        if not text_of(self.item, "type") or (call is None and is_begun):
            return None
        kept = {name: value for name, value in plain(self.item).items() if value is not None}
        if call is None:
            return kept
        kept |= {"call_id": call.id, "name": repeated_name(call.name, OPENAI_RESPONSES)}
        return kept | ({"input": call.text} if call.is_custom else {"arguments": repeated(call.text)})
