"""The form of Anthropic's Messages API: tool definitions, results, and messages with alternating roles."""

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, cast

from spindle.bridges import dialects
from spindle.bridges.anthropic.stream import UNREADABLE, Stream
from spindle.bridges.conversation_writer import AlternatingWriter
from spindle.bridges.definitions import Definitions, Spec
from spindle.bridges.partial_calls import format_input, format_name
from spindle.bridges.provider import ModelApi
from spindle.bridges.provider_limits import ANTHROPIC, fit_name
from spindle.bridges.rendering import IMAGES, MediaPart, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import Step, ToolStep
from spindle.bridges.wire import has_content
from spindle.json_types import JsonObject

_DOCUMENTS: Final = frozenset({"application/pdf", "text/plain"})
_NATIVE: Final = IMAGES | _DOCUMENTS
_MAX_MEDIA_BYTES: Final = cast("int", ANTHROPIC.max_media_bytes)
_MAX_ID_CHARS: Final = cast("int", ANTHROPIC.max_id_chars)


class MessagesWriter(AlternatingWriter):
    """Writes a conversation as messages."""

    content_field = "content"
    first_block: ClassVar[JsonObject] = {"type": "text", "text": "(The conversation goes on.)"}

    def __init__(self) -> None:
        super().__init__()
        self._ids = _Ids()

    def clear(self) -> None:
        """Forget what was written."""
        super().clear()
        self._ids = _Ids()

    def write_spoken(self, step: Step, definitions: Definitions) -> None:
        """Write a step of the user or the model."""
        if isinstance(step, ToolStep):
            self._write_exchange(step, definitions)
        elif step.role == "assistant":
            self.add_blocks("assistant", _build_text_blocks(step.text))
        else:
            self.add_blocks("user", [build_block(part) for part in step.parts if has_content(part)])

    def _write_exchange(self, step: ToolStep, definitions: Definitions) -> None:
        content = step.raw if step.raw is not None else _build_calls(step, definitions)
        fresh = iter([self._ids.assign(call.tool_call_id) for call in step.calls])
        blocks: list[JsonObject] = []
        answered_ids: list[str] = []
        for block in content:
            if block["type"] == "tool_use":
                answered_ids.append(next(fresh))
                blocks.append(block | {"id": answered_ids[-1]})
            else:
                blocks.append(block)
        self.add_blocks("assistant", blocks)
        self.add_blocks("user", [build_result(*each) for each in zip(step.results, answered_ids, strict=True)])


def wire_id(id: str) -> str:
    """Return a call id in the form the API accepts; ids of other providers may have to be changed."""
    return fit_name(id, cast("str", ANTHROPIC.id_pattern), _MAX_ID_CHARS)


def build_placeholder_tools(messages: Iterable[JsonObject]) -> list[JsonObject]:
    """Return placeholder definitions of all tools a conversation names: the API requires them even if none is left."""
    blocks = [block for message in messages for block in message["content"]]
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    return [{"name": name, "description": "Not available now.", "input_schema": {"type": "object"}} for name in names]


def build_result(answer: RenderedResult, tool_use_id: str | None = None) -> JsonObject:
    """Return the result of one call as a `tool_result` block."""
    # The API only accepts text in an error result.
    parts = [part for part in answer.parts if not answer.is_error or isinstance(part, TextPart)]
    content = [build_block(part) for part in parts if has_content(part)]
    written = {"type": "tool_result", "tool_use_id": tool_use_id or wire_id(answer.tool_call_id), "content": content}
    return written | ({"is_error": True} if answer.is_error else {})


def build_block(part: Part) -> JsonObject:
    """Return text or media as a content block."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.mime_type in IMAGES:
        return {"type": "image", "source": _base64(part)}
    if part.mime_type == "text/plain":
        data = b64decode(part.base64).decode("utf-8", "replace")
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": data}}
    return {"type": "document", "source": _base64(part), "title": part.media.safe_filename}


def _base64(part: MediaPart) -> JsonObject:
    return {"type": "base64", "media_type": part.mime_type, "data": part.base64}


def _build_calls(exchange: ToolStep, definitions: Definitions) -> list[JsonObject]:
    """Return the content blocks of calls that were not received by this bridge."""
    calls = [
        {
            "type": "tool_use",
            "id": call.tool_call_id,
            "name": format_name(definitions.names.to_wire(call.name), ANTHROPIC),
            "input": format_input(call.args, unreadable=UNREADABLE),
        }
        for call in exchange.calls
    ]
    return [*_build_text_blocks(exchange.text or ""), *calls]


def _build_text_blocks(text: str) -> list[JsonObject]:
    # The API rejects text that is blank, or ends with blanks.
    return [{"type": "text", "text": text.rstrip()}] if text.strip() else []


class _Ids:
    """Call ids in the form the API accepts, unique within a conversation."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def assign(self, id: str) -> str:
        taken = wire_id(id)
        fresh, count = taken, 1
        while fresh in self._used:
            count += 1
            fresh = f"{taken[: _MAX_ID_CHARS - 8]}_{count}"
        self._used.add(fresh)
        return fresh


def _wrap(spec: Spec) -> JsonObject:
    definition: JsonObject = {"name": spec.name, "description": spec.description, "input_schema": spec.schema}
    return definition | ({"strict": True} if spec.strict else {})


def _format_results(answers: Sequence[RenderedResult], _: Definitions | None) -> list[JsonObject]:
    """Return `tool_result` blocks, one for each call, to start the next user message with."""
    return [build_result(answer) for answer in answers]


DIALECT: Final = dialects.ANTHROPIC
API: Final = ModelApi(
    dialect=DIALECT,
    wrap=_wrap,
    create_assembler=Stream,
    format_results=_format_results,
    media_types=_NATIVE,
    default_media=MediaSupport(mime_types=IMAGES | {"application/pdf"}, max_bytes=_MAX_MEDIA_BYTES),
    max_media_bytes=_MAX_MEDIA_BYTES,
)
definitions, calls, results = API.definitions, API.calls, API.results
