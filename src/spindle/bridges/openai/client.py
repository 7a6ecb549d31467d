"""The providers for OpenAI's two APIs: requests, responses and errors of its SDK."""

import json
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal
from weakref import WeakKeyDictionary

from spindle.bridges.definitions import Definitions
from spindle.bridges.openai import chat_completions, responses_api
from spindle.bridges.openai.chat_completions import ChatWriter
from spindle.bridges.openai.responses_api import ItemsWriter
from spindle.bridges.provider import ApiProvider, ModelResponse, ProviderFailure, ResponseAssembler, ToolChoice
from spindle.bridges.sdk_client import (
    SdkClient,
    SendRequest,
    closing_stream,
    describe_body,
    get_retry_after,
    get_words,
    read_foreign_body,
)
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import get_field, get_str, replace_lone_surrogates, split_request, to_plain
from spindle.errors import BrokenAnswerError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject, JsonValue
from spindle.turns.context import DispatchContext

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_STATUSES: Final = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "server_error": 500,
    "internal_error": 500,
    "api_error": 500,
    "overloaded_error": 503,
    "service_unavailable": 503,
    "vector_store_timeout": 504,
}
"""HTTP statuses for error codes inside a response, which have no status of their own."""


def raise_for_error(event: object) -> None:
    """Raise `BrokenAnswerError` if a stream event reports a failure."""
    kind = get_str(event, "type")
    if kind == "error":
        raise _build_error(event)
    if kind in {"response.failed", "response.cancelled"}:
        raise _build_error(get_field(get_field(event, "response"), "error"))


def raise_for_response(response: object) -> None:
    """Raise `BrokenAnswerError` if a response reports a failure, or is not a response."""
    if get_field(response, "error") is not None or get_str(response, "status") in {"failed", "cancelled"}:
        raise _build_error(get_field(response, "error"))
    if get_field(response, "choices") is None and get_field(response, "output") is None:
        raise BrokenAnswerError(f"Expected a response with choices or output, got: {describe_body(response)}")


