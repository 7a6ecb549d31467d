"""Assembles a response of Bedrock's Converse, and keeps it in the form the API requires back."""

from collections.abc import Collection, Sequence
from typing import Final

from spindle.bridges.definitions import Definitions
from spindle.bridges.partial_calls import CallIds, PartialCall, format_input, format_name
from spindle.bridges.provider import ModelResponse, ResponseDelta
from spindle.bridges.provider_limits import BEDROCK, fit_name
from spindle.bridges.wire import get_count, get_field, get_list, get_str, is_mapping
from spindle.calls import Call
from spindle.errors import ModelStoppedError
from spindle.json_types import JsonObject

_WHOLE: Final = frozenset({"end_turn", "tool_use", "stop_sequence"})
"""Finish reasons of a complete response; any other may have cut off the last call."""
_CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
_SENT_BACK: Final = frozenset({"citationsContent", "toolResult"})
"""Other blocks accepted in an assistant message; images, for example, are accepted from the user only."""
_COUNTED: Final = {"cached_input_tokens": "cacheReadInputTokens", "cache_write_tokens": "cacheWriteInputTokens"}


def wire_id(tool_call_id: str) -> str:
    """Return a call id in the form Converse accepts; ids of other providers may have to be changed."""
    return fit_name(tool_call_id, BEDROCK.id_pattern or ".+", BEDROCK.max_id_chars or len(tool_call_id))


class _ConverseBlock:
    """One content block while its deltas arrive."""

    __slots__ = ("call", "is_done", "is_ours", "other", "redacted", "signature", "text", "thought")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.thought: list[str] = []
        self.signature: list[str] = []
        self.redacted = b""
        self.call: PartialCall | None = None
        self.is_ours = False
        """Whether the call is for one of our tools, not for one that the provider runs itself."""
        self.other: JsonObject | None = None
        """Any other block, as received."""
        self.is_done = False

    def begin_call(self, tool_use: object, ids: CallIds) -> PartialCall:
        self.call = PartialCall(get_str(tool_use, "toolUseId"), get_str(tool_use, "name"), ids=ids)
        self.is_ours = get_str(tool_use, "type") != "server_tool_use"
        return self.call

    def finish(self) -> None:
        """Mark the block complete; a call without input deltas has no arguments."""
        self.is_done = True
        if self.call is not None and not self.call.text and not self.call.is_damaged:
            self.call.add({})

    def to_input(self) -> JsonObject | None:
        """Return the block as sent back to the API; `None` if the API would reject it."""
        if self.call is not None:
            name = format_name(self.call.name, BEDROCK)
            written = {"toolUseId": wire_id(self.call.id), "name": name, "input": format_input(self.call.text)}
            return {"toolUse": written | ({} if self.is_ours else {"type": "server_tool_use"})}
        if self.redacted:
            return {"reasoningContent": {"redactedContent": self.redacted}}
        if self.thought or self.signature:
            # An unfinished thought has no valid signature.
            signature = {"signature": "".join(self.signature)} if self.signature else {}
            reasoning = {"reasoningText": {"text": "".join(self.thought), **signature}}
            return {"reasoningContent": reasoning} if self.is_done else None
        if self.other is not None:
            return self.other
        text = "".join(self.text)
        return {"text": text} if text.strip() else None


