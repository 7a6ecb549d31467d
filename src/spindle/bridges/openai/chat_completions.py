"""The dialect of OpenAI's Chat Completions: tool definitions, messages, results, and the response assembler."""

from collections.abc import Collection, Sequence
from typing import Final, Literal

from spindle.bridges import dialects
from spindle.bridges.conversation_writer import ConversationWriter
from spindle.bridges.definitions import Definitions, Spec
from spindle.bridges.partial_calls import CallIds, PartialCall, format_arguments, format_name
from spindle.bridges.provider import ModelApi, ModelResponse, ResponseDelta
from spindle.bridges.provider_limits import OPENAI_CHAT
from spindle.bridges.rendering import IMAGES, MediaPart, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import MessageStep, Step, ToolStep
from spindle.bridges.wire import as_list, get_count, get_field, get_list, get_str, is_record
from spindle.calls import Call
from spindle.errors import ModelStoppedError
from spindle.json_types import JsonObject


def parse_usage(usage: object) -> dict[str, int] | None:
    """Return the token counts of a response of either OpenAI API; `None` if there are none."""
    if usage is None:
        return None
    inputs, outputs = "prompt_tokens", "completion_tokens"
    if get_count(usage, inputs) is None and get_count(usage, outputs) is None:
        inputs, outputs = "input_tokens", "output_tokens"
    found = {
        "input_tokens": get_count(usage, inputs),
        "output_tokens": get_count(usage, outputs),
        "cached_input_tokens": get_count(get_field(usage, f"{inputs}_details"), "cached_tokens"),
        "reasoning_tokens": get_count(get_field(usage, f"{outputs}_details"), "reasoning_tokens"),
        "total_tokens": get_count(usage, "total_tokens"),
    }
    figures = {name: count for name, count in found.items() if count is not None}
    if "total_tokens" not in figures and {"input_tokens", "output_tokens"} <= figures.keys():
        figures["total_tokens"] = figures["input_tokens"] + figures["output_tokens"]
    return figures or None


