"""The dialect of Gemini's generateContent, and a ready executor callback on its official SDK."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from spindle.bridges import dialects
from spindle.bridges.definitions import Definitions, Spec, build
from spindle.bridges.gemini.client import GenerateProvider, client_of
from spindle.bridges.gemini.conversation import responses_of, seen
from spindle.bridges.gemini.stream import Stream
from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.bridges.rendering import Sees, answer_of
from spindle.bridges.wire import replace_lone_surrogates
from spindle.calls import Call, CallOutcome
from spindle.events import Events
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from google.genai import Client as GenaiClient

__all__ = ["DIALECT", "Stream", "calls", "definitions", "generate", "results"]

DIALECT: Final = dialects.GEMINI


def definitions(
    tools: ToolRegistry | Iterable[Tool],
    *,
    filter: ToolFilter | None = None,
    strict: bool = False,
    events: Events | None = None,
) -> Definitions:
    """Tell the model about tools, each as a function declaration; the API has no strict form of them.

    Raises:
        CannotLowerError: A tool's schema cannot be told at all.
        NameClashError: Two tools would have the same name on the wire.
    """
    return build(DIALECT, tools, _wrap, filter=filter, strict=strict, events=events)


def _wrap(spec: Spec) -> dict[str, Any]:
    told: dict[str, Any] = {"name": spec.name, "description": spec.description}
    # The API refuses an object without properties; a tool without arguments has no parameters at all.
    has_parameters = bool(spec.schema.get("properties")) or "anyOf" in spec.schema
    return told | ({"parameters": spec.schema} if has_parameters else {})


def calls(response: Any, definitions: Definitions | None = None) -> list[Call]:
    """Read the calls of a whole response, the SDK's object or plain data."""
    stream = Stream(definitions)
    stream.feed_whole(response)
    return stream.calls()


async def results(
    outcomes: Sequence[CallOutcome], *, definitions: Definitions | None = None, sees: Sees | None = None
) -> list[dict[str, Any]]:
    """Write what became of calls as `functionResponse` parts in their order: the beginning of the next user content.

    Raises:
        UnsupportedMediaError: The model cannot see the media, and `sees.unsupported` is "throw".
    """
    able = seen(sees)
    return replace_lone_surrogates(responses_of([await answer_of(outcome, able) for outcome in outcomes], definitions))


def generate(
    *,
    model: str,
    client: "GenaiClient | None" = None,
    base_url: str | None = None,
    api_key: str | None = None,
    tool_choice: str | Mapping[str, Any] | None = None,
    stream: bool = True,
    retries: Retries | None = None,
    filter: ToolFilter | None = None,
    sees: Sees | None = None,
    media_in_results: bool = True,
    extra: Mapping[str, Any] | None = None,
) -> ModelCallback:
    """Make an executor callback that asks a model through `google.genai`: on asyncio, and on trio without aiohttp.

    `tool_choice` is "auto", "none", "required", the name of a tool, or the API's own `toolConfig`, which is sent on
    every trip; a name and "required" hold for the first trip only, or the turn could never end. With `media_in_results`
    images and documents stand inside the function's response, as Gemini 3 takes them; older models want them after it.
    `extra` goes into each request's config; its `tools` are those that Google runs itself, told besides ours. Without a
    `client` it makes its own, which `await callback.aclose()` closes.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its address or key were given, or the key is none.
    """
    asked = client_of(client, base_url=base_url, api_key=api_key)
    provider = GenerateProvider(
        client=asked,
        define=definitions,
        model=model,
        tool_choice=tool_choice,
        is_media_inside=media_in_results,
        extra=dict(extra or {}),
    )
    return ModelCallback(
        provider=provider,
        sees=seen(sees),
        is_streaming=stream,
        retries=retries or Retries(),
        filter=filter,
        close=asked.close,
    )
