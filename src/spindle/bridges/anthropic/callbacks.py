"""An executor callback on Anthropic's official SDK."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spindle.bridges.anthropic.client import MessagesProvider, open_client
from spindle.bridges.model_callback import ModelCallback, Retries, create_callback
from spindle.bridges.provider import RequestOptions
from spindle.bridges.rendering import MediaSupport
from spindle.json_types import JsonValue
from spindle.tools.filters import ToolFilter

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


def messages(
    *,
    model: str,
    client: "AsyncAnthropic | None" = None,
    base_url: str | None = None,
    api_key: str | None = None,
    max_tokens: int = 16_000,
    strict: bool = False,
    tool_choice: str | Mapping[str, JsonValue] | None = None,
    stream: bool = True,
    retries: Retries | None = None,
    filter: ToolFilter | None = None,
    media: MediaSupport | None = None,
    cache: bool = False,
    context_tokens: int | None = None,
    extra: Mapping[str, JsonValue] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses `AsyncAnthropic`, on asyncio or trio.

    `tool_choice` is "auto", "none", "required", the name of a tool, or the API's own object, which is sent on every
    iteration; a name and "required" apply to the first iteration only, or the turn would never end. `cache` marks tools
    and system prompt for caching. `context_tokens` is the size of the model's context window; the default budget of
    results is then at most a quarter of it. `extra` is merged into each request; its `tools` are those that Anthropic
    runs itself, and follow ours. Without a `client` a new one is created, which `await callback.aclose()` closes.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    provider = MessagesProvider(
        client=open_client(client, base_url=base_url, api_key=api_key),
        options=RequestOptions(model=model, strict=strict, tool_choice=tool_choice, extra=extra),
        max_tokens=max_tokens,
        is_cached=cache,
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
