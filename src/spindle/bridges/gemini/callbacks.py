"""An executor callback on Google's official SDK for Gemini."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spindle.bridges.gemini.client import GenerateProvider, open_client
from spindle.bridges.model_callback import ModelCallback, Retries, create_callback
from spindle.bridges.provider import RequestOptions
from spindle.bridges.rendering import MediaSupport
from spindle.json_types import JsonValue
from spindle.tools.filters import ToolFilter

if TYPE_CHECKING:
    from google.genai import Client as GenaiClient


def generate(
    *,
    model: str,
    client: "GenaiClient | None" = None,
    base_url: str | None = None,
    api_key: str | None = None,
    tool_choice: str | Mapping[str, JsonValue] | None = None,
    stream: bool = True,
    retries: Retries | None = None,
    filter: ToolFilter | None = None,
    media: MediaSupport | None = None,
    media_in_results: bool = True,
    context_tokens: int | None = None,
    extra: Mapping[str, JsonValue] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses `google.genai`, on asyncio, or on trio without aiohttp.

    `tool_choice` is "auto", "none", "required", the name of a tool, or the API's own `toolConfig`, which is sent on
    every iteration; a name and "required" apply to the first iteration only, or the turn would never end. With
    `media_in_results` images and documents are part of the function response, as Gemini 3 accepts them; older models
    require them after it. `context_tokens` is the size of the model's context window; the default budget of results is
    then at most a quarter of it. `extra` is merged into each request's config; its `tools` are those that Google runs
    itself, and follow ours. Without a `client` a new one is created, which `await callback.aclose()` closes.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    provider = GenerateProvider(
        client=open_client(client, base_url=base_url, api_key=api_key),
        options=RequestOptions(model=model, tool_choice=tool_choice, extra=extra),
        is_media_inside=media_in_results,
    )
    return create_callback(
        provider,
        stream=stream,
        retries=retries,
        filter=filter,
        media=media,
        context_tokens=context_tokens,
        close=provider.client.close,
    )
