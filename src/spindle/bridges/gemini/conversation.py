"""The form of Gemini's generateContent: function declarations, results, and contents of alternating roles."""

from collections.abc import Sequence
from typing import ClassVar, Final

from spindle.bridges import dialects
from spindle.bridges.conversation_writer import AlternatingWriter
from spindle.bridges.definitions import Definitions, Spec
from spindle.bridges.gemini.stream import Stream, is_local_id
from spindle.bridges.partial_calls import format_input, format_name
from spindle.bridges.provider import ModelApi
from spindle.bridges.provider_limits import GEMINI
from spindle.bridges.rendering import MediaPart, MediaSupport, Part, RenderedResult, TextPart
from spindle.bridges.transcript import Step, ToolStep
from spindle.bridges.wire import has_content
from spindle.json_types import JsonObject

_INSIDE: Final = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
"""Media types accepted inside a function response; other media follows it."""
_NATIVE: Final = _INSIDE | frozenset(
    {
        *("image/heic", "image/heif", "image/gif"),
        *("audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
        *("video/mp4", "video/mpeg", "video/quicktime", "video/webm", "video/x-flv", "video/wmv", "video/3gpp"),
    }
)


class ContentsWriter(AlternatingWriter):
    """Writes a conversation as contents."""

    content_field = "parts"
    first_block: ClassVar[JsonObject] = {"text": "(The conversation goes on.)"}

    def __init__(self, *, is_inside: bool) -> None:
        super().__init__()
        self._is_inside = is_inside
        """Whether media may be inside a function response."""

    def write_spoken(self, step: Step, definitions: Definitions) -> None:
        """Write a step of the user or the model."""
        if isinstance(step, ToolStep):
            parts = step.raw if step.raw is not None else _build_calls(step, definitions)
            ids = [part["functionCall"].get("id") for part in parts if "functionCall" in part]
            self.add_blocks("model", parts)
            self.add_blocks("user", build_responses(step.results, definitions, ids=ids, is_inside=self._is_inside))
        elif step.role == "assistant":
            self.add_blocks("model", [{"text": step.text}] if step.text.strip() else [])
        else:
            self.add_blocks("user", [build_part(part) for part in step.parts if has_content(part)])


def build_responses(
    answers: Sequence[RenderedResult],
    definitions: Definitions | None,
    *,
    ids: Sequence[str | None] | None = None,
    is_inside: bool = True,
) -> list[JsonObject]:
    """Return the results of calls as parts, in order; media that a function response cannot hold comes after them."""
    known = (
        ids if ids is not None else [None if is_local_id(each.tool_call_id) else each.tool_call_id for each in answers]
    )
    written: list[JsonObject] = []
    after: list[Part] = []
    for answer, call_id in zip(answers, known, strict=True):
        inside = [part for part in answer.media if is_inside and part.mime_type in _INSIDE]
        written.append(_response(answer, definitions, call_id, inside))
        for before, part in zip((None, *answer.parts), answer.parts, strict=False):
            if isinstance(part, MediaPart) and part not in inside:
                after += [before, part] if isinstance(before, TextPart) else [part]
    return [*written, *(build_part(part) for part in after)]


def build_part(part: Part) -> JsonObject:
    """Return text or media as a part."""
    return {"text": part.text} if isinstance(part, TextPart) else _inline(part)


def _response(
    answer: RenderedResult, definitions: Definitions | None, call_id: str | None, inside: Sequence[MediaPart]
) -> JsonObject:
    response: JsonObject = {
        "name": _wire_name(answer.name, definitions),
        "response": {"error" if answer.is_error else "result": answer.text},
    }
    if call_id is not None:
        response["id"] = call_id
    if inside:
        response["parts"] = [_inline(part) for part in inside]
    return {"functionResponse": response}


def _inline(part: MediaPart) -> JsonObject:
    return {"inlineData": {"mimeType": part.mime_type, "data": part.base64}}


def _build_calls(exchange: ToolStep, definitions: Definitions) -> list[JsonObject]:
    """Return the parts of calls that were not received by this bridge."""
    text_parts = [{"text": exchange.text}] if exchange.text and exchange.text.strip() else []
    calls = [
        {"functionCall": {"name": _wire_name(call.name, definitions), "args": format_input(call.args)}}
        for call in exchange.calls
    ]
    return [*text_parts, *calls]


def _wire_name(name: str, definitions: Definitions | None) -> str:
    return format_name(name if definitions is None else definitions.names.to_wire(name), GEMINI)


def _wrap(spec: Spec) -> JsonObject:
    declaration: JsonObject = {"name": spec.name, "description": spec.description}
    # The API rejects an object without properties; a tool without arguments has no parameters.
    has_parameters = bool(spec.schema.get("properties")) or "anyOf" in spec.schema
    return declaration | ({"parameters": spec.schema} if has_parameters else {})


DIALECT: Final = dialects.GEMINI
API: Final = ModelApi(
    dialect=DIALECT,
    wrap=_wrap,
    create_assembler=Stream,
    format_results=build_responses,
    media_types=_NATIVE,
    default_media=MediaSupport(mime_types=_NATIVE - {"image/gif", "text/plain"}),
)
definitions, calls, results = API.definitions, API.calls, API.results
