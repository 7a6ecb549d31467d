"""The dialect of Gemini's generateContent, and an executor callback on its official SDK."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from spindle.bridges import dialects
from spindle.bridges.definitions import Definitions, Spec, build
from spindle.bridges.gemini.client import GenerateProvider, open_client
from spindle.bridges.gemini.conversation import build_responses, restrict_media
from spindle.bridges.gemini.stream import Stream
from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.bridges.rendering import MediaSupport, render_result
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
    """Return the definitions of tools as function declarations; the API has no strict form of them.

    Raises:
        CannotLowerError: A tool's schema cannot be expressed in this dialect.
        NameClashError: Two tools would have the same name on the wire.
    """
    return build(DIALECT, tools, _wrap, filter=filter, strict=strict, events=events)


def _wrap(spec: Spec) -> dict[str, Any]:
    told: dict[str, Any] = {"name": spec.name, "description": spec.description}
    # The API rejects an object without properties; a tool without arguments has no parameters.
    has_parameters = bool(spec.schema.get("properties")) or "anyOf" in spec.schema
    return told | ({"parameters": spec.schema} if has_parameters else {})


def calls(response: Any, definitions: Definitions | None = None) -> list[Call]:
    """Return the calls of a complete response, given as an SDK object or plain data."""
    stream = Stream(definitions)
    stream.feed_response(response)
    return stream.calls()


async def results(
    outcomes: Sequence[CallOutcome], *, definitions: Definitions | None = None, sees: MediaSupport | None = None
) -> list[dict[str, Any]]:
    """Return outcomes as `functionResponse` parts, in order, to start the next user content with.

    Raises:
        UnsupportedMediaError: The model does not accept the media, and `sees.unsupported` is "throw".
    """
    able = restrict_media(sees)
    return replace_lone_surrogates(
        build_responses([await render_result(outcome, able) for outcome in outcomes], definitions)
    )


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
    sees: MediaSupport | None = None,
    media_in_results: bool = True,
    extra: Mapping[str, Any] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses `google.genai`, on asyncio, or on trio without aiohttp.

    `tool_choice` is "auto", "none", "required", the name of a tool, or the API's own `toolConfig`, which is sent on
    every iteration; a name and "required" apply to the first iteration only, or the turn would never end. With
    `media_in_results` images and documents are part of the function response, as Gemini 3 accepts them; older models
    require them after it. `extra` is merged into each request's config; its `tools` are those that Google runs itself,
    and follow ours. Without a `client` a new one is created, which `await callback.aclose()` closes.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    asked = open_client(client, base_url=base_url, api_key=api_key)
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
        media_support=restrict_media(sees),
        is_streaming=stream,
        retries=retries or Retries(),
        filter=filter,
        close=asked.close,
    )