class Stream:
    """Assembles one response, streamed or not."""

    def __init__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> None:
        self.finish_reason: str | None = None
        self.usage: dict[str, int] | None = None
        """The token counts; `input_tokens` includes cached tokens."""
        self._definitions = definitions
        self._blocks: list[_ConverseBlock] = []
        self._by_index: dict[int, _ConverseBlock] = {}
        self._ids = CallIds(taken)

    def feed(self, event: object) -> Sequence[ResponseDelta]:
        """Process one event of the stream and return its deltas."""
        if (delta := get_field(event, "contentBlockDelta")) is not None:
            return self._continue(self._at(delta), get_field(delta, "delta"))
        if (start := get_field(event, "contentBlockStart")) is not None:
            return self._begin(start)
        if (stop := get_field(event, "contentBlockStop")) is not None:
            self._at(stop).finish()
        elif (end := get_field(event, "messageStop")) is not None:
            self.finish_reason = get_str(end, "stopReason") or "end_turn"
        elif (metadata := get_field(event, "metadata")) is not None:
            self.usage = _usage(get_field(metadata, "usage")) or self.usage
        return ()

    def feed_response(self, response: object) -> None:
        """Process a response that was not streamed."""
        message = get_field(get_field(response, "output"), "message")
        for content in get_list(message, "content"):
            self._blocks.append(self._whole(content))
        self.finish_reason = get_str(response, "stopReason") or "end_turn"
        self.usage = _usage(get_field(response, "usage"))
        last = self._blocks[-1].call if self._blocks else None
        if last is not None and self.finish_reason not in _WHOLE:
            # The API closes input that it had to cut off, so it only looks complete.
            last.is_damaged = True

    @property
    def text(self) -> str:
        """The model's text so far."""
        return "".join("".join(block.text) for block in self._blocks)

    @property
    def is_complete(self) -> bool:
        """Whether the provider has signalled the end of the response."""
        return self.finish_reason is not None

    @property
    def raw(self) -> list[JsonObject]:
        """The content as sent back to the API: thoughts with their signatures, text, calls."""
        return [block for block in (each.to_input() for each in self._blocks) if block is not None]

    def calls(self) -> list[Call]:
        """Return the calls so far; a call that was cut off gets arguments that executors reject."""
        return [self._call(block, block.call) for block in self._blocks if block.call is not None and block.is_ours]

    def build_response(self) -> ModelResponse:
        """Return the complete response.

        Raises:
            ModelStoppedError: The model stopped without text or calls.
        """
        calls, text, reason = self.calls(), self.text or None, self.finish_reason
        if reason not in _WHOLE and not calls and not text:
            raise ModelStoppedError(f"the model stopped without a response: {reason}", reason=reason, text="")
        is_cut = reason not in _WHOLE
        return ModelResponse(
            text=text, calls=calls, usage=self.usage, finish_reason=reason, raw=self.raw or None, is_truncated=is_cut
        )

    def _call(self, block: _ConverseBlock, call: PartialCall) -> Call:
        # The API also closes a block that it cut off, so the finish reason decides about the last block.
        is_whole = block.is_done and (block is not self._blocks[-1] or self.finish_reason in _WHOLE)
        if self.finish_reason not in {None, *_WHOLE, *_CUT}:
            # The response was filtered or is malformed: run none of its calls.
            call.is_damaged = True
        if not is_whole and call.text == "{}" and not call.is_damaged:
            return PartialCall(call.id, call.name).to_call(self._definitions, is_whole=False)
        return call.to_call(self._definitions, is_whole=is_whole)

    def _at(self, event: object) -> _ConverseBlock:
        """Return the block of an event, creating it if needed: text and thoughts have no start event."""
        index = _index(event)
        if index not in self._by_index:
            self._by_index[index] = _ConverseBlock()
            self._blocks.append(self._by_index[index])
        return self._by_index[index]

    def _begin(self, event: object) -> Sequence[ResponseDelta]:
        start = get_field(event, "start")
        if (tool_use := get_field(start, "toolUse")) is not None:
            # A second start is a new block, even with the same index: nothing is overwritten.
            self._by_index.pop(_index(event), None)
            block = self._at(event)
            block.begin_call(tool_use, self._ids)
            return self._piece(block, "")
        result = get_field(start, "toolResult")
        if is_mapping(result):
            self._at(event).other = {"toolResult": {**result, "content": []}}
        return ()

    def _continue(self, block: _ConverseBlock, delta: object) -> Sequence[ResponseDelta]:
        if block.call is not None:
            given = get_field(get_field(delta, "toolUse"), "input")
            if not isinstance(given, str) or (block.is_done and given):
                # An invalid delta, or one after the end: the arguments may look complete but are not.
                block.call.is_damaged = True
                return ()
            return self._piece(block, block.call.add(given))
        if (text := get_str(delta, "text")) and not block.is_done:
            block.text.append(text)
            return (ResponseDelta("text", text),)
        if get_field(delta, "toolUse") is not None:
            # The start event was lost, and with it the name.
            block.begin_call({}, self._ids)
            return self._continue(block, delta)
        if block.other is not None:
            block.other["toolResult"]["content"] += get_list(delta, "toolResult")
        return _think(block, get_field(delta, "reasoningContent"))

    def _piece(self, block: _ConverseBlock, piece: str) -> Sequence[ResponseDelta]:
        call = block.call
        if call is None or not block.is_ours:
            return ()
        return (call.to_delta(piece, self._definitions),)

    def _whole(self, content: object) -> _ConverseBlock:
        block = _ConverseBlock()
        reasoning = get_field(content, "reasoningContent")
        if (tool_use := get_field(content, "toolUse")) is not None:
            block.begin_call(tool_use, self._ids).add(get_field(tool_use, "input"))
        elif reasoning is not None:
            _think(block, get_field(reasoning, "reasoningText"))
            _think(block, reasoning)  # redacted content is beside the text, not inside it
        elif text := get_str(content, "text"):
            block.text.append(text)
        elif is_mapping(content) and _SENT_BACK.intersection(content):
            block.other = dict(content)
            cited = get_list(get_field(content, "citationsContent"), "content")
            block.text += [get_str(each, "text") for each in cited]
        block.finish()
        return block


def _index(event: object) -> int:
    index = get_count(event, "contentBlockIndex")
    return -1 if index is None else index


def _think(block: _ConverseBlock, reasoning: object) -> Sequence[ResponseDelta]:
    redacted = get_field(reasoning, "redactedContent")
    if isinstance(redacted, bytes):
        block.redacted += redacted
    if signature := get_str(reasoning, "signature"):
        block.signature.append(signature)
    if thought := get_str(reasoning, "text"):
        block.thought.append(thought)
        return (ResponseDelta("thought", thought),)
    return ()


def _usage(usage: object) -> dict[str, int] | None:
    """Return the token counts; cached tokens, which the API counts separately, are included in `input_tokens`."""
    fresh, outputs = get_count(usage, "inputTokens"), get_count(usage, "outputTokens")
    if fresh is None and outputs is None:
        return None
    apart = {name: count for name, theirs in _COUNTED.items() if (count := get_count(usage, theirs)) is not None}
    inputs = (fresh or 0) + sum(apart.values())
    figures = {"input_tokens": inputs, "output_tokens": outputs or 0, **apart}
    return figures | {"total_tokens": inputs + (outputs or 0)}