_WHOLE: Final = frozenset({"stop", "tool_calls", "function_call"})
"""Finish reasons of a complete response; any other may have cut off a call."""
_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Fields in which servers other than OpenAI's send the model's thoughts."""


class Stream:
    """Assembles one response, streamed or not."""

    def __init__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> None:
        self.usage: dict[str, int] | None = None
        self.finish_reason: str | None = None
        self._definitions = definitions
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: dict[str, list[str]] = {}
        self._ids = CallIds(taken)
        self._calls: list[PartialCall] = []
        self._by_index: dict[int, PartialCall] = {}
        self._legacy: PartialCall | None = None

    def feed(self, event: object) -> Sequence[ResponseDelta]:
        """Process one chunk of the stream and return its deltas."""
        usage = get_field(event, "usage")
        if usage is not None:
            self.usage = parse_usage(usage) or self.usage
        pieces: list[ResponseDelta] = []
        for choice in get_list(event, "choices"):
            # A request may ask for several choices; only the first continues the conversation.
            index = get_field(choice, "index")
            if index is None or index == 0:
                self._take(get_field(choice, "delta"), pieces)
                self._end(choice)
        return pieces

    def feed_response(self, response: object) -> None:
        """Process a response that was not streamed."""
        self.usage = parse_usage(get_field(response, "usage"))
        for choice in get_list(response, "choices")[:1]:
            self._take(get_field(choice, "message"), [], is_whole=True)
            self._end(choice)

    @property
    def text(self) -> str:
        """The model's text so far, or its refusal."""
        return "".join(self._text) or "".join(self._refusal)

    @property
    def is_complete(self) -> bool:
        """Whether the provider has signalled the end of the response."""
        return self.finish_reason is not None

    def calls(self) -> list[Call]:
        """Return the calls so far; a call that was cut off gets arguments that executors reject."""
        is_whole = self.finish_reason in _WHOLE
        return [each.to_call(self._definitions, is_whole=is_whole) for each in self._begun_calls]

    @property
    def _begun_calls(self) -> Sequence[PartialCall]:
        """The calls by index (deltas may arrive out of order), or the legacy `function_call` if there are none."""
        if not self._calls and self._legacy is not None:
            return [self._legacy]
        places = [call.index for call in self._calls]
        return self._calls if None in places else sorted(self._calls, key=lambda call: call.index or 0)

    def build_response(self) -> ModelResponse:
        """Return the complete response.

        Raises:
            ModelStoppedError: The model stopped without text or calls.
        """
        calls, text, reason = self.calls(), self.text, self.finish_reason
        if reason is not None and reason not in _WHOLE and not text and not calls:
            raise ModelStoppedError(f"the model stopped without a response: {reason}", reason=reason)
        return ModelResponse(
            text=text or None,
            calls=calls,
            usage=self.usage,
            finish_reason=reason,
            raw=self._message(calls),
            is_truncated=reason not in _WHOLE,
        )

    def _message(self, calls: Sequence[Call]) -> JsonObject:
        # Never null: several servers reject that, or show the model the word "None" (see `server_quirks`).
        message: JsonObject = {"role": "assistant", "content": "".join(self._text)}
        if self._refusal:
            message["refusal"] = "".join(self._refusal)
        message |= {name: "".join(parts) for name, parts in self._thoughts.items()}
        if calls:
            message["tool_calls"] = [_repeat(each) for each in self._begun_calls]
        return message

    def _end(self, choice: object) -> None:
        self.finish_reason = get_str(choice, "finish_reason") or self.finish_reason

    def _take(self, delta: object, pieces: list[ResponseDelta], *, is_whole: bool = False) -> None:
        content = get_field(delta, "content")
        if content:
            self._append_text(content, pieces)
        for name in ("refusal", *_THOUGHTS):
            text = get_str(delta, name)
            if text:
                self._append_aside(name, text, pieces)
        for entry in get_list(delta, "tool_calls"):
            self._take_call(entry, pieces, is_whole=is_whole)
        legacy = get_field(delta, "function_call")
        if legacy is not None:
            self._take_legacy(legacy, pieces)

    def _append_text(self, content: object, pieces: list[ResponseDelta]) -> None:
        parts = [content] if isinstance(content, str) else [get_str(each, "text") for each in as_list(content)]
        for part in filter(None, parts):
            self._text.append(part)
            pieces.append(ResponseDelta("text", part))

    def _append_aside(self, name: str, text: str, pieces: list[ResponseDelta]) -> None:
        if name == "refusal":
            self._refusal.append(text)
            pieces.append(ResponseDelta("text", text))
            return
        self._thoughts.setdefault(name, []).append(text)
        if len(self._thoughts) == 1 or name == next(iter(self._thoughts)):
            pieces.append(ResponseDelta("thought", text))

    def _take_call(self, entry: object, pieces: list[ResponseDelta], *, is_whole: bool) -> None:
        custom = get_field(entry, "custom")
        function = custom if custom is not None else get_field(entry, "function")
        call_id, name = get_str(entry, "id"), get_str(function, "name")
        begins = is_whole and bool(call_id or name)
        call = self._begin(call_id, None) if begins else self._owner(entry, call_id, name, function)
        if call is None:
            self._mark_damaged()
            return
        call.identify(call_id)
        call.is_custom = call.is_custom or custom is not None
        self._add(call, function, pieces)

    def _take_legacy(self, function: object, pieces: list[ResponseDelta]) -> None:
        self._legacy = self._legacy or PartialCall(ids=self._ids)
        self._add(self._legacy, function, pieces)

    def _add(self, call: PartialCall, function: object, pieces: list[ResponseDelta]) -> None:
        name = get_str(function, "name")
        if name != call.name:
            # A name may come in pieces, and some servers repeat it.
            call.name += name
        if function is not None and not is_record(function):
            call.is_damaged = True
        piece = call.add(get_field(function, "input" if call.is_custom else "arguments"))
        pieces.append(call.to_delta(piece, self._definitions))

    def _owner(self, entry: object, id: str, name: str, function: object) -> PartialCall | None:
        """Find or start the call that a delta belongs to; `None` if it cannot be determined."""
        index = get_count(entry, "index")
        if index is not None:
            known = self._by_index.get(index)
            if known is None:
                return self._begin(id, index)
            if id and known.provider_id and id != known.provider_id:
                return self._begin(id, index) if name else None
            is_another = bool(name) and not id and bool(get_field(function, "arguments")) and known.is_closed
            return self._begin(id, index) if is_another else known
        last = self._calls[-1] if self._calls else None
        if id:
            goes_on = last is not None and last.provider_id == id and not (name and last.is_closed)
            return last if goes_on else self._begin(id, None)
        if get_field(entry, "index") is not None or not is_record(entry):
            return None
        return self._begin(id, None) if name else last

    def _begin(self, id: str, index: int | None) -> PartialCall:
        call = PartialCall(id, ids=self._ids)
        self._calls.append(call)
        if index is not None:
            call.index, self._by_index[index] = index, call
        return call

    def _mark_damaged(self) -> None:
        """Mark all calls as damaged: a delta could not be assigned, and any of them may lack it."""
        for call in self._calls:
            call.is_damaged = True


