"""OpenAI's two APIs behind its SDK, as executor callbacks ask them."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from spindle.bridges import openai_chat, openai_responses
from spindle.bridges.definitions import Definitions
from spindle.bridges.openai_failures import failure_of, raise_for_error, raise_for_response
from spindle.bridges.provider import Answered, AnswerStream, Failure
from spindle.bridges.reading import sendable
from spindle.bridges.sdk_arguments import arguments_of
from spindle.bridges.sdk_client import SdkClient, hanging_up
from spindle.bridges.standing import system_text
from spindle.bridges.tool_choice import Choice, chosen
from spindle.bridges.transcript import Step
from spindle.extras import needs_extra
from spindle.tools.filters import ToolFilter
from spindle.turns.context import DispatchContext

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def client_of(given: "AsyncOpenAI | None", *, base_url: str | None, api_key: str | None) -> "SdkClient[AsyncOpenAI]":
    """Give the client to ask with; its own retries are off.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its address or key were given, the key is none, or the client is a blocking one.
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
    """What both APIs can be told."""

    model: str
    strict: bool
    tool_choice: str | Mapping[str, Any] | None
    parallel: bool | None
    extra: Mapping[str, Any] = field(repr=False)

    def choice(self, ctx: DispatchContext, definitions: Definitions) -> Choice | None:
        """Give what holds for this trip.

        Raises:
            UnknownToolError: It names a tool that the model is not shown.
        """
        return chosen(self.tool_choice, definitions, trip=ctx.iteration)

    def finished(self, request: dict[str, Any], definitions: Definitions) -> dict[str, Any]:
        """Add what both APIs call the same, and what the user wants besides; the user's own tools come last."""
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
        return sendable(request | extra)


@dataclass(frozen=True)
class _Provider:
    """What is the same for both."""

    client: "SdkClient[AsyncOpenAI]" = field(repr=False)
    options: Options

    dialect: ClassVar[Any]

    @property
    def create(self) -> Any:
        """The SDK's method."""
        raise NotImplementedError

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Give the tools in the API's dialect."""
        return self.dialect.definitions(ctx.tools, filter=filter, strict=self.options.strict, events=ctx.events)

    @asynccontextmanager
    async def stream(self, request: dict[str, Any]) -> AsyncGenerator[AsyncIterator[Any]]:
        """Send the request, and give the events of the answer."""
        create = self.create
        async with hanging_up(await create(**arguments_of(create, request), stream=True)) as stream:
            yield _checked(stream)

    def reader(self, definitions: Definitions, taken: Collection[str]) -> AnswerStream:
        """Give what puts these events together."""
        return self.dialect.Stream(definitions, taken=taken)

    async def whole(self, request: dict[str, Any], reader: AnswerStream) -> Answered:
        """Send the request, wait for the answer as a whole, and read it."""
        create = self.create
        response = await create(**arguments_of(create, request))
        raise_for_response(response)
        reader.feed_whole(response)
        return reader.answered()

    def failure(self, error: Exception) -> Failure | None:
        """Say what an exception of the SDK means; `None` for one that is not the provider's."""
        return failure_of(error)

    def secrets(self) -> Sequence[str]:
        """Give the keys that are sent."""
        return self.client.secrets()


@dataclass(frozen=True)
class ChatProvider(_Provider):
    """Chat Completions."""

    asks_usage: bool

    dialect = openai_chat

    @property
    def create(self) -> Any:
        """The SDK's method."""
        return self.client.get().chat.completions.create

    async def request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> dict[str, Any]:
        """Write the request."""
        written = openai_chat.messages(await system_text(ctx), steps, definitions)
        request: dict[str, Any] = {"model": self.options.model, "messages": written}
        choice = self.options.choice(ctx, definitions)
        if choice is not None:
            named = {"type": "function", "function": {"name": choice.wire_name}}
            request["tool_choice"] = named if choice.mode == "tool" else choice.mode
        if self.asks_usage:
            request["stream_options"] = {"include_usage": True}
        return self.options.finished(request, definitions)


@dataclass(frozen=True)
class ResponsesProvider(_Provider):
    """The Responses API."""

    store: bool | None

    dialect = openai_responses

    @property
    def create(self) -> Any:
        """The SDK's method."""
        return self.client.get().responses.create

    async def request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> dict[str, Any]:
        """Write the request."""
        request: dict[str, Any] = {"model": self.options.model, "input": openai_responses.items(steps, definitions)}
        told = await system_text(ctx)
        if told:
            request["instructions"] = told
        choice = self.options.choice(ctx, definitions)
        if choice is not None:
            named = {"type": "function", "name": choice.wire_name}
            request["tool_choice"] = named if choice.mode == "tool" else choice.mode
        if self.store is not None:
            request["store"] = self.store
        if self.store is False:
            request["include"] = ["reasoning.encrypted_content"]
        return self.options.finished(request, definitions)


async def _checked(stream: AsyncIterator[Any]) -> AsyncGenerator[Any]:
    async for event in stream:
        raise_for_error(event)
        yield event
