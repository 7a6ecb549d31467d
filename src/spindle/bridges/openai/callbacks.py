"""Executor callbacks on OpenAI's SDK, for OpenAI and every server compatible with its APIs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.bridges.openai import chat_completions, responses_api
from spindle.bridges.openai.client import ChatProvider, Options, ResponsesProvider, open_client
from spindle.bridges.rendering import MediaSupport
from spindle.tools.filters import ToolFilter

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def chat(
    *,
    model: str,
    client: "AsyncOpenAI | None" = None,
    base_url: str | None = None,
    api_key: str | None = None,
    strict: bool = False,
    tool_choice: str | Mapping[str, Any] | None = None,
    parallel_tool_calls: bool | None = None,
    stream: bool = True,
    include_usage: bool = True,
    retries: Retries | None = None,
    sees: MediaSupport | None = None,
    filter: ToolFilter | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses Chat Completions.

    `base_url` may be any compatible server. `tool_choice` is "auto", "none", "required", the name of a tool, or the
    API's own object, which is sent on every iteration; a name and "required" apply to the first iteration only, or
    the turn would never end. `include_usage` requests token counts in a stream, which some servers reject. `extra` is
    merged into every request. Without a `client` a new one is created, which `await callback.aclose()` closes.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    options = Options(
        model=model, strict=strict, tool_choice=tool_choice, parallel=parallel_tool_calls, extra=extra or {}
    )
    asked = open_client(client, base_url=base_url, api_key=api_key)
    return ModelCallback(
        provider=ChatProvider(asked, options, includes_usage=stream and include_usage),
        media_support=chat_completions.restrict_media(sees or MediaSupport()),
        is_streaming=stream,
        retries=retries or Retries(),
        filter=filter,
        close=asked.close,
    )


def responses(
    *,
    model: str,
    client: "AsyncOpenAI | None" = None,
    base_url: str | None = None,
    api_key: str | None = None,
    strict: bool = False,
    tool_choice: str | Mapping[str, Any] | None = None,
    parallel_tool_calls: bool | None = None,
    stream: bool = True,
    store: bool | None = None,
    retries: Retries | None = None,
    sees: MediaSupport | None = None,
    filter: ToolFilter | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses the Responses API.

    With `store=False` the provider stores nothing, and the model's reasoning is sent back encrypted. The other
    options are those of `chat`.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    options = Options(
        model=model, strict=strict, tool_choice=tool_choice, parallel=parallel_tool_calls, extra=extra or {}
    )
    asked = open_client(client, base_url=base_url, api_key=api_key)
    return ModelCallback(
        provider=ResponsesProvider(asked, options, store=store),
        media_support=responses_api.restrict_media(sees or MediaSupport()),
        is_streaming=stream,
        retries=retries or Retries(),
        filter=filter,
        close=asked.close,
    )
