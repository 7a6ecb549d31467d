"""The dialect of Anthropic's Messages API, and an executor callback on its official SDK."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from spindle.bridges import dialects
from spindle.bridges.anthropic.client import MessagesProvider, open_client
from spindle.bridges.anthropic.conversation import build_result, restrict_media
from spindle.bridges.anthropic.stream import Stream
from spindle.bridges.definitions import Definitions, Spec, build
from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.bridges.rendering import MediaSupport, render_result
from spindle.bridges.wire import replace_lone_surrogates
from spindle.calls import Call, CallOutcome
from spindle.events import Events
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["DIALECT", "Stream", "calls", "definitions", "messages", "results"]

DIALECT: Final = dialects.ANTHROPIC


def definitions(
    tools: ToolRegistry | Iterable[Tool],
    *,
    filter: ToolFilter | None = None,
    strict: bool = False,
    events: Events | None = None,
) -> Definitions:
    """Return the definitions of tools for this API.

    Raises:
        CannotLowerError: A tool's schema cannot be expressed in this dialect.
        NameClashError: Two tools would have the same name on the wire.
    """
    return build(DIALECT, tools, _wrap, filter=filter, strict=strict, events=events)


def _wrap(spec: Spec) -> dict[str, Any]:
    told: dict[str, Any] = {"name": spec.name, "description": spec.description, "input_schema": spec.schema}
    return told | ({"strict": True} if spec.strict else {})


def calls(response: Any, definitions: Definitions | None = None) -> list[Call]:
    """Return the calls of a complete response, given as an SDK object or plain data."""
    stream = Stream(definitions)
    stream.feed_response(response)
    return stream.calls()


async def results(
    outcomes: Sequence[CallOutcome], *, definitions: Definitions | None = None, sees: MediaSupport | None = None
) -> list[dict[str, Any]]:
    """Return outcomes as `tool_result` blocks, one for each call, to start the next user message with.

    Raises:
        UnsupportedMediaError: The model does not accept the media, and `sees.unsupported` is "throw".
    """
    del definitions  # results are matched by call id alone
    able = restrict_media(sees)
    return [replace_lone_surrogates(build_result(await render_result(outcome, able))) for outcome in outcomes]


def messages(
    *,
    model: str,
    client: "AsyncAnthropic | None" = None,
    base_url: str | None = None,
    api_key: str | None = None,
    max_tokens: int = 16_000,
    strict: bool = False,
    tool_choice: str | Mapping[str, Any] | None = None,
    stream: bool = True,
    retries: Retries | None = None,
    filter: ToolFilter | None = None,
    sees: MediaSupport | None = None,
    cache: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses `AsyncAnthropic`, on asyncio or trio.

    `tool_choice` is "auto", "none", "required", the name of a tool, or the API's own object, which is sent on every
    iteration; a name and "required" apply to the first iteration only, or the turn would never end. `cache` marks tools
    and system prompt for caching. `extra` is merged into each request; its `tools` are those that Anthropic
    runs itself, and follow ours. Without a `client` a new one is created, which `await callback.aclose()` closes.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    asked = open_client(client, base_url=base_url, api_key=api_key)
    provider = MessagesProvider(
        client=asked,
        define=definitions,
        model=model,
        max_tokens=max_tokens,
        is_strict=strict,
        tool_choice=tool_choice,
        is_cached=cache,
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
