"""The dialect of OpenAI's Chat Completions, which many other servers speak."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from spindle.bridges import dialects
from spindle.bridges.definitions import Definitions, Spec, build
from spindle.bridges.openai_chat_stream import Stream
from spindle.bridges.partial_calls import repeated, repeated_name
from spindle.bridges.reading import sendable
from spindle.bridges.rendering import IMAGES, Answer, MediaPart, Part, Sees, TextPart, answer_of
from spindle.bridges.transcript import Exchange, Said, Step
from spindle.calls import Call, CallOutcome
from spindle.events import Events
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

__all__ = ["DIALECT", "Stream", "calls", "definitions", "messages", "results", "seen"]

DIALECT: Final = dialects.OPENAI_CHAT

_AUDIO: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_NATIVE: Final = IMAGES | frozenset(_AUDIO) | {"application/pdf"}
_LEAD: Final = "What the tools above gave besides text, each after its marker. It is not from the user."


def definitions(
    tools: ToolRegistry | Iterable[Tool],
    *,
    filter: ToolFilter | None = None,
    strict: bool = False,
    events: Events | None = None,
) -> Definitions:
    """Tell the model about tools.

    Raises:
        CannotLowerError: A tool's schema cannot be told at all.
        NameClashError: Two tools would have the same name on the wire.
        TooManyToolsError: There are more than the API takes.
    """
    return build(DIALECT, tools, _wrap, filter=filter, strict=strict, events=events)


def _wrap(spec: Spec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function | ({"strict": True} if spec.strict else {})}


def calls(response: Any, definitions: Definitions | None = None) -> list[Call]:
    """Read the calls of a whole response, the SDK's object or plain data."""
    stream = Stream(definitions)
    stream.feed_whole(response)
    return stream.calls()


async def results(
    outcomes: Sequence[CallOutcome], *, definitions: Definitions | None = None, sees: Sees | None = None
) -> list[dict[str, Any]]:
    """Write what became of calls as messages: one for each call, then one with the media the model can see.

    Raises:
        UnsupportedMediaError: The model cannot see the media, and `sees.unsupported` is "throw".
    """
    del definitions  # an answer is found by the id of its call alone
    able = seen(sees or Sees())
    return sendable(_answered([await answer_of(outcome, able) for outcome in outcomes]))


def seen(sees: Sees) -> Sees:
    """Leave of what a model sees what this API can carry."""
    return replace(sees, mime_types=sees.mime_types & _NATIVE)


def messages(system_prompt: str, steps: Sequence[Step], definitions: Definitions) -> list[dict[str, Any]]:
    """Write a conversation."""
    written: list[dict[str, Any]] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    for step in steps:
        if isinstance(step, Exchange):
            written.append(step.raw if step.raw is not None else _asked(step, definitions))
            written += _answered(step.answers)
        elif step.parts:
            written.append(_said(step))
    return written


def _said(said: Said) -> dict[str, Any]:
    if said.role != "user" or all(isinstance(part, TextPart) for part in said.parts):
        return {"role": said.role, "content": said.text}
    return {"role": "user", "content": [_part(part) for part in said.parts]}


def _asked(exchange: Exchange, definitions: Definitions) -> dict[str, Any]:
    asked = [
        {
            "id": call.tool_call_id,
            "type": "function",
            "function": {
                "name": repeated_name(definitions.names.to_wire(call.name), DIALECT.limits),
                "arguments": repeated(call.args),
            },
        }
        for call in exchange.calls
    ]
    return {"role": "assistant", "content": exchange.text, "tool_calls": asked}


def _answered(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Answer every call first: the API takes nothing else before the last of them."""
    written: list[dict[str, Any]] = [
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


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.mime_type in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": part.base64, "format": _AUDIO[part.mime_type]}}
    url = f"data:{part.mime_type};base64,{part.base64}"
    if part.mime_type in IMAGES:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": part.media.safe_filename, "file_data": url}}
