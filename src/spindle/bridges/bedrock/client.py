"""The provider for Bedrock's Converse: requests, responses and errors of boto3."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, cast, runtime_checkable
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter, to_thread

from spindle.bridges.bedrock.conversation import API, ConverseWriter, build_placeholder_tools
from spindle.bridges.definitions import Definitions
from spindle.bridges.provider import ApiProvider, ModelResponse, ProviderFailure, ResponseAssembler, ToolChoice
from spindle.bridges.sdk_client import BlockingStream, describe_body, iterate_blocking_stream, parse_body
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import get_count, get_field, get_str, replace_lone_surrogates
from spindle.errors import BrokenAnswerError, UsageError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject, JsonValue
from spindle.turns.context import DispatchContext

_READ_TIMEOUT_SECONDS: Final = 600
"""A model may think for minutes before its first token; boto3's default of one minute is too short."""
_BODY: Final = "spindle_body"
"""The key under which a response holds a body that is not Converse's."""
_FOREIGN_TYPES: Final = ("text/html", "application/json", "text/plain")
_STATUSES: Final[dict[str, int | None]] = {
    "internalServerException": 500,
    "modelStreamErrorException": None,  # the model broke off; the API recommends a retry
    "serviceUnavailableException": 503,
    "throttlingException": 429,
    "validationException": 400,
}
"""HTTP statuses of errors in the middle of a stream, whose own status was 200."""


def translate_sdk_error(error: Exception) -> ProviderFailure | None:
    """Return the failure a boto3 exception stands for; `None` if it is not the provider's."""
    from botocore.eventstream import ParserError  # noqa: PLC0415  an extra
    from botocore.exceptions import (  # noqa: PLC0415
        ClientError,
        ConnectionError,  # noqa: A004
        EventStreamError,
        HTTPClientError,
    )
    from botocore.parsers import ResponseParserError  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415  it comes with boto3

    message = f"{type(error).__name__}: {error}"
    response: object = getattr(error, "response", None)
    if isinstance(error, EventStreamError):
        code = get_str(get_field(response, "Error"), "Code")
        return ProviderFailure(message, _STATUSES.get(code, 500), body=response)
    if isinstance(error, ClientError):
        about = get_field(response, "ResponseMetadata")
        retry_after = get_str(get_field(about, "HTTPHeaders"), "retry-after") or None
        return ProviderFailure(message, get_count(about, "HTTPStatusCode"), retry_after, body=response)
    unreadable = (ParserError, ResponseParserError, UnicodeDecodeError)
    if isinstance(error, (HTTPClientError, ConnectionError, HTTPError, *unreadable)):
        return ProviderFailure(message)
    return None


def interrupt_stream(stream: BlockingStream) -> None:
    """Wake the thread that waits for the next event: this needs a shutdown of the socket, closing it is not enough."""
    raw: Any = getattr(stream, "_raw_stream")  # noqa: B009  boto3 has no public API for this
    raw.shutdown()


@runtime_checkable
class ConverseClient(Protocol):
    """What is used of boto3's `bedrock-runtime` client, whose methods take the fields of a request as keywords."""

    @property
    def converse(self) -> Callable[..., Mapping[str, object]]:
        """Send a request and return the response."""
        ...

    @property
    def converse_stream(self) -> Callable[..., Mapping[str, object]]:
        """Send a request and return a response whose `stream` yields the events."""
        ...


def open_client(client: object, *, region: str | None, endpoint_url: str | None) -> ConverseClient:
    """Return the client to use: a new one has its own retries disabled.

    Raises:
        MissingExtraError: boto3 is not installed.
        UsageError: Both a client and its region or endpoint were passed, or it is not a `bedrock-runtime` client.
    """
    with needs_extra("bedrock", purpose="the Bedrock callback"):
        from boto3.session import Session  # noqa: PLC0415  an extra
        from botocore.config import Config  # noqa: PLC0415
    if client is not None:
        if region is not None or endpoint_url is not None:
            raise UsageError("Expected either client, or region and endpoint_url, but got both.", field="client")
        if not isinstance(client, ConverseClient):
            raise UsageError(
                f"Expected a client of boto3 for 'bedrock-runtime', got {type(client).__name__}.", field="client"
            )
        _keep_foreign_bodies(client)
        return client
    config = Config(retries={"total_max_attempts": 1}, read_timeout=_READ_TIMEOUT_SECONDS, tcp_keepalive=True)
    session: Any = Session()
    made: ConverseClient = session.client(
        "bedrock-runtime", region_name=region, endpoint_url=endpoint_url, config=config
    )
    _keep_foreign_bodies(made)
    return made


