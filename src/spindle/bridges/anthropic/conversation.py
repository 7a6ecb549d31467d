"""Converts a conversation to Anthropic messages: alternating roles, each call followed by its result."""

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from spindle.bridges.anthropic.stream import UNREADABLE
from spindle.bridges.definitions import Definitions
from spindle.bridges.partial_calls import format_input, format_name
from spindle.bridges.provider_limits import ANTHROPIC, fit_name
from spindle.bridges.rendering import IMAGES, MediaPart, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import Step, ToolStep
from spindle.bridges.wire import AlternatingMessages, has_content

_DOCUMENTS: Final = frozenset({"application/pdf", "text/plain"})
_NATIVE: Final = IMAGES | _DOCUMENTS
_MAX_MEDIA_BYTES: Final = cast("int", ANTHROPIC.max_media_bytes)
MEDIA_SUPPORT: Final = MediaSupport(mime_types=IMAGES | {"application/pdf"}, max_bytes=_MAX_MEDIA_BYTES)
"""Media accepted by the models."""

_MAX_ID_CHARS: Final = cast("int", ANTHROPIC.max_id_chars)
_GOES_ON: Final = "(The conversation goes on.)"
"""First user message of a conversation that starts with another role, which the API rejects."""


def restrict_media(media_support: MediaSupport | None) -> MediaSupport:
    """Restrict the media a model accepts to those this API can carry."""
    if media_support is None:
        return MEDIA_SUPPORT
    return replace(
        media_support,
        mime_types=media_support.mime_types & _NATIVE,
        max_bytes=min(media_support.max_bytes, _MAX_MEDIA_BYTES),
    )


def build_messages(steps: Sequence[Step], definitions: Definitions) -> list[dict[str, Any]]:
    """Return a conversation as messages."""
    written = AlternatingMessages("content")
    ids = _Ids()
    for step in steps:
        if isinstance(step, ToolStep):
            _write_exchange(written, step, definitions, ids)
        elif step.role == "assistant":
            written.append("assistant", _said_by_model(step.text))
        elif step.role == "user":
            written.append("user", [build_block(part) for part in step.parts if has_content(part)])
    return written.starting_with_user({"type": "text", "text": _GOES_ON})


def wire_id(id: str) -> str:
    """Return a call id in the form the API accepts; ids of other providers may have to be changed."""
    return fit_name(id, cast("str", ANTHROPIC.id_pattern), _MAX_ID_CHARS)


def build_placeholder_tools(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return placeholder definitions of all tools a conversation names: the API requires them even if none is left."""
    blocks = [block for message in messages for block in message["content"]]
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    return [{"name": name, "description": "Not available now.", "input_schema": {"type": "object"}} for name in names]


def build_result(answer: RenderedResult, tool_use_id: str | None = None) -> dict[str, Any]:
    """Return the result of one call as a `tool_result` block."""
    # The API only accepts text in an error result.
    parts = [part for part in answer.parts if not answer.is_error or isinstance(part, TextPart)]
    content = [build_block(part) for part in parts if has_content(part)]
    written = {"type": "tool_result", "tool_use_id": tool_use_id or wire_id(answer.tool_call_id), "content": content}
    return written | ({"is_error": True} if answer.is_error else {})


def build_block(part: Part) -> dict[str, Any]:
    """Return text or media as a content block."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.mime_type in IMAGES:
        return {"type": "image", "source": _base64(part)}
    if part.mime_type == "text/plain":
        data = b64decode(part.base64).decode("utf-8", "replace")
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": data}}
    return {"type": "document", "source": _base64(part), "title": part.media.safe_filename}


def _base64(part: MediaPart) -> dict[str, Any]:
    return {"type": "base64", "media_type": part.mime_type, "data": part.base64}


def _write_exchange(written: AlternatingMessages, step: ToolStep, definitions: Definitions, ids: "_Ids") -> None:
    asked = step.raw if step.raw is not None else _build_calls(step, definitions)
    fresh = iter([ids.assign(call.tool_call_id) for call in step.calls])
    blocks: list[dict[str, Any]] = []
    answered: list[str] = []
    for block in asked:
        if block["type"] == "tool_use":
            answered.append(next(fresh))
            blocks.append(block | {"id": answered[-1]})
        else:
            blocks.append(block)
    written.append("assistant", blocks)
    written.append("user", [build_result(*each) for each in zip(step.results, answered, strict=True)])


def _build_calls(exchange: ToolStep, definitions: Definitions) -> list[dict[str, Any]]:
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
    return [*_said_by_model(exchange.text or ""), *calls]


def _said_by_model(text: str) -> list[dict[str, Any]]:
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
