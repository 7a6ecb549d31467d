"""A session with one server: version negotiation, tool listing and calls."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from random import random
from typing import Any

import anyio
from mcp.client import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.subscriptions import ServerEvent, SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolResult,
    CreateMessageRequestParams,
    ElicitRequestParams,
    ErrorData,
    Implementation,
    InputRequiredResult,
    InputResponse,
    InputResponses,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from spindle.json_types import JsonObject, JsonValue
from spindle.mcp.client.call_capabilities import CallCapabilities, mark_capabilities
from spindle.mcp.client.feature_requests import FeatureRequests, get_event
from spindle.mcp.client.link import TransportLink
from spindle.mcp.client.listing_filter import InvalidToolFilter
from spindle.mcp.client.question_wire import build_question, build_response
from spindle.mcp.client.task_ledger import CallTask
from spindle.mcp.client.upstream_questions import Answered, Question
from spindle.mcp.client.upstream_tasks import CLAIMS, EXTENSION, ClaimedTask, TaskSession, TaskWaiter

_EXTENSIONS = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
"""Extensions that a client behind the gateway may have; a server may offer apps to no others."""
MAX_PAGES = 100
MAX_TOOLS = 2_000
MIN_FRESH_SECONDS = 60.0
"""Least time between two listings of a server that does not notify of changes."""
MAX_FRESH_SECONDS = 86_400
MAX_ROUNDS = 10
"""How often one call may ask for input before it fails."""
_STATE_ONLY_SECONDS = 0.1

AnswerQuestions = Callable[[Sequence[Question]], Awaitable[list[Answered]]]
_REJECTED = -1
"""The error code for a request to the model that the user has rejected."""


@dataclass(frozen=True, kw_only=True)
class SessionCallbacks:
    """Callbacks for what a server sends without being asked."""

    on_tools_changed: Callable[[], None]
    on_feature_event: Callable[[ServerEvent], None]
    """Called when prompts or resources have changed."""
    on_log: Callable[[str, str | None, JsonValue], None]
    """Level, logger, data."""
    on_invalid_message: Callable[[Exception], None]
    """Called with the parse error of something that is not a protocol message."""
    on_invalid_tool: Callable[[str], None]
    """Called with the reason why a listed tool was dropped."""
    on_questions: AnswerQuestions
    """Answers requests of the older protocol, which do not name the call they belong to."""
    can_sample: bool = False
    """Whether to declare that the server may ask a model."""
    can_list_roots: bool = False


class UpstreamSession:
    """The requests to a connected server."""

    def __init__(self, session: TaskSession, link: TransportLink) -> None:
        self._session = session
        self.link = link
        self._fresh_seconds = 0.0
        """How long the last listing is fresh, as its server says."""
        self.features = FeatureRequests(session, self._answer_requests)
        """The requests for prompts and resources."""

    @property
    def protocol_version(self) -> str | None:
        """The negotiated protocol version."""
        return self._session.protocol_version

    @property
    def is_modern(self) -> bool:
        """Whether the protocol version is 2026-07-28 or later."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def negotiate(self, *, probe: bool) -> None:
        """Negotiate the protocol version: try `server/discover` first (`probe`), then the older `initialize`.

        Raises:
            MCPError: Neither succeeds.
        """
        if probe and not self.link.is_older:
            try:
                await self._session.discover()
            except MCPError as error:
                if self.link.error_marker.get_failure(error) is not None or self.link.broken.is_set():
                    raise
            except (RuntimeError, ValidationError):
                pass  # it answered, but without a version of the newer protocol
            else:
                return
        await self._session.initialize()

    def describe_server(self) -> JsonObject:
        """Return what the server says about itself: `program` and `capabilities`."""
        info, capabilities = self._session.server_info, self._session.server_capabilities
        return {
            "program": {} if info is None else _dump(info, include={"name", "version"}),
            "capabilities": {} if capabilities is None else _dump(capabilities),
        }

    async def list_tools(self) -> tuple[list[Tool], list[str]]:
        """Return the server's tools, read page by page, and the problems of the listing."""
        capabilities = self._session.server_capabilities
        if capabilities is None or capabilities.tools is None:
            return [], []
        found: list[Tool] = []
        self._fresh_seconds = float(MAX_FRESH_SECONDS)
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            found += page.tools
            self._fresh_seconds = min(self._fresh_seconds, max(page.ttl_ms or 0, 0) / 1000)
            self._session.note_task_support(page.tools)
            if len(found) > MAX_TOOLS:
                return found[:MAX_TOOLS], [f"it lists more than {MAX_TOOLS} tools; the rest is left out"]
            cursor = page.next_cursor
            if not cursor:
                return found, []
            if cursor in seen:
                return found, ["its listing repeats a page; the tools listed before it are used"]
            seen.add(cursor)
        return found, [f"its listing has more than {MAX_PAGES} pages; the rest is left out"]

    async def ping(self) -> bool:
        """Return whether the server answers; an error response counts as an answer."""
        try:
            if self.is_modern:
                await self._session.send_discover(self.protocol_version or LATEST_MODERN_VERSION)
            else:
                await self._session.send_ping()
        except MCPError as error:
            return self.link.error_marker.get_failure(error) is None and error.code != REQUEST_TIMEOUT
        except Exception as error:  # noqa: BLE001  an invalid response is still a response
            return isinstance(error, ValidationError)
        return True

    async def watch_tools(
        self, on_change: Callable[[], None], sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> bool:
        """Call `on_change` for each change of the tool list until the subscription ends; return whether to resubscribe.

        Servers of the older protocol notify without a subscription, through `on_tools_changed`. A server that does not
        notify, but says how long its listing is fresh, is listed again when it no longer is.
        """
        capabilities = self._session.server_capabilities
        tools = None if capabilities is None else capabilities.tools
        if not self.is_modern or tools is None:
            return False
        if not tools.list_changed:
            await self._relist_when_stale(on_change, sleep)
            return False
        try:
            async with listen(self._session, tools_list_changed=True) as events:
                if not self._fresh_seconds:
                    on_change()  # for changes before the subscription
                async for _ in events:
                    on_change()
        except (MCPError, SubscriptionLost, TimeoutError):
            return True
        return True

    async def _relist_when_stale(
        self, on_change: Callable[[], None], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        seconds = MIN_FRESH_SECONDS
        while self._fresh_seconds:
            # The specification asks for jitter and backoff.
            await sleep(max(self._fresh_seconds, seconds) * (1 + random() / 2))  # noqa: S311  not a secret
            on_change()
            seconds = min(2 * seconds, float(MAX_FRESH_SECONDS))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        seconds: float,
        on_progress: ProgressFnT,
        ask: AnswerQuestions,
        task: CallTask,
        capabilities: JsonObject | None = None,
        may_repeat: Callable[[list[Tool]], bool] = lambda _listed: True,
    ) -> CallToolResult:
        """Call a tool, or go on with the task that the call has created before.

        Questions of its server are answered by `ask`, which has these capabilities for the call.

        A call that is rejected because the definition is out of date is repeated, if the new listing allows it.

        Raises:
            MCPError: The server answered with an error, or not at all.
            ValidationError: Its answer does not conform to the protocol.
        """
        waiter = TaskWaiter(
            session=self._session,
            is_modern=self.is_modern,
            is_broken=lambda error: self.link.error_marker.get_failure(error) is not None or self.link.broken.is_set(),
            seconds=seconds,
            on_progress=on_progress,
            answer=partial(self._answer_requests, ask=ask),
            call=task,
        )
        known = await task.find()
        if known is not None:
            return await waiter.wait(known)
        if not self.is_modern and self._session.needs_task(name, task):
            begun = await self._session.call_as_task(name, arguments, seconds=seconds, on_progress=on_progress)
        else:
            meta = mark_capabilities(capabilities) if self.is_modern else None
            begun = await self._call_plainly(
                name,
                arguments,
                seconds=seconds,
                on_progress=on_progress,
                ask=ask,
                meta=meta,
                may_repeat=may_repeat,
            )
        return begun if isinstance(begun, CallToolResult) else await waiter.wait(begun.task_id, begun)

    async def _call_plainly(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        seconds: float,
        on_progress: ProgressFnT,
        ask: AnswerQuestions,
        meta: Any,
        may_repeat: Callable[[list[Tool]], bool],
    ) -> CallToolResult | ClaimedTask:
        responses: InputResponses | None = None
        state: str | None = None
        relisted = False
        for _ in range(MAX_ROUNDS + 2):
            try:
                result = await self._session.call_tool(
                    name,
                    dict(arguments),
                    read_timeout_seconds=seconds,
                    progress_callback=on_progress,
                    input_responses=responses,
                    request_state=state,
                    meta=meta,
                    allow_input_required=True,
                    allow_claimed=True,
                )
            except MCPError as error:
                if error.code != HEADER_MISMATCH or relisted or not self.is_modern:
                    raise
                relisted = True  # it was rejected because our definition of the tool is out of date
                if not may_repeat((await self.list_tools())[0]):
                    raise
                continue
            if isinstance(result, (CallToolResult, ClaimedTask)):
                return result
            if not isinstance(result, InputRequiredResult):
                raise MCPError(INVALID_REQUEST, "it answered with a result of an unknown type")
            responses, state = await self._answer_requests(result, ask), result.request_state
        raise MCPError(INVALID_REQUEST, f"it asked for input more than {MAX_ROUNDS} times")

    @staticmethod
    async def _answer_requests(result: InputRequiredResult, ask: AnswerQuestions) -> InputResponses | None:
        if not result.input_requests:
            await anyio.sleep(_STATE_ONLY_SECONDS)  # the server only wants the call to be repeated
            return None
        questions = [build_question(key, request) for key, request in result.input_requests.items()]
        answers = await ask(questions)
        return {str(each.key): build_response(each, answer) for each, answer in zip(questions, answers, strict=True)}


@asynccontextmanager
async def open_session(
    link: TransportLink, callbacks: SessionCallbacks, *, seconds: float, client_name: str = "spindle"
) -> AsyncGenerator[UpstreamSession, None]:
    """Connect over a link and yield the session; `seconds` is the default timeout of a request."""

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            callbacks.on_invalid_message(message)
        elif isinstance(message, ToolListChangedNotification):
            callbacks.on_tools_changed()
        elif (event := get_event(message)) is not None:
            callbacks.on_feature_event(event)

    async def on_log(params: LoggingMessageNotificationParams) -> None:
        callbacks.on_log(params.level, params.logger, params.data)

    async def ask(question: Question) -> InputResponse | ErrorData:
        [answer] = await callbacks.on_questions([question])
        try:
            return build_response(question, answer)
        except MCPError as error:
            return ErrorData(code=_REJECTED, message=error.error.message)

    # The SDK passes the context by name.
    async def on_elicitation(context: ClientRequestContext, params: ElicitRequestParams) -> Any:  # noqa: ARG001
        return await ask(Question(kind="elicitation", params=params))

    async def on_sampling(context: ClientRequestContext, params: CreateMessageRequestParams) -> Any:  # noqa: ARG001
        return await ask(Question(kind="sampling", params=params))

    async def on_roots(context: ClientRequestContext) -> Any:  # noqa: ARG001
        return await ask(Question(kind="roots"))

    sessions: list[ClientSession] = []
    async with (
        link.open() as (incoming, outgoing),
        TaskSession(
            InvalidToolFilter(
                incoming, lambda: sessions[0].protocol_version if sessions else None, callbacks.on_invalid_tool
            ),
            CallCapabilities(outgoing),
            read_timeout_seconds=seconds,
            elicitation_callback=on_elicitation,
            sampling_callback=on_sampling if callbacks.can_sample else None,
            list_roots_callback=on_roots if callbacks.can_list_roots else None,
            logging_callback=on_log,
            message_handler=on_message,
            client_info=Implementation(name=client_name, version=_version()),
            log_level="info",
            extensions=_EXTENSIONS | {EXTENSION: {}},
            result_claims=CLAIMS,
        ) as session,
    ):
        sessions.append(session)
        yield UpstreamSession(session, link)


def _dump(model: BaseModel, include: set[str] | None = None) -> JsonObject:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True, include=include)


def _version() -> str:
    try:
        return version("spindle")
    except PackageNotFoundError:
        return "0"
