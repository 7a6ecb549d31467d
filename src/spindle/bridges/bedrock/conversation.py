"""Converts a conversation to Converse messages: content blocks, with alternating user and assistant."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spindle.bridges.definitions import Definitions
from spindle.bridges.partial_calls import format_input, format_name
from spindle.bridges.provider_limits import BEDROCK, fit_name
from spindle.bridges.rendering import MediaPart, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import MessageStep, Step, ToolStep
from spindle.bridges.wire import AlternatingMessages, has_content, replace_lone_surrogates
from spindle.calls import Call

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


def restrict_media(media_support: MediaSupport) -> MediaSupport:
    """Restrict the media a model accepts to those Converse can carry."""
    return replace(media_support, mime_types=media_support.mime_types & _NATIVE)


def build_messages(steps: Sequence[Step], definitions: Definitions) -> list[dict[str, Any]]:
    """Return a conversation as messages."""
    written = AlternatingMessages("content")
    for step in steps:
        if isinstance(step, ToolStep):
            written.append("assistant", _build_calls(step, definitions))
            written.append("user", [build_result(answer) for answer in step.results])
        elif step.role != "system":
            written.append(step.role, _build_message(step))
    return replace_lone_surrogates(written.starting_with_user({"text": _SILENCE}))


def build_placeholder_tools(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return placeholder definitions of all tools a conversation names: Converse requires them even if none is left."""
    blocks = [block for message in messages for block in message["content"]]
    names = dict.fromkeys(block["toolUse"]["name"] for block in blocks if "toolUse" in block)
    schema = {"json": {"type": "object"}}
    return [{"toolSpec": {"name": name, "description": "Not available now.", "inputSchema": schema}} for name in names]


def build_result(answer: RenderedResult) -> dict[str, Any]:
    """Return the result of one call as a `toolResult` block."""
    content = _blocks(answer.parts) or [{"text": _SILENCE}]
    status = {"status": "error"} if answer.is_error else {}
    return {"toolResult": {"toolUseId": wire_id(answer.tool_call_id), "content": content, **status}}


def wire_id(tool_call_id: str) -> str:
    """Return a call id in the form Converse accepts; ids of other providers may have to be changed."""
    return fit_name(tool_call_id, BEDROCK.id_pattern or ".+", BEDROCK.max_id_chars or len(tool_call_id))


def _build_message(said: MessageStep) -> list[dict[str, Any]]:
    # Converse accepts media from the user only, not in assistant messages.
    parts = said.parts if said.role == "user" else [part for part in said.parts if isinstance(part, TextPart)]
    return _blocks(parts)


def _build_calls(exchange: ToolStep, definitions: Definitions) -> list[dict[str, Any]]:
    if exchange.raw is None:
        text = [{"text": exchange.text}] if exchange.text and exchange.text.strip() else []
        return [*text, *(_tool_use(call, definitions) for call in exchange.calls)]
    return [dict(block) for block in exchange.raw]


def _tool_use(call: Call, definitions: Definitions) -> dict[str, Any]:
    name = format_name(definitions.names.to_wire(call.name), BEDROCK)
    return {"toolUse": {"toolUseId": wire_id(call.tool_call_id), "name": name, "input": format_input(call.args)}}


def _blocks(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return parts as blocks, without blank texts, which Converse rejects."""
    return [_block(part) for part in parts if has_content(part)]


def _block(part: Part) -> dict[str, Any]:
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
