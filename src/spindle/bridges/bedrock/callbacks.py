"""The dialect of Amazon Bedrock's Converse, its provider, and an executor callback on boto3."""

import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from anyio import CapacityLimiter, to_thread

from spindle.bridges import dialects
from spindle.bridges.bedrock.conversation import (
    SEES,
    build_messages,
    build_placeholder_tools,
    build_result,
    restrict_media,
)
from spindle.bridges.bedrock.stream import Stream
from spindle.bridges.definitions import Definitions, Spec, build
from spindle.bridges.model_callback import ModelCallback, Retries
from spindle.bridges.provider import ModelResponse, ProviderFailure, ResponseAssembler, resolve_tool_choice
from spindle.bridges.rendering import MediaSupport, render_result
from spindle.bridges.sdk_client import iterate_blocking_stream
from spindle.bridges.system_prompt import build_system_prompt
from spindle.bridges.transcript import Step
from spindle.bridges.wire import collect_system_texts, get_field, get_str, replace_lone_surrogates
from spindle.calls import Call, CallOutcome
from spindle.errors import UsageError
from spindle.events import Events
from spindle.extras import needs_extra
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns.context import DispatchContext

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

    says = f"{type(error).__name__}: {error}"
    if isinstance(error, EventStreamError):
        code = get_str(get_field(cast("Any", error).response, "Error"), "Code")
        return ProviderFailure(says, _STATUSES.get(code, 500))
    if isinstance(error, ClientError):
        about = get_field(cast("Any", error).response, "ResponseMetadata")
        return ProviderFailure(says, get_field(about, "HTTPStatusCode"), _retry_after(get_field(about, "HTTPHeaders")))
    unreadable = (ParserError, ResponseParserError, UnicodeDecodeError)
    if isinstance(error, (HTTPClientError, ConnectionError, HTTPError, *unreadable)):
        return ProviderFailure(says)
    return None


def interrupt_stream(stream: Any) -> None:
    """Wake the thread that waits for the next event: this needs a shutdown of the socket, closing it is not enough."""
    stream._raw_stream.shutdown()  # boto3 has no public API for this


def _retry_after(headers: Any) -> str | None:
    return get_str(headers, "retry-after") or None


__all__ = ["DIALECT", "SEES", "Stream", "calls", "converse", "definitions", "results"]

DIALECT: Final = dialects.BEDROCK

_TOOL_CHOICES: Final[Mapping[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}
_READ_TIMEOUT_SECONDS: Final = 600
"""A model may think for minutes before its first token; boto3's default of one minute is too short."""


def definitions(
    tools: ToolRegistry | Iterable[Tool],
    *,
    filter: ToolFilter | None = None,
    strict: bool = False,
    events: Events | None = None,
) -> Definitions:
    """Return the definitions of tools, as the `tools` of a `toolConfig`.

    Raises:
        CannotLowerError: A tool's schema cannot be expressed in this dialect.
        NameClashError: Two tools would have the same name on the wire.
    """
    return build(DIALECT, tools, _wrap, filter=filter, strict=strict, events=events)


def _wrap(spec: Spec) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": {"json": spec.schema},
    }
    return {"toolSpec": told | ({"strict": True} if spec.strict else {})}


def calls(response: Any, definitions: Definitions | None = None) -> list[Call]:
    """Return the calls of a complete response of `converse`."""
    stream = Stream(definitions)
    stream.feed_response(response)
    return stream.calls()


async def results(
    outcomes: Sequence[CallOutcome], *, definitions: Definitions | None = None, sees: MediaSupport | None = None
) -> list[dict[str, Any]]:
    """Return outcomes as `toolResult` blocks, one for each call, to start the next user message with.

    Raises:
        UnsupportedMediaError: The model does not accept the media, and `sees.unsupported` is "throw".
    """
    del definitions  # results are matched by call id alone
    able = restrict_media(sees or SEES)
    return [replace_lone_surrogates(build_result(await render_result(outcome, able))) for outcome in outcomes]


