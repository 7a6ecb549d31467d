"""The dialect of OpenAI's Responses API: tool definitions, input items, results, and the response assembler."""

from collections.abc import Collection, Sequence
from typing import Final

from spindle.bridges import dialects
from spindle.bridges.conversation_writer import ConversationWriter
from spindle.bridges.definitions import Definitions, Spec
from spindle.bridges.openai.chat_completions import parse_usage
from spindle.bridges.partial_calls import CallIds, PartialCall, format_arguments, format_name
from spindle.bridges.provider import ModelApi, ModelResponse, ResponseDelta
from spindle.bridges.provider_limits import OPENAI_RESPONSES
from spindle.bridges.rendering import IMAGES, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import MessageStep, Step, ToolStep
from spindle.bridges.wire import get_count, get_field, get_list, get_str, is_record, to_plain
from spindle.calls import Call
from spindle.errors import ModelStoppedError
from spindle.json_types import JsonObject

_INPUTS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Item types that are calls, and the field that holds their arguments."""


class OutputItem:
    """One output item of a response: a message, a call, reasoning, or another type."""

    def __init__(self, index: int | None, item: object, *, ids: CallIds, is_done: bool = False) -> None:
        self.index = index
        self._ids = ids
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.call: PartialCall | None = None
        self.is_done = False
        self.read(item, is_done=is_done)

    def read(self, item: object, *, is_done: bool) -> None:
        """Replace the known state of the item by the provider's version of it."""
        kind = get_str(item, "type")
        self.item, self.id = item, get_str(item, "id")
        self.is_done = is_done and get_str(item, "status") in {"", "completed"}
        if kind in _INPUTS:
            self._read_call(item, kind)
        elif kind == "message" and is_done:
            parts = get_list(item, "content")
            self.texts = [get_str(part, "text") for part in parts]
            self.refusals = [get_str(part, "refusal") for part in parts]

    def _read_call(self, item: object, kind: str) -> None:
        self.call = self.call or PartialCall(get_str(item, "call_id"), ids=self._ids)
        self.call.identify(get_str(item, "call_id"))
        self.call.name = get_str(item, "name")
        self.call.is_custom = kind == "custom_tool_call"
        self.call.replace(get_field(item, _INPUTS[kind]))

    @property
    def text(self) -> str:
        """The text of a message, or its refusal."""
        return "".join(self.texts) or "".join(self.refusals)

    def to_call(self, definitions: Definitions | None) -> Call | None:
        """Return the call of this item; `None` if it is not a call."""
        if self.call is None:
            return None
        # Arguments of an incomplete item may look complete; they must not run either.
        self.call.is_damaged = self.call.is_damaged or get_str(self.item, "status") == "incomplete"
        return self.call.to_call(definitions, is_whole=self.is_done)

    def to_input(self) -> JsonObject | None:
        """Return the item as sent back in the next request; `None` if it was only started."""
        call, is_begun = self.call, not self.is_done and get_str(self.item, "status") != "incomplete"
        if not get_str(self.item, "type") or (call is None and is_begun):
            return None
        item = {name: value for name, value in to_plain(self.item).items() if value is not None}
        if call is None:
            return item
        item |= {"call_id": call.id, "name": format_name(call.name, OPENAI_RESPONSES)}
        return item | ({"input": call.text} if call.is_custom else {"arguments": format_arguments(call.text)})


_THOUGHTS: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ARGUMENTS: Final = frozenset({"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"})
_ALL_ARGUMENTS: Final = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}
_WORDS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})


