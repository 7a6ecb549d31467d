"""The MCP client behind one call: its capabilities, requests to it, and progress and log notifications.

On the newer protocol each request is independent, so a parked call is resumed by another request than the one that
started it. Everything sent to the client goes through the request that waits now.
"""

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    LOG_LEVEL_META_KEY,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    ElicitationCapability,
    InputRequest,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from spindle.bridges.wire import replace_lone_surrogates
from spindle.calls import Call, CallOutcome, Err
from spindle.errors import ClientCapabilityError, UsageError
from spindle.events import Events, Logged, ToolProgress
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.mcp.client_requests import AskAll, Capability, wait_all_gates
from spindle.mcp.server.elicitation import apply_answer, build_request, get_required_capability, get_result_type
from spindle.mcp.server.sessions import McpSession
from spindle.text import shorten
from spindle.trust.envelope import to_one_line
from spindle.turns.gate_desk import GateDesk
from spindle.turns.gates import Gate

LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
"""Log levels from the least to the most severe."""
MAX_LINES: Final = 1_000
"""Log messages that one call may send."""
MAX_LINE_CHARS: Final = 4_000
MAX_QUEUED: Final = 2 * MAX_LINES
"""Limit of queued notifications; beyond it the oldest are dropped."""
FLUSH_SECONDS: Final = 2.0
"""Time to send queued notifications after the call has ended."""
TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
TASKS_REVISION: Final = "2025-11-25"
"""The revision of the older protocol that has tasks in its core."""
_OTHER_NAMES: Final[dict[str, LoggingLevel]] = {"trace": "debug", "warn": "warning"}

Context: TypeAlias = ServerRequestContext[Any, Any]
"""A request of a client."""


class ClientNotifier:
    """The queue of progress and log notifications from one call to its client."""

    def __init__(self, events: Events) -> None:
        self._queue: deque[ToolProgress | LoggingMessageNotificationParams] = deque(maxlen=MAX_QUEUED)
        self._has_queued = anyio.Event()
        self._is_over = False
        self._levels: tuple[LoggingLevel, ...] = ()
        self._has_token = False
        self._lines = 0
        self._last = 0.0
        events.on("tool_progress", self._enqueue_progress)
        events.on("log", self._enqueue_log)

    @asynccontextmanager
    async def send_to(self, request: Context, session: McpSession) -> AsyncGenerator[None]:
        """Send the call's notifications to a request while it waits; flush the queue on exit."""
        self._levels = _get_wanted_levels(request, session)
        self._has_token = bool(request.meta) and request.meta.get("progress_token") is not None
        if not self._levels and not self._has_token:
            yield
            return
        self._is_over = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all, request)
            yield
            self._is_over = True
            self._has_queued.set()
            tasks.cancel_scope.deadline = anyio.current_time() + FLUSH_SECONDS

    def _enqueue_progress(self, progress: ToolProgress) -> None:
        if self._has_token:
            self._enqueue(progress)

    def _enqueue_log(self, line: Logged) -> None:
        level = _OTHER_NAMES.get(line.level, "info") if line.level not in LEVELS else line.level
        if level not in self._levels or self._lines > MAX_LINES:
            return
        self._lines += 1
        is_last = self._lines > MAX_LINES
        data = f"This call has logged {MAX_LINES} lines; further lines are not sent." if is_last else _data_of(line)
        self._enqueue(
            LoggingMessageNotificationParams(level=level, logger=line.tool_name, data=replace_lone_surrogates(data))
        )

    def _enqueue(self, notification: ToolProgress | LoggingMessageNotificationParams) -> None:
        self._queue.append(notification)
        self._has_queued.set()

    async def _send_all(self, request: Context) -> None:
        while True:
            while self._queue:
                message = self._queue.popleft()
                try:
                    await self._send(request, message)
                except Exception:  # noqa: BLE001  a failed notification must not fail the call
                    self._queue.clear()
                    return
            if self._is_over:
                return
            self._has_queued = anyio.Event()
            await self._has_queued.wait()

    async def _send(self, request: Context, notification: ToolProgress | LoggingMessageNotificationParams) -> None:
        if isinstance(notification, LoggingMessageNotificationParams):
            await request.session.send_notification(LoggingMessageNotification(params=notification), request.request_id)
            return
        # The specification requires increasing values, a tool's percentages need not increase.
        self._last = max(self._last + 0.001, notification.percent if notification.percent is not None else 0.0)
        total = 100 if notification.percent is not None else None
        await request.session.report_progress(self._last, total, replace_lone_surrogates(notification.message))


