"""The form of Bedrock's Converse: tool definitions, results, and messages of content blocks with alternating roles."""

import base64
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from spindle.bridges import dialects
from spindle.bridges.bedrock.stream import Stream, wire_id
from spindle.bridges.conversation_writer import AlternatingWriter
from spindle.bridges.definitions import Definitions, Spec
from spindle.bridges.partial_calls import format_input, format_name
from spindle.bridges.provider import ModelApi
from spindle.bridges.provider_limits import BEDROCK
from spindle.bridges.rendering import MediaPart, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import MessageStep, Step, ToolStep
from spindle.bridges.wire import has_content
from spindle.calls import Call
from spindle.json_types import JsonObject

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_IMAGES: Final = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS: Final = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_VIDEOS: Final = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/mpeg": "mpeg",
    "video/3gpp": "three_gp",
}
_NATIVE: Final = frozenset(_IMAGES | _DOCUMENTS | _VIDEOS)
_MAX_DOCUMENT_NAME_CHARS: Final = 100
_SILENCE: Final = "(No content.)"

SEES: Final = MediaSupport(
    mime_types=frozenset(_IMAGES | _DOCUMENTS), max_bytes=BEDROCK.max_media_bytes or MediaSupport().max_bytes
)
"""Images and documents, which most models on Converse accept; add video only if the model accepts it."""


class ConverseWriter(AlternatingWriter):
    """Writes a conversation as messages."""

    content_field = "content"
    first_block: ClassVar[JsonObject] = {"text": _SILENCE}

    def write_spoken(self, step: Step, definitions: Definitions) -> None:
        """Write a step of the user or the model."""
        if isinstance(step, ToolStep):
            self.add_blocks("assistant", _build_calls(step, definitions))
            self.add_blocks("user", [build_result(answer) for answer in step.results])
        else:
            self.add_blocks(step.role, _build_message(step))


def build_placeholder_tools(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Return placeholder definitions of all tools a conversation names: Converse requires them even if none is left."""
    blocks = [block for message in messages for block in message["content"]]
    names = dict.fromkeys(block["toolUse"]["name"] for block in blocks if "toolUse" in block)
    schema = {"json": {"type": "object"}}
    return [{"toolSpec": {"name": name, "description": "Not available now.", "inputSchema": schema}} for name in names]


def build_result(answer: RenderedResult) -> JsonObject:
    """Return the result of one call as a `toolResult` block."""
    content = _blocks(answer.parts) or [{"text": _SILENCE}]
    status = {"status": "error"} if answer.is_error else {}
    return {"toolResult": {"toolUseId": wire_id(answer.tool_call_id), "content": content, **status}}


def _build_message(message: MessageStep) -> list[JsonObject]:
    # Converse accepts media from the user only, not in assistant messages.
    parts = message.parts if message.role == "user" else [part for part in message.parts if isinstance(part, TextPart)]
    return _blocks(parts)


def _build_calls(exchange: ToolStep, definitions: Definitions) -> list[JsonObject]:
    if exchange.raw is None:
        text = [{"text": exchange.text}] if exchange.text and exchange.text.strip() else []
        return [*text, *(_tool_use(call, definitions) for call in exchange.calls)]
    return [dict(block) for block in exchange.raw]


def _tool_use(call: Call, definitions: Definitions) -> JsonObject:
    name = format_name(definitions.names.to_wire(call.name), BEDROCK)
    return {"toolUse": {"toolUseId": wire_id(call.tool_call_id), "name": name, "input": format_input(call.args)}}


def _blocks(parts: Iterable[Part]) -> list[JsonObject]:
    """Return parts as blocks, without blank texts, which Converse rejects."""
    return [_block(part) for part in parts if has_content(part)]


def _block(part: Part) -> JsonObject:
    if isinstance(part, TextPart):
        return {"text": part.text}
    source = {"bytes": base64.b64decode(part.base64)}
    if part.mime_type in _IMAGES:
        return {"image": {"format": _IMAGES[part.mime_type], "source": source}}
    if part.mime_type in _VIDEOS:
        return {"video": {"format": _VIDEOS[part.mime_type], "source": source}}
    return {"document": {"format": _DOCUMENTS[part.mime_type], "name": _document_name(part), "source": source}}


def _document_name(part: MediaPart) -> str:
    """Return a document name of allowed characters, made unique by the end of the media id."""
    allowed = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", part.media.safe_filename)[:_MAX_DOCUMENT_NAME_CHARS]
    apart = re.sub(r"[^A-Za-z0-9-]", "", part.media.id)[-12:]
    return " ".join(f"{allowed} {apart}".split()) or "document"


def _wrap(spec: Spec) -> JsonObject:
    definition: JsonObject = {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": {"json": spec.schema},
    }
    return {"toolSpec": definition | ({"strict": True} if spec.strict else {})}


def _format_results(answers: Sequence[RenderedResult], _: Definitions | None) -> list[JsonObject]:
    """Return `toolResult` blocks, one for each call, to start the next user message with."""
    return [build_result(answer) for answer in answers]


DIALECT: Final = dialects.BEDROCK
API: Final = ModelApi(
    dialect=DIALECT,
    wrap=_wrap,
    create_assembler=Stream,
    format_results=_format_results,
    media_types=_NATIVE,
    default_media=SEES,
)
definitions, calls, results = API.definitions, API.calls, API.results
