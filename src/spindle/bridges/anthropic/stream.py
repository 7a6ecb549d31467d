"""Assembles a response of Anthropic's Messages API, and keeps it in the form the API requires back."""

from collections.abc import Collection, Sequence
from typing import Final

from spindle.bridges.definitions import Definitions
from spindle.bridges.partial_calls import CallIds, PartialCall, format_input, format_name
from spindle.bridges.provider import ModelResponse, ResponseDelta
from spindle.bridges.provider_limits import ANTHROPIC
from spindle.bridges.wire import get_count, get_field, get_list, get_str, to_plain
from spindle.calls import Call
from spindle.errors import ModelStoppedError
from spindle.json_types import JsonObject, is_object


def parse_usage(usage: object) -> dict[str, int] | None:
    """Return the token counts; cached tokens, which the API counts separately, are included in `input_tokens`."""
    fresh, outputs = get_count(usage, "input_tokens"), get_count(usage, "output_tokens")
    if fresh is None and outputs is None:
        return None
    read = get_count(usage, "cache_read_input_tokens")
    written = get_count(usage, "cache_creation_input_tokens")
    inputs = (fresh or 0) + (read or 0) + (written or 0)
    figures = {"input_tokens": inputs, "output_tokens": outputs or 0}
    thought = get_count(get_field(usage, "output_tokens_details"), "thinking_tokens")
    apart = {"cached_input_tokens": read, "cache_write_tokens": written, "reasoning_tokens": thought}
    figures |= {name: count for name, count in apart.items() if count is not None}
    return figures | {"total_tokens": inputs + (outputs or 0)}


def add_usage(first: dict[str, int] | None, second: dict[str, int] | None) -> dict[str, int] | None:
    """Add the token counts of two requests."""
    if first is None or second is None:
        return first or second
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


_WHOLE: Final = frozenset({"end_turn", "tool_use", "stop_sequence", "pause_turn"})
"""Finish reasons of a complete response; any other may have cut off a call."""
_CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
_WITH_INPUT: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_TEXTS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Delta types, and the block field of the same name that each one extends."""
UNREADABLE: Final = "INVALID_JSON"
"""The key under which the API's guide requires unparseable arguments back."""
_KINDS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}


class _MessageBlock:
    """One content block while its deltas arrive."""

    __slots__ = ("call", "data", "is_done", "kind", "texts")

    def __init__(self, data: JsonObject, ids: CallIds) -> None:
        self.data = data
        self.kind = get_str(data, "type")
        self.is_done = False
        self.texts: dict[str, list[str]] = {
            name: [get_str(data, name)] for name in ("text", "thinking", "signature") if isinstance(data.get(name), str)
        }
        is_call = self.kind in _WITH_INPUT
        self.call = PartialCall(get_str(data, "id"), get_str(data, "name"), ids=ids) if is_call else None

    def text(self, name: str) -> str:
        return "".join(self.texts.get(name, ()))

    @property
    def input(self) -> JsonObject:
        """The arguments of a call as an object."""
        started = self.data.get("input")
        if self.call is not None and self.call.text:
            return format_input(self.call.text, unreadable=UNREADABLE)
        return started if is_object(started) else {}

    def to_input(self) -> JsonObject | None:
        """Return the block as sent back to the API; `None` if the API would reject it."""
        data = self.data | {name: "".join(parts) for name, parts in self.texts.items()}
        if self.kind == "text":
            return data if get_str(data, "text").strip() else None
        if self.call is not None:
            name = self.call.name if self.kind != "tool_use" else format_name(self.call.name, ANTHROPIC)
            return data | {"id": self.call.id, "name": name, "input": self.input}
        # An unfinished thought has no valid signature.
        return data if self.is_done or self.kind != "thinking" else None


