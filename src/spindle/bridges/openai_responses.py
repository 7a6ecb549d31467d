"""The dialect of OpenAI's Responses API."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from spindle.bridges import dialects
from spindle.bridges.definitions import Definitions, Spec, build
from spindle.bridges.openai_responses_stream import Stream
from spindle.bridges.partial_calls import repeated, repeated_name
from spindle.bridges.reading import sendable
from spindle.bridges.rendering import IMAGES, Answer, Part, Sees, TextPart, answer_of
from spindle.bridges.transcript import Exchange, Said, Step
from spindle.calls import Call, CallOutcome
from spindle.events import Events
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

__all__ = ["DIALECT", "Stream", "calls", "definitions", "items", "results", "seen"]

DIALECT: Final = dialects.OPENAI_RESPONSES

_NATIVE: Final = IMAGES | {"application/pdf"}


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
    # Without a word about it this API would be strict, and refuse what strict mode cannot say.
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
        "strict": spec.strict,
    }


def calls(response: Any, definitions: Definitions | None = None) -> list[Call]:
    """Read the calls of a whole response, the SDK's object or plain data."""
    stream = Stream(definitions)
    stream.feed_whole(response)
    return stream.calls()


async def results(
    outcomes: Sequence[CallOutcome], *, definitions: Definitions | None = None, sees: Sees | None = None
) -> list[dict[str, Any]]:
    """Write what became of calls as input items, one for each.

    Raises:
        UnsupportedMediaError: The model cannot see the media, and `sees.unsupported` is "throw".
    """
    del definitions  # an answer is found by the id of its call alone
    able = seen(sees or Sees())
    return [sendable(_answered(await answer_of(outcome, able))) for outcome in outcomes]


def seen(sees: Sees) -> Sees:
    """Leave of what a model sees what this API can carry."""
    return replace(sees, mime_types=sees.mime_types & _NATIVE)


def items(steps: Sequence[Step], definitions: Definitions) -> list[dict[str, Any]]:
    """Write a conversation."""
    written: list[dict[str, Any]] = []
    for step in steps:
        if isinstance(step, Exchange):
            asked = cast("list[dict[str, Any]]", step.raw) if step.raw is not None else _asked(step, definitions)
            written += asked
            custom = {each["call_id"] for each in asked if each.get("type") == "custom_tool_call"}
            written += [_answered(each, is_custom=each.tool_call_id in custom) for each in step.answers]
        elif step.parts:
            written.append(_said(step))
    return written


def _said(said: Said) -> dict[str, Any]:
    if said.role != "user" or all(isinstance(part, TextPart) for part in said.parts):
        return {"role": said.role, "content": said.text}
    return {"role": "user", "content": [_part(part) for part in said.parts]}


def _asked(exchange: Exchange, definitions: Definitions) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "call_id": call.tool_call_id,
            "name": repeated_name(definitions.names.to_wire(call.name), DIALECT.limits),
            "arguments": repeated(call.args),
        }
        for call in exchange.calls
    ]
    return [{"role": "assistant", "content": exchange.text}, *asked] if exchange.text else asked


def _answered(answer: Answer, *, is_custom: bool = False) -> dict[str, Any]:
    output = [_part(part) for part in answer.parts] if answer.media else answer.text
    kind = "custom_tool_call_output" if is_custom else "function_call_output"
    return {"type": kind, "call_id": answer.tool_call_id, "output": output}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    url = f"data:{part.mime_type};base64,{part.base64}"
    if part.mime_type in IMAGES:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": part.media.safe_filename, "file_data": url}
