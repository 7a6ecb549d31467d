"""The provider for Anthropic's Messages API: requests, responses and errors of its official SDK."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from spindle.bridges.anthropic.conversation import API, MessagesWriter, build_placeholder_tools
from spindle.bridges.anthropic.stream import Stream
from spindle.bridges.definitions import Definitions
from spindle.bridges.provider import ApiProvider, ModelResponse, ProviderFailure, ResponseAssembler, ToolChoice
from spindle.bridges.sdk_client import (
    SdkClient,
    SendRequest,
    closing_stream,
    describe_body,
    get_retry_after,
    read_foreign_body,
)
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import (
    get_field,
    get_str,
    replace_lone_surrogates,
    split_request,
    to_plain,
)
from spindle.errors import BrokenAnswerError, ModelStoppedError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject, JsonValue
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
class MessagesProvider(ApiProvider):
    """The provider for one model of the Messages API."""

    api = API
    client: "SdkClient[AsyncAnthropic]" = field(repr=False)
    max_tokens: int
    is_cached: bool = False
    _writers: "WeakKeyDictionary[DispatchContext, MessagesWriter]" = field(
        default_factory=WeakKeyDictionary["DispatchContext", MessagesWriter], init=False, repr=False, compare=False
    )

    async def build_request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> JsonObject:
        """Build the request."""
        writer = self._writers.setdefault(ctx, MessagesWriter())
        messages = writer.write(steps, definitions)
        request: JsonObject = {}
        system = "\n\n".join(writer.collect_system_texts(await build_system_prompt(ctx)))
        if system:
            request["system"] = [{"type": "text", "text": system} | (_KEEP if self.is_cached else {})]
        tools = definitions.tools
        if tools and self.is_cached:
            tools[-1] |= _KEEP
        extra = dict(self.options.extra or {})
        tools += extra.pop("tools", ())
        if tools:
            request["tools"] = tools
            choice = self.build_tool_choice(ctx, definitions)
            if choice is not None:
                request["tool_choice"] = choice
        elif placeholders := build_placeholder_tools(messages):
            request |= {"tools": placeholders, "tool_choice": {"type": "none"}}
        written: JsonObject = {"model": self.options.model, "max_tokens": self.max_tokens, "messages": messages}
        return written | replace_lone_surrogates(request | extra)

    def format_tool_choice(self, choice: ToolChoice) -> JsonValue:
        """Write a tool choice in the API's form."""
        if choice.mode == "tool":
            return {"type": "tool", "name": choice.wire_name}
        return {"type": "any" if choice.mode == "required" else choice.mode}

    @asynccontextmanager
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[object]]:
        """Send the request and yield the events of the response."""
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: JsonObject) -> AsyncGenerator[object]:
        create = self._create()
        for _ in range(_MAX_PAUSES + 1):
            received: list[object] = []
            async with closing_stream(await create(**split_request(create, request), stream=True)) as events:
                body = await read_foreign_body(events)
                if body is not None:
                    _raise_for_response(body)
                async for event in events:
                    received.append(event)
                    yield event
            if not any(get_str(get_field(event, "delta"), "stop_reason") == "pause_turn" for event in received):
                return
            so_far = Stream()
            for event in received:
                so_far.feed(event)
            if so_far.calls():
                return
            request = _build_resumption(request, so_far)
        raise _build_pause_error()

    async def complete(self, request: JsonObject, assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response; resume it while the API pauses."""
        create = self._create()
        for _ in range(_MAX_PAUSES + 1):
            response = await create(**split_request(create, request))
            _raise_for_response(response)
            assembler.feed_response(response)
            so_far = Stream()
            so_far.feed_response(response)
            if so_far.finish_reason != "pause_turn" or so_far.calls():
                return assembler.build_response()
            request = _build_resumption(request, so_far)
        raise _build_pause_error()

    def _create(self) -> SendRequest:
        return self.client.get().messages.create

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        import anthropic  # noqa: PLC0415  an extra
        import httpx2  # noqa: PLC0415  it comes with the extra

        message = f"{type(error).__name__}: {error}"
        if isinstance(error, anthropic.APIStatusError):
            status, retry_after = _status(error.status_code, error.body), get_retry_after(error.response.headers)
            return ProviderFailure(message, status, retry_after, body=error.body)
        unreadable = (anthropic.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError)
        if isinstance(error, (anthropic.APIConnectionError, httpx2.TransportError, *unreadable)):
            return ProviderFailure(message)
        return None

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request."""
        return self.client.secrets()


def _raise_for_response(response: object) -> None:
    """Raise `BrokenAnswerError` if a response with the status 200 is an error or a page instead of a message."""
    if get_field(response, "content") is None:
        error = to_plain(get_field(response, "error"))
        status = None if error is None else _status(200, {"error": error})
        raise BrokenAnswerError(
            f"Expected a message with content, got: {describe_body(response)}", http_status=status, body=error
        )


def _build_resumption(request: JsonObject, so_far: Stream) -> JsonObject:
    """Return the request that continues a paused response: the API requires its content so far, and nothing else."""
    messages: list[JsonObject] = request["messages"]
    content = so_far.raw
    if messages[-1]["role"] == "assistant":
        content = [*messages[-1]["content"], *content]
        messages = messages[:-1]
    return request | {"messages": [*messages, replace_lone_surrogates({"role": "assistant", "content": content})]}


def _build_pause_error() -> ModelStoppedError:
    return ModelStoppedError(f"the model paused its response more than {_MAX_PAUSES} times", reason="pause_turn")


def _status(status: int, body: object) -> int:
    if status >= 300:
        return status
    # A stream that fails midway had the status 200; the error type determines the status.
    return _STATUSES.get(get_str(get_field(body, "error"), "type"), 500)
