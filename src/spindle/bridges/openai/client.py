"""The providers for OpenAI's two APIs: requests, responses and errors of its SDK."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spindle.bridges.definitions import Definitions
from spindle.bridges.openai import chat_completions, responses_api
from spindle.bridges.provider import ModelResponse, ProviderFailure, ResponseAssembler, ToolChoice, resolve_tool_choice
from spindle.bridges.sdk_client import SdkClient, closing_stream
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import get_field, get_str, replace_lone_surrogates, split_request
from spindle.errors import BrokenAnswerError
from spindle.extras import needs_extra
from spindle.tools.filters import ToolFilter
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


def raise_for_error(event: Any) -> None:
    """Raise `BrokenAnswerError` if a stream event reports a failure."""
    kind = get_str(event, "type")
    if kind == "error":
        raise _build_error(event)
    if kind in {"response.failed", "response.cancelled"}:
        raise _build_error(get_field(get_field(event, "response"), "error"))


def raise_for_response(response: Any) -> None:
    """Raise `BrokenAnswerError` if a response reports a failure, or is not a response."""
    if get_field(response, "error") is not None or get_str(response, "status") in {"failed", "cancelled"}:
        raise _build_error(get_field(response, "error"))
    if get_field(response, "choices") is None and get_field(response, "output") is None:
        raise BrokenAnswerError(f"Expected a response with choices or output, got: {response}")


def translate_sdk_error(error: Exception) -> ProviderFailure | None:
    """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
    import openai  # noqa: PLC0415  an extra

    if isinstance(error, openai.APIStatusError):
        return ProviderFailure(error.message, error.status_code, _retry_after(error.response.headers))
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        return ProviderFailure(
            f"{error.message} {type(cause).__name__}: {cause}" if cause is not None else error.message
        )
    if isinstance(error, openai.APIResponseValidationError):
        return ProviderFailure(error.message)
    if isinstance(error, openai.APIError):
        return ProviderFailure(error.message, _status(error.body))
    # The SDK parses each event as JSON and does not translate a parse error.
    return (
        ProviderFailure(f"a stream event is not valid JSON: {error}")
        if isinstance(error, json.JSONDecodeError)
        else None
    )


def _build_error(error: Any) -> BrokenAnswerError:
    words = get_str(error, "message") or get_str(error, "code") or "the response failed without a message"
    return BrokenAnswerError(words, http_status=_status(error))


def _status(error: Any) -> int | None:
    """Return the HTTP status that matches an error inside a response; `None` if unknown."""
    code = get_field(error, "code")
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600:
        return code
    names = (get_str(error, "code"), get_str(error, "type"))
    known = next((_STATUSES[name] for name in names if name in _STATUSES), None)
    if known is None and any(name.isdecimal() and len(name) == 3 for name in names):
        return int(next(name for name in names if name.isdecimal() and len(name) == 3))
    return known if known is not None else 400 if any("invalid" in name for name in names) else None


def _retry_after(headers: Mapping[str, str]) -> str | None:
    milliseconds = headers.get("retry-after-ms")
    try:
        return str(float(milliseconds) / 1000) if milliseconds else headers.get("retry-after")
    except ValueError:
        return headers.get("retry-after")


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The request options common to both APIs."""

    model: str
    strict: bool
    tool_choice: str | Mapping[str, Any] | None
    parallel: bool | None
    extra: Mapping[str, Any] = field(repr=False)

    def resolve_choice(self, ctx: DispatchContext, definitions: Definitions) -> ToolChoice | None:
        """Return the tool choice for this iteration.

        Raises:
            UnknownToolError: It names a tool that is not shown to the model.
        """
        return resolve_tool_choice(self.tool_choice, definitions, iteration=ctx.iteration)

    def finish_request(self, request: dict[str, Any], definitions: Definitions) -> dict[str, Any]:
        """Add the fields common to both APIs and the caller's `extra`; the caller's own tools come last."""
        if len(definitions):
            request["tools"] = definitions.tools
            if self.parallel is not None:
                request["parallel_tool_calls"] = self.parallel
            if isinstance(self.tool_choice, Mapping):
                request["tool_choice"] = dict(self.tool_choice)
        extra = dict(self.extra)
        for name in ("tools", "include"):
            if name in extra and name in request:
                extra[name] = [*request[name], *extra[name]]
        return replace_lone_surrogates(request | extra)


@dataclass(frozen=True)
class _Provider:
    """The common base of both providers."""

    client: "SdkClient[AsyncOpenAI]" = field(repr=False)
    options: Options

    dialect: ClassVar[Any]

    @property
    def create(self) -> Any:
        """The SDK method that sends a request."""
        raise NotImplementedError

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Return the tools in the API's dialect."""
        return self.dialect.definitions(ctx.tools, filter=filter, strict=self.options.strict, events=ctx.events)

    @asynccontextmanager
    async def stream(self, request: dict[str, Any]) -> AsyncGenerator[AsyncIterator[Any]]:
        """Send the request and yield the events of the response."""
        create = self.create
        async with closing_stream(await create(**split_request(create, request), stream=True)) as stream:
            yield _checked(stream)

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> ResponseAssembler:
        """Return an assembler for these events."""
        return self.dialect.Stream(definitions, taken=taken)

    async def complete(self, request: dict[str, Any], assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response."""
        create = self.create
        response = await create(**split_request(create, request))
        raise_for_response(response)
        assembler.feed_response(response)
        return assembler.build_response()

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        return translate_sdk_error(error)

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request."""
        return self.client.secrets()


@dataclass(frozen=True)
class ChatProvider(_Provider):
    """The provider for Chat Completions."""

    includes_usage: bool

    dialect = chat_completions

    @property
    def create(self) -> Any:
        """The SDK method that sends a request."""
        return self.client.get().chat.completions.create

    async def build_request(
        self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions
    ) -> dict[str, Any]:
        """Build the request."""
        written = chat_completions.messages(await build_system_prompt(ctx), steps, definitions)
        request: dict[str, Any] = {"model": self.options.model, "messages": written}
        choice = self.options.resolve_choice(ctx, definitions)
        if choice is not None:
            named = {"type": "function", "function": {"name": choice.wire_name}}
            request["tool_choice"] = named if choice.mode == "tool" else choice.mode
        if self.includes_usage:
            request["stream_options"] = {"include_usage": True}
        return self.options.finish_request(request, definitions)


@dataclass(frozen=True)
class ResponsesProvider(_Provider):
    """The provider for the Responses API."""

    store: bool | None

    dialect = responses_api

    @property
    def create(self) -> Any:
        """The SDK method that sends a request."""
        return self.client.get().responses.create

    async def build_request(
        self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions
    ) -> dict[str, Any]:
        """Build the request."""
        request: dict[str, Any] = {"model": self.options.model, "input": responses_api.items(steps, definitions)}
        told = await build_system_prompt(ctx)
        if told:
            request["instructions"] = told
        choice = self.options.resolve_choice(ctx, definitions)
        if choice is not None:
            named = {"type": "function", "name": choice.wire_name}
            request["tool_choice"] = named if choice.mode == "tool" else choice.mode
        if self.store is not None:
            request["store"] = self.store
        if self.store is False:
            request["include"] = ["reasoning.encrypted_content"]
        return self.options.finish_request(request, definitions)


async def _checked(stream: AsyncIterator[Any]) -> AsyncGenerator[Any]:
    async for event in stream:
        raise_for_error(event)
        yield event