def translate_sdk_error(error: Exception) -> ProviderFailure | None:
    """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
    import openai  # noqa: PLC0415  an extra

    if isinstance(error, openai.APIStatusError):
        # The SDK leaves out an error that is a bare text, as Ollama and LM Studio send it.
        words = f"{error.message} - {error.body}" if isinstance(error.body, str) else error.message
        return ProviderFailure(words, error.status_code, get_retry_after(error.response.headers), body=error.body)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        return ProviderFailure(
            f"{error.message} {type(cause).__name__}: {cause}" if cause is not None else error.message
        )
    if isinstance(error, openai.APIResponseValidationError):
        return ProviderFailure(error.message)
    if isinstance(error, openai.APIError):
        return ProviderFailure(get_words(error.body) or error.message, _status(error.body), body=error.body)
    # The SDK parses each event as JSON and does not translate a parse error.
    return (
        ProviderFailure(f"a stream event is not valid JSON: {error}")
        if isinstance(error, json.JSONDecodeError)
        else None
    )


def _build_error(error: object) -> BrokenAnswerError:
    words = get_words(error) or get_str(error, "code") or "the response failed without a message"
    return BrokenAnswerError(words, http_status=_status(error), body=to_plain(error))


def _status(error: object) -> int | None:
    """Return the HTTP status that matches an error inside a response; `None` if unknown."""
    code = get_field(error, "code")
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600:
        return code
    names = (get_str(error, "code"), get_str(error, "type"))
    known = next((_STATUSES[name] for name in names if name in _STATUSES), None)
    if known is None and any(name.isdecimal() and len(name) == 3 for name in names):
        return int(next(name for name in names if name.isdecimal() and len(name) == 3))
    return known if known is not None else 400 if any("invalid" in name for name in names) else None


def open_client(given: "AsyncOpenAI | None", *, base_url: str | None, api_key: str | None) -> "SdkClient[AsyncOpenAI]":
    """Return the SDK client to use, with its own retries disabled.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, the key is not valid, or the client is blocking.
    """
    with needs_extra("openai", purpose="the OpenAI callback"):
        from openai import AsyncOpenAI, OpenAI  # noqa: PLC0415  an extra
    return SdkClient(
        given,
        lambda key: AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0),
        base_url=base_url,
        api_key=api_key,
        keys=lambda client: [getattr(client, "api_key", None)],
        close=lambda client: client.close(),
        blocking=OpenAI,
    )


@dataclass(frozen=True, kw_only=True)
class _OpenaiProvider(ApiProvider):
    """The common base of both providers."""

    client: "SdkClient[AsyncOpenAI]" = field(repr=False)
    parallel: bool | None = None
    """Whether the model may request several calls at once; `None`: the API's default."""

    @property
    @abstractmethod
    def create(self) -> SendRequest:
        """The SDK method that sends a request."""

    @asynccontextmanager
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[object]]:
        """Send the request and yield the events of the response."""
        create = self.create
        async with closing_stream(await create(**split_request(create, request), stream=True)) as stream:
            body = await read_foreign_body(stream)
            if body is not None:
                raise_for_response(body)
            yield _raise_errors(stream)

    async def complete(self, request: JsonObject, assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response."""
        create = self.create
        # The API rejects the options of a stream here; a stream that broke at once is asked for as a whole.
        whole = {name: value for name, value in request.items() if name != "stream_options"}
        response = await create(**split_request(create, whole))
        raise_for_response(response)
        assembler.feed_response(response)
        return assembler.build_response()

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        return translate_sdk_error(error)

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request."""
        return self.client.secrets()

    def finish_request(
        self, written: JsonObject, options: JsonObject, ctx: DispatchContext, definitions: Definitions
    ) -> JsonObject:
        """Add the fields common to both APIs and the caller's `extra`; the caller's own tools come last."""
        if len(definitions):
            options["tools"] = definitions.tools
            if self.parallel is not None:
                options["parallel_tool_calls"] = self.parallel
            choice = self.build_tool_choice(ctx, definitions)
            if choice is not None:
                options["tool_choice"] = choice
        extra = dict(self.options.extra or {})
        for name in ("tools", "include"):
            if name in extra and name in options:
                extra[name] = [*options[name], *extra[name]]
        return written | replace_lone_surrogates(options | extra)


@dataclass(frozen=True, kw_only=True)
class ChatProvider(_OpenaiProvider):
    """The provider for Chat Completions."""

    api = chat_completions.API
    includes_usage: bool
    empty_content: Literal[""] | None = ""
    """The content of an assistant message that has calls and no text."""
    _writers: "WeakKeyDictionary[DispatchContext, ChatWriter]" = field(
        default_factory=WeakKeyDictionary["DispatchContext", ChatWriter], init=False, repr=False, compare=False
    )

    @property
    def create(self) -> SendRequest:
        """The SDK method that sends a request."""
        return self.client.get().chat.completions.create

    def format_tool_choice(self, choice: ToolChoice) -> JsonValue:
        """Write a tool choice in the API's form."""
        return {"type": "function", "function": {"name": choice.wire_name}} if choice.mode == "tool" else choice.mode

    async def build_request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> JsonObject:
        """Build the request."""
        writer = self._writers.setdefault(ctx, ChatWriter(empty_content=self.empty_content))
        messages = writer.write(steps, definitions)
        system_prompt = replace_lone_surrogates(await build_system_prompt(ctx))
        if system_prompt:
            messages.insert(0, {"role": "system", "content": system_prompt})
        options: JsonObject = {"stream_options": {"include_usage": True}} if self.includes_usage else {}
        return self.finish_request({"model": self.options.model, "messages": messages}, options, ctx, definitions)


@dataclass(frozen=True, kw_only=True)
class ResponsesProvider(_OpenaiProvider):
    """The provider for the Responses API."""

    api = responses_api.API
    store: bool | None
    _writers: "WeakKeyDictionary[DispatchContext, ItemsWriter]" = field(
        default_factory=WeakKeyDictionary["DispatchContext", ItemsWriter], init=False, repr=False, compare=False
    )

    @property
    def create(self) -> SendRequest:
        """The SDK method that sends a request."""
        return self.client.get().responses.create

    def format_tool_choice(self, choice: ToolChoice) -> JsonValue:
        """Write a tool choice in the API's form."""
        return {"type": "function", "name": choice.wire_name} if choice.mode == "tool" else choice.mode

    async def build_request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> JsonObject:
        """Build the request."""
        items = self._writers.setdefault(ctx, ItemsWriter()).write(steps, definitions)
        options: JsonObject = {}
        system_prompt = await build_system_prompt(ctx)
        if system_prompt:
            options["instructions"] = system_prompt
        if self.store is not None:
            options["store"] = self.store
        if self.store is False:
            options["include"] = ["reasoning.encrypted_content"]
        return self.finish_request({"model": self.options.model, "input": items}, options, ctx, definitions)


async def _raise_errors(stream: AsyncIterator[object]) -> AsyncGenerator[object]:
    async for event in stream:
        raise_for_error(event)
        yield event
