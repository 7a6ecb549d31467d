"""The provider for Gemini's generateContent: requests, responses and errors of its official SDK."""

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakKeyDictionary

import pydantic
from pydantic.alias_generators import to_camel

from spindle.bridges.definitions import Definitions
from spindle.bridges.gemini.conversation import API, ContentsWriter
from spindle.bridges.gemini.stream import MALFORMED
from spindle.bridges.provider import ApiProvider, ModelResponse, ProviderFailure, ResponseAssembler, ToolChoice
from spindle.bridges.sdk_client import SdkClient, SendRequest, closing_stream, describe_body, parse_body
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import get_field, get_list, get_str, is_mapping, replace_lone_surrogates
from spindle.errors import BrokenAnswerError, InvalidConfigError, ModelStoppedError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject, JsonValue
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
        # Not `from google import genai`: stubs of other packages of that namespace hide it from type checkers.
        from google.genai import Client, types  # noqa: PLC0415  an extra
    options = types.HttpOptions(base_url=base_url)
    return SdkClient(
        given,
        lambda key: Client(api_key=key, http_options=options),
        base_url=base_url,
        api_key=api_key,
        keys=_keys,
        close=_close,
    )


def _keys(client: "GenaiClient") -> list[object]:
    # The SDK has no public access to the key.
    return [getattr(getattr(client, "_api_client", None), "api_key", None)]


async def _close(client: "GenaiClient") -> None:
    await client.aio.aclose()
    client.close()


class _Models(Protocol):
    """What is used of the SDK's `models`, whose own types are partly unknown to type checkers."""

    @property
    def generate_content(self) -> SendRequest: ...

    @property
    def generate_content_stream(self) -> SendRequest: ...


@dataclass(frozen=True, kw_only=True)
class GenerateProvider(ApiProvider):
    """The provider for one model of generateContent."""

    api = API
    client: "SdkClient[GenaiClient]" = field(repr=False)
    is_media_inside: bool = True
    _writers: "WeakKeyDictionary[DispatchContext, ContentsWriter]" = field(
        default_factory=WeakKeyDictionary["DispatchContext", ContentsWriter], init=False, repr=False, compare=False
    )

    async def build_request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> JsonObject:
        """Build the request."""
        config: JsonObject = {}
        writer = self._writers.setdefault(ctx, ContentsWriter(is_inside=self.is_media_inside))
        contents = writer.write(steps, definitions)
        system = "\n\n".join(writer.collect_system_texts(await build_system_prompt(ctx)))
        if system:
            config["systemInstruction"] = system
        extra = dict(self.options.extra or {})
        declarations = definitions.tools
        tools = [{"functionDeclarations": declarations}] if declarations else []
        tools += extra.pop("tools", ())
        if tools:
            config["tools"] = tools
            choice = self.build_tool_choice(ctx, definitions)
            if choice is not None:
                config["toolConfig"] = choice
        # The SDK accepts each setting under two names; normalise them to one.
        rest = {to_camel(name): value for name, value in extra.items()}
        return {"model": self.options.model, "contents": contents, "config": replace_lone_surrogates(config) | rest}

    def format_tool_choice(self, choice: ToolChoice) -> JsonValue:
        """Write a tool choice in the API's form."""
        calling: JsonObject = {"mode": _MODES[choice.mode]}
        if choice.mode == "tool":
            calling["allowedFunctionNames"] = [choice.wire_name]
        return {"functionCallingConfig": calling}

    @asynccontextmanager
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[object]]:
        """Send the request and yield the chunks of the response."""
        async with aclosing(self._chunks(_to_sdk_types(request))) as chunks:
            yield chunks

    async def _chunks(self, request: JsonObject) -> AsyncGenerator[object]:
        chunks = await self._models().generate_content_stream(**request)
        async with closing_stream(chunks):
            try:
                async for chunk in chunks:
                    yield chunk
            except (TypeError, AttributeError, KeyError) as error:
                # The SDK fails like this on a chunk with a field of an unexpected type.
                raise BrokenAnswerError(f"{type(error).__name__}: {error}") from error

    async def complete(self, request: JsonObject, assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response."""
        checked = _to_sdk_types(request)
        # The body as it was on the wire: the SDK drops an error with the status 200.
        checked["config"].should_return_http_response = True
        response = await self._models().generate_content(**checked)
        body = get_str(get_field(response, "sdk_http_response"), "body")
        assembler.feed_response(plain := parse_body(body) if body else response)
        if not assembler.is_complete:
            raise BrokenAnswerError(f"Expected a response with a finish reason, got: {describe_body(plain)}")
        return assembler.build_response()

    def _models(self) -> _Models:
        return self.client.get().aio.models

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure an SDK exception stands for; `None` if it is not the provider's."""
        from google.genai import errors  # noqa: PLC0415  an extra

        message = f"{type(error).__name__}: {error}"
        if isinstance(error, errors.APIError):
            return ProviderFailure(message, error.code, _retry_after(error), body=getattr(error, "details", None))
        if isinstance(error, ModelStoppedError):
            return ProviderFailure(message) if error.reason in MALFORMED else None
        unreadable = (pydantic.ValidationError, errors.UnknownApiResponseError, UnicodeDecodeError)
        broken = (json.JSONDecodeError, *unreadable, *_transport_errors())
        return ProviderFailure(message) if isinstance(error, broken) else None

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request."""
        return self.client.secrets()


def _to_sdk_types(request: JsonObject) -> JsonObject:
    """Return the request in the SDK's types, so that a rejected request is not mistaken for a broken response."""
    from google.genai import types  # noqa: PLC0415  an extra

    try:
        contents = [types.Content.model_validate(content) for content in request["contents"]]
        config = types.GenerateContentConfig.model_validate(request["config"])
    except pydantic.ValidationError as error:
        message = f"google.genai rejects this request; check extra and tool_choice: {error}"
        raise InvalidConfigError(message, field="extra") from error
    # The executor runs calls and the callback retries: disable both in the SDK.
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    options = config.http_options or types.HttpOptions()
    config.http_options = options.model_copy(update={"retry_options": types.HttpRetryOptions(attempts=1)})
    return {"model": request["model"], "contents": contents, "config": config}


def _transport_errors() -> list[type[Exception]]:
    """Return the transport errors of the HTTP libraries the SDK may use."""
    names = {"httpx2": "TransportError", "httpx": "TransportError", "aiohttp": "ClientError"}
    return [getattr(sys.modules[module], name) for module, name in names.items() if module in sys.modules]


def _retry_after(error: Exception) -> str | None:
    """Return the retry delay from the header, or from the details of Google's error."""
    headers: object = getattr(getattr(error, "response", None), "headers", None)
    if is_mapping(headers) and "retry-after" in headers:
        return str(headers["retry-after"])
    details: object = getattr(error, "details", None)
    for detail in get_list(get_field(details, "error"), "details"):
        delay = get_str(detail, "retryDelay")
        if delay.endswith("s"):
            return delay[:-1]
    return None