class Stream:
    """Assembles one response, streamed or not; continues across pauses for the API's own tools."""

    def __init__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> None:
        self.finish_reason: str | None = None
        self._definitions = definitions
        self._blocks: list[_MessageBlock] = []
        self._by_index: dict[int, _MessageBlock] = {}
        self._ids = CallIds(taken)
        self._counted: JsonObject = {}
        self._counted_before: dict[str, int] | None = None
        self._has_ended = False
        self._has_failed = False

    def feed(self, event: object) -> Sequence[ResponseDelta]:
        """Process one event of the stream and return its deltas."""
        kind = get_str(event, "type")
        if kind == "content_block_delta":
            return self._continue(event)
        if kind == "content_block_start":
            return self._begin(event)
        if kind == "content_block_stop":
            block = self._at(event)
            if block is not None:
                block.is_done = True
        elif kind == "message_delta":
            self.finish_reason = get_str(get_field(event, "delta"), "stop_reason") or self.finish_reason
            self._count(get_field(event, "usage"))
        elif kind == "message_start":
            self._restart(get_field(event, "message"))
        elif kind == "message_stop":
            self._has_ended = True
        elif kind == "error":
            self._has_failed = True
        return ()

    def feed_response(self, response: object) -> None:
        """Process a response that was not streamed."""
        self._restart(response)
        for content in get_list(response, "content"):
            data = to_plain(content)
            if get_str(data, "type"):
                self._add(data).is_done = True
        self.finish_reason = get_str(response, "stop_reason") or None
        self._has_ended = True

    @property
    def text(self) -> str:
        """The model's text so far."""
        return "".join(block.text("text") for block in self._blocks if block.kind == "text")

    @property
    def thoughts(self) -> str:
        """The model's visible thoughts so far."""
        return "".join(block.text("thinking") for block in self._blocks)

    @property
    def usage(self) -> dict[str, int] | None:
        """The token counts; `input_tokens` includes cached tokens."""
        return add_usage(self._counted_before, parse_usage(self._counted))

    @property
    def is_complete(self) -> bool:
        """Whether the provider has signalled the end of the response."""
        return (self._has_ended or self.finish_reason is not None) and not self._has_failed

    @property
    def raw(self) -> list[JsonObject]:
        """The content as sent back to the API: thoughts with their signatures, blocks of other tools, calls."""
        return [data for data in (block.to_input() for block in self._blocks) if data is not None]

    def calls(self) -> list[Call]:
        """Return the calls so far; a call that was cut off gets arguments that executors reject."""
        ours = [(block, block.call) for block in self._blocks if block.kind == "tool_use"]
        return [self._call(block, call) for block, call in ours if call is not None]

    def build_response(self) -> ModelResponse:
        """Return the complete response.

        Raises:
            ModelStoppedError: The model refused, or stopped without text or calls.
        """
        calls, text = self.calls(), self.text or None
        reason = self.finish_reason
        if reason == "refusal" or (reason in _CUT and not calls and not text):
            raise ModelStoppedError(f"the model stopped without a response: {reason}", reason=reason, text=self.text)
        return ModelResponse(
            text=text,
            calls=calls,
            usage=self.usage,
            finish_reason=reason,
            raw=self.raw,
            is_truncated=reason in _CUT,
        )

    def _call(self, block: _MessageBlock, call: PartialCall) -> Call:
        is_last = block is self._blocks[-1]
        # The API also closes a block that it cut off, so the finish reason decides about the last block.
        is_whole = block.is_done and (not is_last or self.finish_reason in _WHOLE)
        if is_whole and not call.text and not call.is_damaged:
            # Without deltas, the block's start holds all arguments.
            call.add(block.data.get("input", {}))
        return call.to_call(self._definitions, is_whole=is_whole)

    def _restart(self, message: object) -> None:
        self._counted_before, self._counted = self.usage, {}
        self._by_index.clear()
        self.finish_reason, self._has_ended = None, False
        self._count(get_field(message, "usage"))

    def _count(self, usage: object) -> None:
        figures = to_plain(usage)
        if is_object(figures):
            # Counts are cumulative, and unchanged ones may be omitted.
            self._counted |= {name: value for name, value in figures.items() if value is not None}

    def _add(self, data: JsonObject) -> _MessageBlock:
        block = _MessageBlock(data, self._ids)
        self._blocks.append(block)
        return block

    def _begin(self, event: object) -> Sequence[ResponseDelta]:
        index, data = get_count(event, "index"), to_plain(get_field(event, "content_block"))
        if not get_str(data, "type"):
            return ()
        block = self._add(data)
        if index is not None:
            self._by_index[index] = block
        if block.call is not None and block.kind == "tool_use":
            return (block.call.to_delta("", self._definitions),)
        text = block.text("text")
        return (ResponseDelta("text", text),) if text else ()

    def _continue(self, event: object) -> Sequence[ResponseDelta]:
        block, delta = self._at(event), get_field(event, "delta")
        kind = get_str(delta, "type")
        if block is None:
            if kind == "input_json_delta":
                self._mark_damaged()
            return ()
        if block.call is not None:
            return self._continue_call(block, block.call, delta, kind)
        if kind == "citations_delta":
            block.data["citations"] = [*get_list(block.data, "citations"), to_plain(get_field(delta, "citation"))]
        field = _TEXTS.get(kind, "")
        text = get_str(delta, field)
        if not text or block.is_done or block.kind != _KINDS[kind]:
            return ()
        block.texts.setdefault(field, []).append(text)
        if field == "signature":
            return ()
        return (ResponseDelta("text" if field == "text" else "thought", text),)

    def _continue_call(
        self, block: _MessageBlock, call: PartialCall, delta: object, kind: str
    ) -> Sequence[ResponseDelta]:
        given = get_field(delta, "partial_json")
        if kind != "input_json_delta" or not isinstance(given, str) or (block.is_done and given):
            # An invalid delta, or one after the end: the arguments may look complete but are not.
            call.is_damaged = True
            return ()
        piece = call.add(given)
        return (call.to_delta(piece, self._definitions),) if block.kind == "tool_use" else ()

    def _at(self, event: object) -> _MessageBlock | None:
        index = get_count(event, "index")
        return None if index is None else self._by_index.get(index)

    def _mark_damaged(self) -> None:
        """Mark all open calls as damaged: a delta could not be assigned, and any of them may lack it."""
        for block in self._blocks:
            if block.call is not None and not block.is_done:
                block.call.is_damaged = True