def _keep_foreign_bodies(client: object) -> None:
    """Have boto3 keep the body of a response that is not Converse's, which it would drop; stand-ins have no events."""
    events: Any = getattr(getattr(client, "meta", None), "events", None)
    if events is not None:
        name = "before-parse.bedrock-runtime.Converse"
        events.register(name, _keep_foreign_body, unique_id="spindle-foreign-body")


def _keep_foreign_body(response_dict: Any, customized_response_dict: dict[str, object], **_: object) -> None:
    body: bytes = response_dict["body"]
    if response_dict["status_code"] < 300 and b'"output"' not in body:
        customized_response_dict[_BODY] = body.decode("utf-8", "replace")


def _open_stream(client: ConverseClient, request: JsonObject) -> BlockingStream:
    response = client.converse_stream(**request)
    headers = get_field(get_field(response, "ResponseMetadata"), "HTTPHeaders")
    stream = cast("BlockingStream", response["stream"])
    if get_str(headers, "content-type").startswith(_FOREIGN_TYPES):
        raw: Any = getattr(stream, "_raw_stream")  # noqa: B009  boto3 has no public API for this
        body: bytes = raw.read()
        stream.close()
        raise BrokenAnswerError(f"Expected a stream of events, got: {describe_body(parse_body(body.decode()))}")
    return stream


@dataclass(frozen=True, kw_only=True)
class ConverseProvider(ApiProvider):
    """The provider for one model of Converse."""

    api = API
    client: ConverseClient = field(repr=False)
    _writers: "WeakKeyDictionary[DispatchContext, ConverseWriter]" = field(
        default_factory=WeakKeyDictionary["DispatchContext", ConverseWriter], init=False, repr=False, compare=False
    )

    async def build_request(self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions) -> JsonObject:
        """Build the request."""
        writer = self._writers.setdefault(ctx, ConverseWriter())
        messages = writer.write(steps, definitions)
        request: JsonObject = {}
        system = writer.collect_system_texts(await build_system_prompt(ctx))
        if system:
            request["system"] = [{"text": text} for text in system]
        # Converse has no choice "none": no tools are sent for it.
        if len(definitions) and self.options.tool_choice != "none":
            choice = self.build_tool_choice(ctx, definitions)
            request["toolConfig"] = {"tools": definitions.tools} | ({} if choice is None else {"toolChoice": choice})
        elif placeholders := build_placeholder_tools(messages):
            request["toolConfig"] = {"tools": placeholders}
        written: JsonObject = {"modelId": self.options.model, "messages": messages}
        return written | replace_lone_surrogates(request | dict(self.options.extra or {}))

    def format_tool_choice(self, choice: ToolChoice) -> JsonValue:
        """Write a tool choice in the API's form."""
        if choice.mode == "tool":
            return {"tool": {"name": choice.wire_name}}
        return {"any" if choice.mode == "required" else choice.mode: {}}

    def stream(self, request: JsonObject) -> AbstractAsyncContextManager[AsyncIterator[object]]:
        """Send the request and yield the events of the response."""

        return iterate_blocking_stream(partial(_open_stream, self.client, request), interrupt=interrupt_stream)

    async def complete(self, request: JsonObject, assembler: ResponseAssembler) -> ModelResponse:
        """Send the request without streaming, and read the response."""
        ask = partial(self.client.converse, **request)
        response = await to_thread.run_sync(ask, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        if get_field(response, "output") is None:
            body = get_str(response, _BODY)
            said = describe_body(parse_body(body) if body else response)
            raise BrokenAnswerError(f"Expected a response with an output, got: {said}")
        assembler.feed_response(response)
        return assembler.build_response()

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        """Return the failure a boto3 exception stands for; `None` if it is not the provider's."""
        return translate_sdk_error(error)

    def secrets(self) -> Sequence[str]:
        """Return the keys sent with a request."""
        # Other credentials only sign a request, and never leave this process.
        return [os.environ.get("AWS_BEARER_TOKEN_BEDROCK", "")]
