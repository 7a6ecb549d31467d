"""The provider for Gemini's generateContent: requests, responses and errors of its official SDK."""

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import pydantic
from pydantic.alias_generators import to_camel

from spindle.bridges.definitions import Definitions
from spindle.bridges.gemini.conversation import build_contents
from spindle.bridges.gemini.stream import MALFORMED, Stream
from spindle.bridges.provider import ModelResponse, ProviderFailure, ResponseAssembler, resolve_tool_choice
from spindle.bridges.sdk_client import SdkClient
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import collect_system_texts, get_field, get_list, get_str, replace_lone_surrogates
from spindle.errors import BrokenAnswerError, InvalidConfigError, ModelStoppedError
from spindle.extras import needs_extra
from spindle.tools.filters import ToolFilter
from spindle.turns.context import DispatchContext

if TYPE_CHECKING:
    from google.genai import Client as GenaiClient

_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}


def open_client(given: "GenaiClient | None", *, base_url: str | None, api_key: str | None) -> "SdkClient[GenaiClient]":
    """Return the SDK client to use.

    Raises:
        MissingExtraError: The SDK is not installed.
        UsageError: Both a client and its base URL or key were passed, or the key is not valid.
    """
    with needs_extra("gemini", purpose="the Gemini callback"):
        from google import genai  # noqa: PLC0415  an extra
    options = genai.types.HttpOptions(base_url=base_url)
    return SdkClient(
        given,
        lambda key: genai.Client(api_key=key, http_options=options),
        base_url=base_url,
        api_key=api_key,
        keys=_keys,
        close=_close,
    )


def _keys(client: "GenaiClient") -> list[Any]:
    # The SDK has no public access to the key.
    return [getattr(getattr(client, "_api_client", None), "api_key", None)]


async def _close(client: "GenaiClient") -> None:
    await client.aio.aclose()
    client.close()


@dataclass(frozen=True, kw_only=True)
class GenerateProvider:
    """The provider for one model of generateContent."""

    client: "SdkClient[GenaiClient]" = field(repr=False)
    define: Callable[..., Definitions]
    model: str
    tool_choice: str | Mapping[str, Any] | None = None
    is_media_inside: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        """Return the tools in the provider's dialect."""
        return self.define(ctx.tools, filter=filter, events=ctx.events)

    async def build_request(
        self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions
    ) -> dict[str, Any]:
        """Build the request."""
        config: dict[str, Any] = {}
        system = "\n\n".join(collect_system_texts(await build_system_prompt(ctx), steps))
        if system:
            config["systemInstruction"] = system
        told = definitions.tools
        tools = [{"functionDeclarations": told}] if told else []
        tools += self.extra.get("tools", ())
        if tools:
            config |= {"tools": tools} | self._choice(definitions, trip=ctx.iteration)
        # The SDK accepts each setting under two names; normalise them to one.
        rest = {to_camel(name): value for name, value in self.extra.items() if name != "tools"}
        contents = build_contents(steps, definitions, is_inside=self.is_media_inside)
        written = replace_lone_surrogates({"contents": contents, "config": config})
        return {"model": self.model, "contents": written["contents"], "config": written["config"] | rest}

    def _choice(self, definitions: Definitions, *, trip: int) -> dict[str, Any]:
        if isinstance(self.tool_choice, Mapping):
            return {"toolConfig": dict(self.tool_choice)}
        choice = resolve_tool_choice(self.tool_choice, definitions, iteration=trip)
        if choice is None:
            return {}
        calling: dict[str, Any] = {"mode": _MODES[choice.mode]}
        if choice.mode == "tool":
            calling["allowedFunctionNames"] = [choice.wire_name]
        return {"toolConfig": {"functionCallingConfig": calling}}

    def stream(self, request: dict[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        """Send the request and yield the chunks of the response."""
        return self._closing(request)

    @asynccontextmanager
    async def _closing(self, request: dict[str, Any]) -> AsyncGenerator[AsyncIterator[Any]]:
        async with aclosing(self._chunks(_checked(request))) as chunks:
            yield chunks

    async def _chunks(self, request: dict[str, Any]) -> AsyncGenerator[Any]:
        chunks: AsyncGenerator[Any] = await self._models().generate_content_stream(**request)
        async with aclosing(chunks):
            try:
                async for chunk in chunks:
                    yield chunk
            except (TypeError, AttributeError, KeyError) as error:
                # The SDK fails like this on a chunk with a field of an unexpected type.
                raise BrokenAnswerError(f"{type(error).__name__}: {error}") from error

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> Stream:
        """Return an assembler for these chunks."""
        return Stream(definitions, taken=taken)

    async def complete(self, request: dict[str, Any], assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response."""
        assembler.feed_response(await self._models().generate_content(**_checked(request)))
        if not assembler.is_complete:
            raise BrokenAnswerError("the response has no finish reason")
        return assembler.build_response()

    def _models(self) -> Any:
        return self.client.get().aio.models

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        from google.genai import errors  # noqa: PLC0415  an extra

        says = f"{type(error).__name__}: {error}"
        if isinstance(error, errors.APIError):
            return ProviderFailure(says, error.code, _retry_after(error))
        if isinstance(error, ModelStoppedError):
            return ProviderFailure(says) if error.reason in MALFORMED else None
        unreadable = (pydantic.ValidationError, errors.UnknownApiResponseError, UnicodeDecodeError)
        broken = (json.JSONDecodeError, *unreadable, *_transport_errors())
        return ProviderFailure(says) if isinstance(error, broken) else None

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request."""
        return self.client.secrets()


def _checked(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request in the SDK's types, so that a rejected request is not mistaken for a broken response."""
    from google.genai import types  # noqa: PLC0415  an extra

    try:
        contents = [types.Content.model_validate(content) for content in request["contents"]]
        config = types.GenerateContentConfig.model_validate(request["config"])
    except pydantic.ValidationError as error:
        says = f"google.genai rejects this request; check extra and tool_choice: {error}"
        raise InvalidConfigError(says, field="extra") from error
    # The executor runs calls and the callback retries: disable both in the SDK.
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    options = config.http_options or types.HttpOptions()
    config.http_options = options.model_copy(update={"retry_options": types.HttpRetryOptions(attempts=1)})
    return {"model": request["model"], "contents": contents, "config": config}


def _transport_errors() -> list[type[Exception]]:
    """Return the transport errors of the HTTP libraries the SDK may use."""
    names = {"httpx2": "TransportError", "httpx": "TransportError", "aiohttp": "ClientError"}
    return [getattr(sys.modules[module], name) for module, name in names.items() if module in sys.modules]


def _retry_after(error: Any) -> str | None:
    """Return the retry delay from the header, or from the details of Google's error."""
    headers = getattr(error.response, "headers", None)
    if isinstance(headers, Mapping):
        named = cast("Mapping[str, str]", headers).get("retry-after")
        if named is not None:
            return named
    for detail in get_list(get_field(error.details, "error"), "details"):
        delay = get_str(detail, "retryDelay")
        if delay.endswith("s"):
            return delay[:-1]
    return None
