"""What a model sees of an outcome, in each dialect, with the fences in it marked; media as facts."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal, TypeAlias

from spindle.bridges import dialects
from spindle.bridges import mcp as mcp_bridge
from spindle.bridges.anthropic import conversation as anthropic
from spindle.bridges.bedrock import conversation as bedrock
from spindle.bridges.gemini import conversation as gemini
from spindle.bridges.openai import chat_completions, responses_api
from spindle.bridges.provider import ModelApi
from spindle.bridges.rendering import TextPart, render_result
from spindle.bridges.wire import replace_lone_surrogates
from spindle.calls import CallOutcome
from spindle.errors import CannotLowerError, InvalidRequestError, InvalidToolError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.media import Media
from spindle.text import shorten_middle, to_encodable
from spindle.tools.declaration import Tool

SpanRole: TypeAlias = Literal["plain", "tag", "trusted", "untrusted"]
"""Text outside of a fence, a tag of a fence, and what stands inside of one."""

MAX_TEXT_CHARS: Final = 400_000
MAX_WIRE_CHARS: Final = 400_000
_MAX_DATA_CHARS: Final = 200
_DATA_KEYS: Final = frozenset(("data", "blob", "bytes", "file_data", "image_url", "url", "data_url"))
"""Keys under which the dialects carry media."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedSpan:
    """A piece of a text and where it stands."""

    role: SpanRole
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MediaFacts:
    """What is known about media without reading it."""

    id: str
    kind: str
    mime_type: str
    filename: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedPart:
    """One part of a result as a model gets it: a text, or media."""

    spans: tuple[MarkedSpan, ...] = ()
    media: MediaFacts | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendering:
    """An outcome in one dialect."""

    dialect: str
    parts: tuple[RenderedPart, ...]
    wire: str
    """The JSON of the request or response, with the content of media shortened."""
    is_shortened: bool = False
    """Whether more was rendered than is returned here."""


@cache
def _get_apis() -> Mapping[str, ModelApi]:
    apis = (chat_completions.API, responses_api.API, anthropic.API, gemini.API, bedrock.API)
    return {api.dialect.name: api for api in apis}


async def render(
    outcome: CallOutcome,
    dialect: str,
    *,
    tool: Tool | None = None,
    is_fenced: bool = True,
    is_structured: bool = True,
    max_structured_chars: int | None = None,
) -> Rendering:
    """Render an outcome as the models of a dialect get it; for MCP, as this server answers a client.

    Raises:
        InvalidRequestError: The dialect is unknown.
    """
    if dialect == dialects.MCP.name:
        try:
            listed = None if tool is None else mcp_bridge.definitions([tool], structured=is_structured)
        except (CannotLowerError, InvalidToolError):
            listed = None
        [result] = await mcp_bridge.results(
            [outcome],
            definitions=listed,
            fenced=is_fenced,
            max_structured_chars=max_structured_chars,
            any_value=True,
        )
        return _finish(dialect, [_read_block(block) for block in result["content"]], result)
    api = _get_apis().get(dialect)
    if api is None:
        raise InvalidRequestError(f"unknown dialect; choose from {', '.join(list_dialects())}", field="dialect")
    media = replace(api.default_media, unsupported="fallback-stash")
    rendered = await render_result(outcome, media)
    wire = replace_lone_surrogates(api.format_results([rendered], None))
    parts = [
        RenderedPart(spans=mark_fences(part.text))
        if isinstance(part, TextPart)
        else RenderedPart(media=describe_media(part.media))
        for part in rendered.parts
    ]
    return _finish(dialect, parts, wire)


def list_dialects() -> tuple[str, ...]:
    """Return the names of the dialects in which outcomes are rendered."""
    return (dialects.MCP.name, *_get_apis())


def describe_media(media: object) -> MediaFacts:
    """Return the facts about media."""
    if not isinstance(media, Media):
        return MediaFacts(id="", kind=type(media).__name__, mime_type="", filename="")
    return MediaFacts(
        id=to_encodable(media.id), kind=media.kind, mime_type=media.safe_mime_type, filename=media.safe_filename
    )


_TAG: Final = re.compile(r"</?(un)?trusted_content_[a-z]{16}(?: [^>\n]*)?>")


def mark_fences(text: str) -> tuple[MarkedSpan, ...]:
    """Split a text at the tags of its fences; content cannot contain such a tag, because it is broken up there."""
    return tuple(span for span in _split(to_encodable(text)) if span.text)


def _split(text: str) -> Iterator[MarkedSpan]:
    role: SpanRole = "plain"
    at = 0
    for tag in _TAG.finditer(text):
        yield MarkedSpan(role=role, text=text[at : tag.start()])
        yield MarkedSpan(role="tag", text=tag.group())
        at = tag.end()
        is_closing = tag.group().startswith("</")
        role = "plain" if is_closing else "untrusted" if tag.group(1) else "trusted"
    yield MarkedSpan(role=role, text=text[at:])


def _read_block(block: JsonObject) -> RenderedPart:
    text = block.get("text")
    if block.get("type") == "text" and isinstance(text, str):
        return RenderedPart(spans=mark_fences(text))
    return RenderedPart(media=_describe_block(block))


def _describe_block(block: JsonObject) -> MediaFacts:
    inner = block.get("resource")
    given = inner if is_object(inner) else block
    kind, mime, uri = block.get("type"), given.get("mimeType"), given.get("uri") or given.get("name")
    return MediaFacts(id="", kind=str(kind), mime_type=str(mime or ""), filename=str(uri or ""))


def _finish(dialect: str, parts: list[RenderedPart], wire: JsonValue) -> Rendering:
    text = json.dumps(shorten_data(wire), indent=2, ensure_ascii=False)
    shown, left = list[RenderedPart](), MAX_TEXT_CHARS
    is_cut = len(text) > MAX_WIRE_CHARS
    for part in parts:
        spans = list[MarkedSpan]()
        for span in part.spans:
            is_cut = is_cut or len(span.text) > left
            spans.append(MarkedSpan(role=span.role, text=span.text[:left]))
            left -= len(spans[-1].text)
        shown.append(replace(part, spans=tuple(spans)))
    return Rendering(dialect=dialect, parts=tuple(shown), wire=text[:MAX_WIRE_CHARS], is_shortened=is_cut)


def shorten_data(value: JsonValue, key: str = "") -> JsonValue:
    """Return JSON in which the content of media is shortened."""
    if isinstance(value, str):
        is_data = key in _DATA_KEYS or value.startswith("data:")
        return shorten_middle(value, _MAX_DATA_CHARS) if is_data and len(value) > _MAX_DATA_CHARS else value
    if is_object(value):
        return {name: shorten_data(each, name) for name, each in value.items()}
    if is_array(value):
        return [shorten_data(each, key) for each in value]
    return "(bytes)" if isinstance(value, bytes) else value  # pyright: ignore[reportUnnecessaryIsInstance]  in Bedrock's