def converse(
    *,
    model: str,
    client: Any = None,
    region: str | None = None,
    endpoint_url: str | None = None,
    strict: bool = False,
    tool_choice: str | Mapping[str, Any] | None = None,
    stream: bool = True,
    retries: Retries | None = None,
    filter: ToolFilter | None = None,
    sees: MediaSupport | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses a `bedrock-runtime` client of boto3, in worker threads.

    A `client` passed in keeps its own retries: create it with `Config(retries={"total_max_attempts": 1})`.
    `tool_choice` is "auto", "none", "required", the name of a tool, or the API's own object, which is sent on every
    iteration; a name and "required" apply to the first iteration only. `extra` is merged into each request, such as
    `inferenceConfig` or `guardrailConfig`.

    Raises:
        MissingExtraError: boto3 is not installed.
        UsageError: Both a client and its region or endpoint were passed.
    """
    provider = _Converse(
        client=_client(client, region, endpoint_url),
        model=model,
        is_strict=strict,
        tool_choice=tool_choice,
        extra=dict(extra or {}),
    )
    able = restrict_media(sees or SEES)
    return ModelCallback(
        provider=provider, media_support=able, is_streaming=stream, retries=retries or Retries(), filter=filter
    )


@dataclass(frozen=True, kw_only=True)
class _Converse:
    client: Any = field(repr=False)
    model: str
    is_strict: bool
    tool_choice: str | Mapping[str, Any] | None
    extra: Mapping[str, Any] = field(repr=False)

    def definitions(self, ctx: DispatchContext, filter: ToolFilter | None) -> Definitions:
        return definitions(ctx.tools, filter=filter, strict=self.is_strict, events=ctx.events)

    async def build_request(
        self, ctx: DispatchContext, steps: Sequence[Step], definitions: Definitions
    ) -> dict[str, Any]:
        messages = build_messages(steps, definitions)
        request: dict[str, Any] = {"modelId": self.model, "messages": messages}
        system = collect_system_texts(await build_system_prompt(ctx), steps)
        if system:
            request["system"] = [{"text": text} for text in system]
        tools = self._tools(definitions, trip=ctx.iteration) or {"tools": build_placeholder_tools(messages)}
        if tools["tools"]:
            request["toolConfig"] = tools
        return replace_lone_surrogates({**request, **self.extra})

    def _tools(self, definitions: Definitions, *, trip: int) -> dict[str, Any] | None:
        """Return the tools and the tool choice; Converse has no choice "none", so no tools are sent for it."""
        choice = resolve_tool_choice(self.tool_choice, definitions, iteration=trip)
        if not len(definitions) or (choice is not None and choice.mode == "none"):
            return None
        told: dict[str, Any] = {"tools": definitions.tools}
        if isinstance(self.tool_choice, Mapping):
            told["toolChoice"] = dict(self.tool_choice)
        elif choice is not None:
            told["toolChoice"] = _TOOL_CHOICES.get(choice.mode) or {"tool": {"name": choice.wire_name}}
        return told

    def stream(self, request: dict[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        return iterate_blocking_stream(
            lambda: self.client.converse_stream(**request)["stream"], interrupt=interrupt_stream
        )

    def create_assembler(self, definitions: Definitions, taken: Collection[str]) -> Stream:
        return Stream(definitions, taken=taken)

    async def complete(self, request: dict[str, Any], assembler: ResponseAssembler) -> ModelResponse:
        ask = partial(self.client.converse, **request)
        response = await to_thread.run_sync(ask, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        assembler.feed_response(response)
        return assembler.build_response()

    def translate_error(self, error: Exception) -> ProviderFailure | None:
        return translate_sdk_error(error)

    def secrets(self) -> Sequence[str]:
        # Other credentials only sign a request, and never leave this process.
        return [os.environ.get("AWS_BEARER_TOKEN_BEDROCK", "")]


def _client(client: Any, region: str | None, endpoint_url: str | None) -> Any:
    with needs_extra("bedrock", purpose="the Bedrock callback"):
        from boto3.session import Session  # noqa: PLC0415  an extra
        from botocore.config import Config  # noqa: PLC0415
    if client is not None:
        if region is not None or endpoint_url is not None:
            raise UsageError("Expected either client, or region and endpoint_url, but got both.", field="client")
        return client
    config = Config(retries={"total_max_attempts": 1}, read_timeout=_READ_TIMEOUT_SECONDS, tcp_keepalive=True)
    session: Any = Session()
    return session.client("bedrock-runtime", region_name=region, endpoint_url=endpoint_url, config=config)
