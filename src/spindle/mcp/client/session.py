"""A session with one server: version negotiation, tool listing and calls."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import anyio
from mcp.client import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    InputResponses,
    ListRootsRequest,
    ListRootsResult,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from spindle.json_types import JsonValue
from spindle.mcp.client.link import TransportLink
from spindle.mcp.client.listing_filter import InvalidToolFilter
from spindle.mcp.client.running_calls import Action, Content
from spindle.mcp.client.task_ledger import CallTask
from spindle.mcp.client.upstream_tasks import CLAIMS, EXTENSION, ClaimedTask, TaskSession, TaskWaiter

MAX_PAGES = 100
MAX_TOOLS = 2_000
MAX_ROUNDS = 10
"""How often one call may ask for input before it fails."""
_STATE_ONLY_SECONDS = 0.1

AnswerElicitation = Callable[[ElicitRequestParams], Awaitable[tuple[Action, Content | None]]]


@dataclass(frozen=True, kw_only=True)
class SessionCallbacks:
    """Callbacks for what a server sends without being asked."""

    on_tools_changed: Callable[[], None]
    on_log: Callable[[str, str | None, JsonValue], None]
    """Level, logger, data."""
    on_invalid_message: Callable[[Exception], None]
    """Called with the parse error of something that is not a protocol message."""
    on_invalid_tool: Callable[[str], None]
    """Called with the reason why a listed tool was dropped."""
    on_elicitation: AnswerElicitation
    """Answers an elicitation of the older protocol, which does not name the call it belongs to."""


class UpstreamSession:
    """The requests to a connected server."""

    def __init__(self, session: TaskSession, link: TransportLink) -> None:
        self._session = session
        self.link = link
        self._task_support: dict[str, str | None] = {}
        """Of the older protocol: which tools can, or must, be called as tasks."""

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
        if probe:
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

    async def list_tools(self) -> tuple[list[Tool], list[str]]:
        """Return the server's tools, read page by page, and the problems of the listing."""
        capabilities = self._session.server_capabilities
        if capabilities is None or capabilities.tools is None:
            return [], []
        found: list[Tool] = []
        self._task_support = {}
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            found += page.tools
            self._task_support |= {tool.name: tool.execution.task_support for tool in page.tools if tool.execution}
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

    async def watch_tools(self, on_change: Callable[[], None]) -> bool:
        """Call `changed` for each change of the tool list until the subscription ends; return whether to resubscribe.

        Servers of the older protocol notify without a subscription, through `Hooks.tools_changed`.
        """
        capabilities = self._session.server_capabilities
        tools = None if capabilities is None else capabilities.tools
        if not self.is_modern or tools is None or not tools.list_changed:
            return False
        try:
            async with listen(self._session, tools_list_changed=True) as events:
                on_change()  # for changes before the subscription
                async for _ in events:
                    on_change()
        except (MCPError, SubscriptionLost, TimeoutError):
            return True
        return True

    async def call(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        seconds: float,
        on_progress: ProgressFnT,
        ask: AnswerElicitation,
        task: CallTask,
    ) -> CallToolResult:
        """Call a tool, or go on with the task that the call has created before; `ask` answers elicitations.

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
        if self._calls_as_task(name, task):
            begun = await self._session.call_as_task(name, arguments, seconds=seconds, on_progress=on_progress)
        else:
            begun = await self._call_plainly(name, arguments, seconds=seconds, on_progress=on_progress, ask=ask)
        return begun if isinstance(begun, CallToolResult) else await waiter.wait(begun.task_id, begun)

    def _calls_as_task(self, name: str, task: CallTask) -> bool:
        """Return whether a call asks for a task: if its tool requires it, or if its own client asked for one."""
        support = self._task_support.get(name)
        if self.is_modern or not self._session.can_call_as_task():
            return False
        return support == "required" or (support == "optional" and task.is_task)

    async def _call_plainly(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        seconds: float,
        on_progress: ProgressFnT,
        ask: AnswerElicitation,
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
                    allow_input_required=True,
                    allow_claimed=True,
                )
            except MCPError as error:
                if error.code != HEADER_MISMATCH or relisted or not self.is_modern:
                    raise
                relisted = True  # it was rejected because our definition of the tool is out of date
                await self.list_tools()
                continue
            if isinstance(result, (CallToolResult, ClaimedTask)):
                return result
            if not isinstance(result, InputRequiredResult):
                raise MCPError(INVALID_REQUEST, "it answered with a result of an unknown type")
            responses, state = await self._answer_requests(result, ask), result.request_state
        raise MCPError(INVALID_REQUEST, f"it asked for input more than {MAX_ROUNDS} times")

    @staticmethod
    async def _answer_requests(result: InputRequiredResult, ask: AnswerElicitation) -> InputResponses | None:
        if not result.input_requests:
            await anyio.sleep(_STATE_ONLY_SECONDS)  # the server only wants the call to be repeated
            return None
        answers: InputResponses = {}
        for key, request in result.input_requests.items():
            match request:
                case ElicitRequest(params=params):
                    answers[key] = _build_elicit_result(*await ask(params))
                case ListRootsRequest():
                    answers[key] = ListRootsResult(roots=[])
                case _:
                    raise MCPError(INVALID_REQUEST, "it requested sampling, which this client does not support")
        return answers


@asynccontextmanager
async def open_session(
    link: TransportLink, callbacks: SessionCallbacks, *, seconds: float
) -> AsyncGenerator[UpstreamSession, None]:
    """Connect over a link and yield the session; `seconds` is the default timeout of a request."""

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            callbacks.on_invalid_message(message)
        elif isinstance(message, ToolListChangedNotification):
            callbacks.on_tools_changed()

    async def on_log(params: LoggingMessageNotificationParams) -> None:
        callbacks.on_log(params.level, params.logger, params.data)

    async def on_question(
        context: ClientRequestContext,  # noqa: ARG001  the SDK passes it by name
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        return _build_elicit_result(*await callbacks.on_elicitation(params))

    sessions: list[ClientSession] = []
    async with (
        link.open() as (incoming, outgoing),
        TaskSession(
            InvalidToolFilter(
                incoming, lambda: sessions[0].protocol_version if sessions else None, callbacks.on_invalid_tool
            ),
            outgoing,
            read_timeout_seconds=seconds,
            elicitation_callback=on_question,
            logging_callback=on_log,
            message_handler=on_message,
            client_info=Implementation(name="spindle", version=_version()),
            log_level="info",
            extensions={EXTENSION: {}},
            result_claims=CLAIMS,
        ) as session,
    ):
        sessions.append(session)
        yield UpstreamSession(session, link)


def _build_elicit_result(action: Action, content: Content | None) -> ElicitResult:
    try:
        return ElicitResult(action=action, content=content)
    except ValidationError:  # the protocol accepts flat forms only
        return ElicitResult(action="decline")


def _version() -> str:
    try:
        return version("spindle")
    except PackageNotFoundError:
        return "0"