class Stream:
    """Assembles one response, streamed or not."""

    def __init__(self, definitions: Definitions | None = None, *, taken: Collection[str] = ()) -> None:
        self.usage: dict[str, int] | None = None
        self.finish_reason: str | None = None
        self._definitions = definitions
        self._ids = CallIds(taken)
        self._items: list[OutputItem] = []
        self._latest: OutputItem | None = None
        """The item of the last delta: deltas of one item mostly arrive in a row."""

    def feed(self, event: object) -> Sequence[ResponseDelta]:
        """Process one event of the stream and return its deltas; unknown event types are ignored."""
        kind = get_str(event, "type")
        if kind in _ARGUMENTS:
            return self._take_arguments(event)
        if kind in _WORDS:
            return self._take_words(event, is_refusal=kind == "response.refusal.delta")
        if kind in _THOUGHTS:
            thought = get_str(event, "delta")
            return [ResponseDelta("thought", thought)] if thought else ()
        if kind in _ALL_ARGUMENTS:
            item = self._item(event)
            if item is not None and item.call is not None:
                item.call.replace(get_field(event, _ALL_ARGUMENTS[kind]))
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            return self._take_item(event, is_done=kind.endswith("done"))
        elif kind in _ENDS:
            self.feed_response(get_field(event, "response"))
        return ()

    def feed_response(self, response: object) -> None:
        """Process a complete response; its items replace those of the stream."""
        self.usage = parse_usage(get_field(response, "usage")) or self.usage
        items = [each for each in get_list(response, "output") if is_record(each)]
        status = get_str(response, "status")
        if items:
            self._items, self._latest = [self._finish_item(index, item) for index, item in enumerate(items)], None
            last = self._items[-1]
            if status == "incomplete" and last.call is not None and get_str(last.item, "status") != "completed":
                # In a response that was cut off, the last call is complete only if its own status says so.
                last.is_done = False
        if status == "incomplete":
            self.finish_reason = get_str(get_field(response, "incomplete_details"), "reason") or status
        elif status in {"", "completed"} and is_record(response):
            self.finish_reason = "completed"

    @property
    def text(self) -> str:
        """The model's text so far, or its refusal."""
        return "\n\n".join(filter(None, [item.text for item in self._items]))

    @property
    def is_complete(self) -> bool:
        """Whether the provider has signalled the end of the response."""
        return self.finish_reason is not None

    def calls(self) -> list[Call]:
        """Return the calls so far; a call that was cut off gets arguments that executors reject."""
        found = [item.to_call(self._definitions) for item in self._sort_items()]
        return [call for call in found if call is not None]

    def build_response(self) -> ModelResponse:
        """Return the complete response.

        Raises:
            ModelStoppedError: The model stopped without text or calls.
        """
        calls, text, reason = self.calls(), self.text, self.finish_reason
        if reason not in {None, "completed"} and not text and not calls:
            raise ModelStoppedError(f"the model stopped without a response: {reason}", reason=reason)
        repeated = [item.to_input() for item in self._sort_items()]
        return ModelResponse(
            text=text or None,
            calls=calls,
            usage=self.usage,
            finish_reason=reason,
            raw=[each for each in repeated if each is not None],
            is_truncated=reason != "completed",
        )

    def _sort_items(self) -> list[OutputItem]:
        """Return the items by index; items without an index come last, in order of arrival."""
        return sorted(self._items, key=lambda item: (item.index is None, item.index or 0))

    def _finish_item(self, index: int, item: object) -> OutputItem:
        known = next((each for each in self._items if each.id and each.id == get_str(item, "id")), None)
        if known is None:
            return OutputItem(index, item, ids=self._ids, is_done=True)
        known.index = index
        known.read(item, is_done=True)
        return known

    def _item(self, event: object) -> OutputItem | None:
        """Find the item of an event by its id, which some servers omit, or by its index."""
        item_id, latest = get_str(event, "item_id"), self._latest
        if latest is None or not item_id or latest.id != item_id:
            self._latest = latest = self._find_item(item_id, get_count(event, "output_index"))
        return latest

    def _find_item(self, item_id: str, index: int | None) -> OutputItem | None:
        by_id = next((item for item in self._items if item_id and item.id == item_id), None)
        if by_id is not None or index is None:
            return by_id
        return next((item for item in self._items if item.index == index and not (item_id and item.id)), None)

    def _take_item(self, event: object, *, is_done: bool) -> Sequence[ResponseDelta]:
        given, index = get_field(event, "item"), get_count(event, "output_index")
        if not is_record(given):
            return ()
        item = self._find_item(get_str(given, "id"), index)
        if item is None:
            item = OutputItem(index, given, ids=self._ids, is_done=is_done)
            self._items.append(item)
        else:
            item.read(given, is_done=is_done)
        # The content of a finished item was already reported by its deltas.
        return () if is_done or item.call is None else [item.call.to_delta("", self._definitions)]

    def _take_arguments(self, event: object) -> Sequence[ResponseDelta]:
        item = self._item(event)
        if item is None or item.call is None:
            # The delta cannot be assigned: any unfinished call may lack it.
            for each in self._items:
                if each.call is not None and not each.is_done:
                    each.call.is_damaged = True
            return ()
        return [item.call.to_delta(item.call.add(get_field(event, "delta")), self._definitions)]

    def _take_words(self, event: object, *, is_refusal: bool) -> Sequence[ResponseDelta]:
        words = get_str(event, "delta")
        if not words:
            return ()
        item = self._item(event)
        if item is None:
            begun = {"type": "message", "id": get_str(event, "item_id")}
            item = OutputItem(get_count(event, "output_index"), begun, ids=self._ids)
            self._items.append(item)
        (item.refusals if is_refusal else item.texts).append(words)
        return [ResponseDelta("text", words)]