def _get_wanted_levels(request: Context, session: McpSession) -> tuple[LoggingLevel, ...]:
    """Return the log levels to send: none until the client has set a level."""
    wanted: Any = session.log_level
    if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        wanted = (request.meta or {}).get(LOG_LEVEL_META_KEY)
    return LEVELS[LEVELS.index(wanted) :] if wanted in LEVELS else ()


def _data_of(line: Logged) -> JsonValue:
    message = shorten(line.message, MAX_LINE_CHARS)
    if not line.payload:
        return message
    written = json.dumps(line.payload, ensure_ascii=False, default=str)
    facts = line.payload if len(written) <= MAX_LINE_CHARS else {"payload": shorten(written, MAX_LINE_CHARS)}
    return {"message": message, **facts}


_REJECTED = -1
"""The error code that clients return when their user rejects sampling."""
_CAPABILITY_ACTIONS: Final[dict[Capability, str]] = {
    "elicitation": "ask its user",
    "url_elicitation": "open an address for its user",
    "sampling": "ask its model",
    "roots": "list its roots",
}
_REQUIRED: Final[dict[str, JsonObject]] = {
    "url_elicitation": {"elicitation": {"url": {}}},
    "tasks": {"extensions": {TASKS_EXTENSION: {}}},
}


class CallClient:
    """The MCP client behind one call."""

    def __init__(self, request: Context, session: McpSession, call: Call, events: Events) -> None:
        self.request = request
        """The request that waits for the call now."""
        self.ask_parked: AskAll | None = None
        """How to ask the client when the call is parked; `None` to send requests during the call."""
        self.session, self.call, self.events = session, call, events
        self.can_repeat = False
        """Whether the call may run again after it was begun."""
        self.progress: ToolProgress | None = None
        """What the call last reported."""
        self.on_answers: Callable[[Sequence[Gate], Sequence[Any]], None] = lambda _gates, _values: None
        """Called with the answers of the client's user."""
        self._desk = GateDesk()
        self._notifier = ClientNotifier(events)
        events.on("tool_progress", self._keep_progress)

    def _keep_progress(self, progress: ToolProgress) -> None:
        self.progress = progress

    @property
    def profile(self) -> str | None:
        """The profile of the client; `None` for that of the server."""
        return self.session.profile

    @asynccontextmanager
    async def attach_request(self, request: Context) -> AsyncGenerator[None]:
        """Attach the client request that waits for the call."""
        self.request = request
        async with self._notifier.send_to(request, self.session):
            yield

    def can(self, capability: Capability | Literal["tasks"]) -> bool:
        """Return whether the client has declared a capability."""
        declared = self.request.session.client_capabilities or ClientCapabilities()
        if capability == "elicitation":
            return _shows_forms(declared.elicitation)
        if capability == "tasks":
            return can_use_tasks(self.request)
        if capability == "url_elicitation":
            return declared.elicitation is not None and declared.elicitation.url is not None
        return (declared.sampling if capability == "sampling" else declared.roots) is not None

    @property
    def can_be_asked(self) -> bool:
        """Whether the client has declared any capability to answer requests."""
        return any(self.can(each) for each in get_args(Capability))

    async def ask(self, gates: Sequence[Gate]) -> list[Any]:
        """Send all requests at once and return the answers in the same order.

        Raises:
            ClientCapabilityError: The client has not declared a capability that one of them needs; nothing was sent.
            UsageError: One of them cannot be expressed in the protocol; nothing was sent.
        """
        for gate in gates:
            self._check(gate)
        if self.ask_parked is not None:
            answers = await self.ask_parked(gates)
        else:
            answers = await wait_all_gates(partial(self._ask_during_call, self.request), gates)
        self.on_answers(gates, answers)
        return answers

    def _check(self, gate: Gate) -> None:
        needed = get_required_capability(gate)
        if not self.can(needed):
            raise ClientCapabilityError(
                f"the tool {self.call.name!r} needs a client that can {_CAPABILITY_ACTIONS[needed]}, "
                "and this one has not declared "
                f"the capability {needed!r}: use another client, or do without the tool",
                capability=needed,
                tool=self.call.name,
            )
        try:
            build_request(gate)
        except Exception as error:
            # Fail now: once the call is parked, the error could not reach the client.
            raise UsageError(
                f"the question {gate.reason!r} cannot be sent to a client: {error}", tool=self.call.name
            ) from error

    async def open_gate(self, gate: Gate) -> Any:
        """Send one request and return its answer."""
        [answer] = await self.ask([gate])
        return answer

    async def wait_for_all(self, gates: Sequence[Gate]) -> list[Any]:
        """Wait until all gates are settled elsewhere."""
        return await wait_all_gates(self._wait, gates)

    async def _wait(self, gate: Gate) -> Any:
        return await self._desk.wait(gate, turn_id=self.call.tool_call_id, events=self.events)

    async def _ask_during_call(self, request: Context, gate: Gate) -> Any:
        """Ask during the call, as the older protocol allows."""
        value: Any = None
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_question, request, gate, build_request(gate))
            try:
                value = await self._wait(gate)
            except Exception as error:  # noqa: BLE001  raised below unwrapped, not inside an exception group
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return value