def _repeat(call: PartialCall) -> JsonObject:
    name = format_name(call.name, OPENAI_CHAT)
    if call.is_custom:
        return {"id": call.id, "type": "custom", "custom": {"name": name, "input": call.text}}
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": format_arguments(call.text)}}


DIALECT: Final = dialects.OPENAI_CHAT

_AUDIO: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_NATIVE: Final = IMAGES | frozenset(_AUDIO) | {"application/pdf"}
_LEAD: Final = "Media returned by the tools above, each after its marker. It is not from the user."


def _wrap(spec: Spec) -> JsonObject:
    function: JsonObject = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function | ({"strict": True} if spec.strict else {})}


class ChatWriter(ConversationWriter):
    """Writes a conversation as messages."""

    def __init__(self, *, empty_content: Literal[""] | None = "") -> None:
        super().__init__()
        self._empty_content = empty_content
        """The content of an assistant message that has calls and no text."""

    def write_step(self, step: Step, definitions: Definitions) -> None:
        """Write one step."""
        if isinstance(step, ToolStep):
            said: JsonObject = step.raw if step.raw is not None else _format_calls(step, definitions)
            if said.get("tool_calls") and not said["content"]:
                said = {**said, "content": self._empty_content}
            self.add([said, *_format_results(step.results)])
        elif step.parts:
            self.add([_format_message(step)])


def _format_message(message: MessageStep) -> JsonObject:
    if message.role != "user" or all(isinstance(part, TextPart) for part in message.parts):
        return {"role": message.role, "content": message.text}
    return {"role": "user", "content": [_part(part) for part in message.parts]}


def _format_calls(exchange: ToolStep, definitions: Definitions) -> JsonObject:
    tool_calls = [
        {
            "id": call.tool_call_id,
            "type": "function",
            "function": {
                "name": format_name(definitions.names.to_wire(call.name), DIALECT.limits),
                "arguments": format_arguments(call.args),
            },
        }
        for call in exchange.calls
    ]
    return {"role": "assistant", "content": exchange.text or "", "tool_calls": tool_calls}


def _format_results(answers: Sequence[RenderedResult], _: Definitions | None = None) -> list[JsonObject]:
    """Return the results of all calls first: the API rejects any other message before the last result."""
    written: list[JsonObject] = [
        {"role": "tool", "tool_call_id": each.tool_call_id, "content": each.text} for each in answers
    ]
    shown: list[Part] = []
    for answer in answers:
        for before, part in zip((None, *answer.parts), answer.parts, strict=False):
            if isinstance(part, MediaPart):
                shown += [before, part] if isinstance(before, TextPart) else [part]
    if shown:
        written.append({"role": "user", "content": [_part(part) for part in (TextPart(_LEAD), *shown)]})
    return written


def _part(part: Part) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.mime_type in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": part.base64, "format": _AUDIO[part.mime_type]}}
    url = f"data:{part.mime_type};base64,{part.base64}"
    if part.mime_type in IMAGES:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": part.media.safe_filename, "file_data": url}}


API: Final = ModelApi(
    dialect=DIALECT,
    wrap=_wrap,
    create_assembler=Stream,
    format_results=_format_results,
    media_types=_NATIVE,
    default_media=MediaSupport(),
)
definitions, calls, results = API.definitions, API.calls, API.results
