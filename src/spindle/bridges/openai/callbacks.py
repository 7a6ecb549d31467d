"""Executor callbacks on OpenAI's SDK, for OpenAI and every server compatible with its APIs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from spindle.bridges.model_callback import ModelCallback, Retries, create_callback
from spindle.bridges.openai.client import ChatProvider, ResponsesProvider, open_client
from spindle.bridges.provider import RequestOptions
from spindle.bridges.rendering import MediaSupport
from spindle.json_types import JsonValue
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
    tool_choice: str | Mapping[str, JsonValue] | None = None,
    parallel_tool_calls: bool | None = None,
    stream: bool = True,
    include_usage: bool = True,
    empty_content: Literal[""] | None = "",
    retries: Retries | None = None,
    media: MediaSupport | None = None,
    filter: ToolFilter | None = None,
    context_tokens: int | None = None,
    extra: Mapping[str, JsonValue] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses Chat Completions.

    `base_url` may be any compatible server. `tool_choice` is "auto", "none", "required", the name of a tool, or the
    API's own object, which is sent on every iteration; a name and "required" apply to the first iteration only, or
    the turn would never end. `include_usage` requests token counts in a stream, which some servers reject.
    `empty_content` is sent where an answer with calls has no text; few servers require null. `context_tokens` is the
    size of the model's context window; the default budget of results is then at most a quarter of it. `extra` is merged
    into every request. Without a `client` a new one is created, which `await callback.aclose()` closes.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    provider = ChatProvider(
        client=open_client(client, base_url=base_url, api_key=api_key),
        options=RequestOptions(model=model, strict=strict, tool_choice=tool_choice, extra=extra),
        parallel=parallel_tool_calls,
        includes_usage=stream and include_usage,
        empty_content=empty_content,
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


def responses(
    *,
    model: str,
    client: "AsyncOpenAI | None" = None,
    base_url: str | None = None,
    api_key: str | None = None,
    strict: bool = False,
    tool_choice: str | Mapping[str, JsonValue] | None = None,
    parallel_tool_calls: bool | None = None,
    stream: bool = True,
    store: bool | None = None,
    retries: Retries | None = None,
    media: MediaSupport | None = None,
    filter: ToolFilter | None = None,
    context_tokens: int | None = None,
    extra: Mapping[str, JsonValue] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses the Responses API.

    With `store=False` the provider stores nothing, and the model's reasoning is sent back encrypted. The other
    options are those of `chat`.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    provider = ResponsesProvider(
        client=open_client(client, base_url=base_url, api_key=api_key),
        options=RequestOptions(model=model, strict=strict, tool_choice=tool_choice, extra=extra),
        parallel=parallel_tool_calls,
        store=store,
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
