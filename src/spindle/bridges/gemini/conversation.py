"""Converts a conversation to Gemini contents: alternating user and model, each call followed by its result."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from spindle.bridges.definitions import Definitions
from spindle.bridges.gemini.stream import is_local_id
from spindle.bridges.partial_calls import format_input, format_name
from spindle.bridges.provider_limits import GEMINI
from spindle.bridges.rendering import MediaPart, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import Step, ToolStep
from spindle.bridges.wire import AlternatingMessages, has_content

_INSIDE: Final = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
"""Media types accepted inside a function response; other media follows it."""
_NATIVE: Final = _INSIDE | frozenset(
    {
        *("image/heic", "image/heif", "image/gif"),
        *("audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
        *("video/mp4", "video/mpeg", "video/quicktime", "video/webm", "video/x-flv", "video/wmv", "video/3gpp"),
    }
)
MEDIA_SUPPORT: Final = MediaSupport(mime_types=_NATIVE - {"image/gif", "text/plain"})
"""Media accepted by the models."""

_GOES_ON: Final = "(The conversation goes on.)"
"""First user message of a conversation that starts with another role, which the API rejects."""


def restrict_media(media_support: MediaSupport | None) -> MediaSupport:
    """Restrict the media a model accepts to those this API can carry."""
    return (
        MEDIA_SUPPORT
        if media_support is None
        else replace(media_support, mime_types=media_support.mime_types & _NATIVE)
    )


def build_contents(steps: Sequence[Step], definitions: Definitions, *, is_inside: bool) -> list[dict[str, Any]]:
    """Return a conversation as contents."""
    written = AlternatingMessages("parts")
    for step in steps:
        if isinstance(step, ToolStep):
            asked = step.raw if step.raw is not None else _build_calls(step, definitions)
            written.append("model", asked)
            ids = [part["functionCall"].get("id") for part in asked if "functionCall" in part]
            written.append("user", build_responses(step.results, definitions, ids=ids, is_inside=is_inside))
        elif step.role == "assistant":
            written.append("model", [{"text": step.text}] if step.text.strip() else [])
        elif step.role == "user":
            written.append("user", [build_part(part) for part in step.parts if has_content(part)])
    return written.starting_with_user({"text": _GOES_ON})


def build_responses(
    answers: Sequence[RenderedResult],
    definitions: Definitions | None,
    *,
    ids: Sequence[str | None] | None = None,
    is_inside: bool = True,
) -> list[dict[str, Any]]:
    """Return the results of calls as parts, in order; media that a function response cannot hold comes after them."""
    known = (
        ids if ids is not None else [None if is_local_id(each.tool_call_id) else each.tool_call_id for each in answers]
    )
    written: list[dict[str, Any]] = []
    after: list[Part] = []
    for answer, call_id in zip(answers, known, strict=True):
        inside = [part for part in answer.media if is_inside and part.mime_type in _INSIDE]
        written.append(_response(answer, definitions, call_id, inside))
        for before, part in zip((None, *answer.parts), answer.parts, strict=False):
            if isinstance(part, MediaPart) and part not in inside:
                after += [before, part] if isinstance(before, TextPart) else [part]
    return [*written, *(build_part(part) for part in after)]


def build_part(part: Part) -> dict[str, Any]:
    """Return text or media as a part."""
    return {"text": part.text} if isinstance(part, TextPart) else _inline(part)


def _response(
    answer: RenderedResult, definitions: Definitions | None, call_id: str | None, inside: Sequence[MediaPart]
) -> dict[str, Any]:
    response: dict[str, Any] = {
        "name": _wire_name(answer.name, definitions),
        "response": {"error" if answer.is_error else "result": answer.text},
    }
    if call_id is not None:
        response["id"] = call_id
    if inside:
        response["parts"] = [_inline(part) for part in inside]
    return {"functionResponse": response}


def _inline(part: MediaPart) -> dict[str, Any]:
    return {"inlineData": {"mimeType": part.mime_type, "data": part.base64}}


def _build_calls(exchange: ToolStep, definitions: Definitions) -> list[dict[str, Any]]:
    """Return the parts of calls that were not received by this bridge."""
    said = [{"text": exchange.text}] if exchange.text and exchange.text.strip() else []
    calls = [
        {"functionCall": {"name": _wire_name(call.name, definitions), "args": format_input(call.args)}}
        for call in exchange.calls
    ]
    return [*said, *calls]


def _wire_name(name: str, definitions: Definitions | None) -> str:
    return format_name(name if definitions is None else definitions.names.to_wire(name), GEMINI)
