"""The provider for Anthropic's Messages API: requests, responses and errors of its official SDK."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.bridges.anthropic.conversation import build_messages, build_placeholder_tools
from spindle.bridges.anthropic.stream import Stream
from spindle.bridges.definitions import Definitions
from spindle.bridges.provider import ModelResponse, ProviderFailure, ResponseAssembler, resolve_tool_choice
from spindle.bridges.sdk_client import SdkClient, closing_stream
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import collect_system_texts, get_field, get_str, replace_lone_surrogates, split_request
from spindle.errors import ModelStoppedError
from spindle.extras import needs_extra
from spindle.tools.filters import ToolFilter
from spindle.turns.context import DispatchContext

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_KEEP: Final = {"cache_control": {"type": "ephemeral"}}
_MAX_PAUSES: Final = 10
_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP statuses of errors in the middle of a stream, whose own status was 200."""


def open_client(
    given: "AsyncAnthropic | None", *, base_url: str | None, api_key: str | None
) -> "SdkClient[AsyncAnthropic]":
    """Return the SDK client to use, with its own retries disabled.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, the key is not valid, or the client is blocking.
    """
    with needs_extra("anthropic", purpose="the Anthropic callback"):
        from anthropic import Anthropic, AsyncAnthropic  # noqa: PLC0415  an extra
    return SdkClient(
        given,
        lambda key: AsyncAnthropic(base_url=base_url, api_key=key, max_retries=0),
        base_url=base_url,
        api_key=api_key,
        keys=lambda client: [getattr(client, name, None) for name in ("api_key", "auth_token")],
        close=lambda client: client.close(),
        blocking=Anthropic,
    )


@dataclass(frozen=True, kw_only=True)
class MessagesProvider:
    """The provider for one model of the Messages API."""

    client: "SdkClient[AsyncAnthropic]" = field(repr=False)
    define: Callable[..., Definitions]
    model: str
    max_tokens: int
    is_strict: bool = False
    tool_choice: str | Mapping[str, Any] | None = None
    is_cached: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Return the tools in the provider's dialect."""
        return self.define(ctx.tools, filter=filter, strict=self.is_strict, events=ctx.events)

    async def build_request(
        self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions
    ) -> dict[str, Any]:
        """Build the request."""
        request: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "messages": build_messages(steps, definitions),
        }
        system = "\n\n".join(collect_system_texts(await build_system_prompt(ctx), steps))
        if system:
            request["system"] = [{"type": "text", "text": system} | (_KEEP if self.is_cached else {})]
        tools = definitions.tools
        if tools and self.is_cached:
            tools[-1] |= _KEEP
        tools += self.extra.get("tools", ())
        if tools:
            request["tools"] = tools
            request |= self._choice(definitions, trip=ctx.iteration)
        elif bygone := build_placeholder_tools(request["messages"]):
            request |= {"tools": bygone, "tool_choice": {"type": "none"}}
        rest = {name: value for name, value in self.extra.items() if name != "tools"}
        return replace_lone_surrogates(request | rest)

    def _choice(self, definitions: Definitions, *, trip: int) -> dict[str, Any]:
        if isinstance(self.tool_choice, Mapping):
            return {"tool_choice": dict(self.tool_choice)}
        choice = resolve_tool_choice(self.tool_choice, definitions, iteration=trip)
        if choice is None:
            return {}
        if choice.mode == "tool":
            return {"tool_choice": {"type": "tool", "name": choice.wire_name}}
        return {"tool_choice": {"type": "any" if choice.mode == "required" else choice.mode}}

    def stream(self, request: dict[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        """Send the request and yield the events of the response."""
        return self._closing(request)

    @asynccontextmanager
    async def _closing(self, request: dict[str, Any]) -> AsyncGenerator[AsyncIterator[Any]]:
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: dict[str, Any]) -> AsyncGenerator[Any]:
        create = self._create()
        for _ in range(_MAX_PAUSES + 1):
            heard: list[Any] = []
            async with closing_stream(await create(**split_request(create, request), stream=True)) as events:
                async for event in events:
                    heard.append(event)
                    yield event
            if not any(get_str(get_field(event, "delta"), "stop_reason") == "pause_turn" for event in heard):
                return
            so_far = Stream()
            for event in heard:
                so_far.feed(event)
            if so_far.calls():
                return
            request = _resumed(request, so_far)
        raise _paused_too_often()

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> Stream:
        """Return an assembler for these events."""
        return Stream(definitions, taken=taken)

    async def complete(self, request: dict[str, Any], assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response; resume it while the API pauses."""
        create = self._create()
        for _ in range(_MAX_PAUSES + 1):
            response = await create(**split_request(create, request))
            assembler.feed_response(response)
            so_far = Stream()
            so_far.feed_response(response)
            if so_far.finish_reason != "pause_turn" or so_far.calls():
                return assembler.build_response()
            request = _resumed(request, so_far)
        raise _paused_too_often()

    def _create(self) -> Any:
        return self.client.get().messages.create

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        import anthropic  # noqa: PLC0415  an extra
        import httpx2  # noqa: PLC0415  it comes with the extra

        says = f"{type(error).__name__}: {error}"
        if isinstance(error, anthropic.APIStatusError):
            return ProviderFailure(says, _status(error.status_code, error.body), _retry_after(error.response.headers))
        unreadable = (anthropic.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError)
        if isinstance(error, (anthropic.APIConnectionError, httpx2.TransportError, *unreadable)):
            return ProviderFailure(says)
        return None

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request."""
        return self.client.secrets()


def _resumed(request: dict[str, Any], so_far: Stream) -> dict[str, Any]:
    """Return the request that continues a paused response: the API requires its content so far, and nothing else."""
    messages = cast("list[dict[str, Any]]", request["messages"])
    content = so_far.raw
    if messages[-1]["role"] == "assistant":
        content = [*messages[-1]["content"], *content]
        messages = messages[:-1]
    return request | {"messages": [*messages, replace_lone_surrogates({"role": "assistant", "content": content})]}


def _paused_too_often() -> ModelStoppedError:
    return ModelStoppedError(f"the model paused its response more than {_MAX_PAUSES} times", reason="pause_turn")


def _status(status: int, body: object) -> int:
    if status >= 300:
        return status
    # A stream that fails midway had the status 200; the error type determines the status.
    return _STATUSES.get(get_str(get_field(body, "error"), "type"), 500)


def _retry_after(headers: Mapping[str, str]) -> str | None:
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None and milliseconds.isdecimal():
        return str(int(milliseconds) / 1000)
    return headers.get("retry-after")