async def send_question(request: Context, gate: Gate, question: InputRequest) -> None:
    """Send a question as part of a request of the client, and settle its gate with the answer."""
    about = ServerMessageMetadata(related_request_id=request.request_id)
    try:
        answered = await request.session.send_request(question, get_result_type(gate), metadata=about)
    except MCPError as error:
        if error.code == _REJECTED and get_required_capability(gate) == "sampling":
            gate.reject(PermissionError("the user declined"))
            return
        said = to_one_line(str(error), 500)
        gate.reject(UsageError(f"the client could not {_CAPABILITY_ACTIONS[get_required_capability(gate)]}: {said}"))
    except ValidationError:
        gate.reject(
            UsageError(
                f"the client was asked to {_CAPABILITY_ACTIONS[get_required_capability(gate)]}, "
                "but returned an invalid answer"
            )
        )
    else:
        apply_answer(gate, answered)


def declares_tasks(request: Context) -> bool:
    """Return whether a request of the newer protocol declares the extension for tasks."""
    declared = request.session.client_capabilities
    is_modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and declared is not None and TASKS_EXTENSION in (declared.extensions or {})


def asks_for_task(request: Context) -> bool:
    """Return whether a call of the older protocol asks to be a task."""
    return request.protocol_version == TASKS_REVISION and is_object((request.params or {}).get("task"))


def can_use_tasks(request: Context) -> bool:
    """Return whether a call may become a task."""
    return declares_tasks(request) or asks_for_task(request)


def _shows_forms(elicitation: ElicitationCapability | None) -> bool:
    # Without a declared mode, forms are supported.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def report_missing_capability(ctx: Context, outcome: CallOutcome) -> CallOutcome:
    """Report a capability that the client lacks; the newer protocol has an error code for it."""
    result = outcome.result
    if not (isinstance(result, Err) and isinstance(lack := result.cause, ClientCapabilityError)):
        return outcome
    if result.code != "execution_failed":  # the tool handled it with its own error
        return outcome
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        needed: JsonObject = {"requiredCapabilities": _REQUIRED.get(lack.capability, {lack.capability: {}})}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, str(lack), needed)
    return replace(outcome, result=replace(result, error=str(lack), by="tool"))