DIALECT: Final = dialects.OPENAI_RESPONSES

_NATIVE: Final = IMAGES | {"application/pdf"}


def _wrap(spec: Spec) -> JsonObject:
    # `strict` is always set: the API's default is true, which rejects schemas that strict mode cannot express.
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
        "strict": spec.strict,
    }


class ItemsWriter(ConversationWriter):
    """Writes a conversation as input items."""

    def write_step(self, step: Step, definitions: Definitions) -> None:
        """Write one step."""
        if isinstance(step, ToolStep):
            output: list[JsonObject] = step.raw if step.raw is not None else _format_calls(step, definitions)
            custom = {each["call_id"] for each in output if each.get("type") == "custom_tool_call"}
            self.add(output)
            self.add([_build_output(each, is_custom=each.tool_call_id in custom) for each in step.results])
        elif step.parts:
            self.add([_format_message(step)])


def _format_message(message: MessageStep) -> JsonObject:
    if message.role != "user" or all(isinstance(part, TextPart) for part in message.parts):
        return {"type": "message", "role": message.role, "content": message.text}
    return {"type": "message", "role": "user", "content": [_part(part) for part in message.parts]}


def _format_calls(exchange: ToolStep, definitions: Definitions) -> list[JsonObject]:
    call_items: list[JsonObject] = [
        {
            "type": "function_call",
            "call_id": call.tool_call_id,
            "name": format_name(definitions.names.to_wire(call.name), DIALECT.limits),
            "arguments": format_arguments(call.args),
        }
        for call in exchange.calls
    ]
    said: JsonObject = {"type": "message", "role": "assistant", "content": exchange.text}
    return [said, *call_items] if exchange.text else call_items


def _build_output(answer: RenderedResult, *, is_custom: bool = False) -> JsonObject:
    output = [_part(part) for part in answer.parts] if answer.media else answer.text
    kind = "custom_tool_call_output" if is_custom else "function_call_output"
    return {"type": kind, "call_id": answer.tool_call_id, "output": output}


def _part(part: Part) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    url = f"data:{part.mime_type};base64,{part.base64}"
    if part.mime_type in IMAGES:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": part.media.safe_filename, "file_data": url}


def _format_results(answers: Sequence[RenderedResult], _: Definitions | None) -> list[JsonObject]:
    return [_build_output(answer) for answer in answers]


API: Final = ModelApi(
    dialect=DIALECT,
    wrap=_wrap,
    create_assembler=Stream,
    format_results=_format_results,
    media_types=_NATIVE,
    default_media=MediaSupport(),
)
definitions, calls, results = API.definitions, API.calls, API.results
