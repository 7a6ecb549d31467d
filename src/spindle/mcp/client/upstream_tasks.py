"""Waits for the task that a server made of a call: polls it, shows its messages, answers its questions.

Both wire forms are here: the core of 2025-11-25, where the caller asks for a task and reads the result by a request of
its own, and the extension of 2026-07-28, where the server decides and the task has the result. Everything a server says
about a task is bounded: its id, its messages, how often it wants to be asked, and how many questions it asks.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

import anyio
import mcp_types as types
from mcp.client import ClientSession
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import Field, ValidationError

from spindle.json_types import JsonObject, JsonValue
from spindle.mcp.client.task_ledger import CallTask

EXTENSION: Final = "io.modelcontextprotocol/tasks"
MIN_POLL_SECONDS: Final = 0.1
MAX_POLL_SECONDS: Final = 10.0
DEFAULT_POLL_SECONDS: Final = 1.0
REQUEST_SECONDS: Final = 30.0
"""How long one request about a task may take, but for the one that waits for the result."""
CANCEL_SECONDS: Final = 2.0
MAX_QUESTIONS: Final = 50
MAX_FAILURES: Final = 3
"""How often in a row a server may fail to say how a task is."""
MAX_ID_CHARS: Final = 1_000
_MAX_MESSAGE_CHARS: Final = 2_000

Answers = Callable[[types.InputRequiredResult], Awaitable[types.InputResponses | None]]


class TaskView(types.Result):
    """A task as a server describes it, in either form."""

    task_id: str = Field(min_length=1, max_length=MAX_ID_CHARS)
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = None
    poll_interval: JsonValue = None
    poll_interval_ms: JsonValue = None
    result: JsonObject | None = None
    error: JsonObject | None = None

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next request: the server's hint, within bounds."""
        hint = self.poll_interval if self.poll_interval_ms is None else self.poll_interval_ms
        if not isinstance(hint, (int, float)) or isinstance(hint, bool):
            return DEFAULT_POLL_SECONDS
        return min(max(hint / 1_000, MIN_POLL_SECONDS), MAX_POLL_SECONDS)


class DetailedTask(TaskView):
    """A task of the newer protocol, with its questions."""

    input_requests: types.InputRequests | None = None


class ClaimedTask(TaskView):
    """The answer to a call of the newer protocol that became a task."""

    result_type: Literal["task"] = "task"


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: types.InputResponses


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class _ReadResult(types.Request[_TaskParams, Literal["tasks/result"]]):
    method: Literal["tasks/result"] = "tasks/result"


async def _refuse_claim(_claimed: ClaimedTask, _context: ClaimContext) -> types.CallToolResult:
    raise MCPError(types.INVALID_REQUEST, "a task is read by its own requests")


CLAIMS: Final = {EXTENSION: [ResultClaim(result_type="task", model=ClaimedTask, resolve=_refuse_claim)]}
"""What lets the SDK accept a task as the answer to a call of the newer protocol."""


class TaskSession(ClientSession):
    """The SDK's session, which can also ask for a task on the older protocol."""

    def __init__(self, *streams: Any, **options: Any) -> None:
        super().__init__(*streams, **options)
        self._task_support: dict[str, str | None] = {}

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Do nothing, since a malicious output schema could stall it; `tools.output_check` has a bounded cost."""

    async def call_as_task(
        self, name: str, arguments: Mapping[str, JsonValue], *, seconds: float, on_progress: ProgressFnT
    ) -> types.CallToolResult | TaskView:
        """Call a tool as a task; the answer is the result if the server did not make it one.

        Raises:
            MCPError: The server answered with an error, or not at all.
            ValidationError: Its answer is neither.
        """
        params = types.CallToolRequestParams(
            name=name, arguments=dict(arguments), task=types.TaskMetadata(ttl=int(seconds * 1_000))
        )
        data = types.CallToolRequest(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)
        options: CallOptions = {"timeout": seconds, "on_progress": on_progress}
        self._stamp(data, options)
        raw = await self._dispatcher.send_raw_request("tools/call", data["params"], options)
        if "task" in raw:
            return TaskView.model_validate(raw["task"], by_name=False)
        return types.CallToolResult.model_validate(raw, by_name=False)

    def note_task_support(self, tools: Sequence[types.Tool]) -> None:
        """Note which of the listed tools can, or must, be called as tasks on the older protocol."""
        for tool in tools:
            self._task_support[tool.name] = None if tool.execution is None else tool.execution.task_support

    def needs_task(self, name: str, task: CallTask) -> bool:
        """Return whether a call asks for a task: if its tool requires it, or if its own client asked for one."""
        tasks = None if self.server_capabilities is None else self.server_capabilities.tasks
        requests = None if tasks is None else tasks.requests
        if requests is None or requests.tools is None or requests.tools.call is None:
            return False
        support = self._task_support.get(name)
        return support == "required" or (support == "optional" and task.is_task)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskWaiter:
    """Waits for one task of a server."""

    session: ClientSession
    is_modern: bool
    is_broken: Callable[[MCPError], bool]
    """Whether an error says that the connection is lost; then the task goes on."""
    seconds: float
    on_progress: ProgressFnT
    answer: Answers
    call: CallTask

    async def wait(self, task_id: str, first: TaskView | None = None) -> types.CallToolResult:
        """Wait for the end of a task and return its result; a cancelled wait cancels the task.

        Raises:
            MCPError: The task failed or was cancelled, its server does not know it, or the connection is lost.
            ValidationError: Its result does not conform to the protocol.
        """
        try:
            # Inside: a wait that is cancelled meanwhile also cancels the task.
            await self.call.keep(task_id)
            result = await self._poll(task_id, first)
        except anyio.get_cancelled_exc_class():
            if not self.call.is_held:
                with anyio.move_on_after(CANCEL_SECONDS, shield=True):
                    await self._cancel(task_id)
                    await self.call.drop()
            raise
        except MCPError as error:
            if not self.is_broken(error):
                await self.call.drop()
            raise
        except ValidationError:
            await self.call.drop()
            raise
        await self.call.drop()
        return result

    async def _poll(self, task_id: str, first: TaskView | None) -> types.CallToolResult:
        said, steps, failures = None, 0, 0
        answered: set[str] = set()
        view = first
        while True:
            if view is not None:
                message = (view.status_message or "")[:_MAX_MESSAGE_CHARS]
                if message and message != said:
                    said, steps = message, steps + 1
                    await self.on_progress(steps, None, message)
                result = await self._read_end(task_id, view)
                if result is not None:
                    return result
                if isinstance(view, DetailedTask):
                    await self._answer_new(task_id, view, answered)
                await anyio.sleep(view.pause_seconds)
            try:
                view = await self._get(task_id)
                failures = 0
            except MCPError as error:
                failures += 1
                is_final = error.code in {types.INVALID_PARAMS, types.METHOD_NOT_FOUND} or self.is_broken(error)
                if is_final or failures >= MAX_FAILURES:
                    raise
                await anyio.sleep(DEFAULT_POLL_SECONDS)

    async def _get(self, task_id: str) -> TaskView:
        request = _GetTask(params=_TaskParams(task_id=task_id))
        kind = DetailedTask if self.is_modern else TaskView
        view = await self.session.send_request(request, kind, request_read_timeout_seconds=REQUEST_SECONDS)
        if view.task_id != task_id:
            raise MCPError(types.INVALID_PARAMS, "it answered with another task")
        return view

    async def _read_end(self, task_id: str, view: TaskView) -> types.CallToolResult | None:
        """Return the result of a task that has ended; on the older protocol also wait for one that asks."""
        if view.status == "cancelled":
            raise MCPError(types.INVALID_REQUEST, "it cancelled the task")
        if view.status == "working":
            return None
        if not self.is_modern:
            # While this request waits, the server asks its questions.
            request = _ReadResult(params=_TaskParams(task_id=task_id))
            return await self.session.send_request(
                request, types.CallToolResult, request_read_timeout_seconds=self.seconds
            )
        if not isinstance(view, DetailedTask):
            return None  # what a call returns has no result yet, whatever its status is
        if view.status == "completed":
            return types.CallToolResult.model_validate(view.result, by_name=False)
        if view.status == "failed":
            raise _build_error(view)
        return None

    async def _answer_new(self, task_id: str, view: DetailedTask, answered: set[str]) -> None:
        requests = {key: each for key, each in (view.input_requests or {}).items() if key not in answered}
        if view.status != "input_required" or not requests:
            return
        answered |= requests.keys()
        if len(answered) > MAX_QUESTIONS:
            raise MCPError(types.INVALID_REQUEST, f"it asked more than {MAX_QUESTIONS} questions")
        responses = await self.answer(types.InputRequiredResult(input_requests=requests))
        if not responses:
            return
        request = _UpdateTask(params=_UpdateParams(task_id=task_id, input_responses=responses))
        await self.session.send_request(request, types.EmptyResult, request_read_timeout_seconds=REQUEST_SECONDS)

    async def _cancel(self, task_id: str) -> None:
        request: Any = _CancelTask(params=_TaskParams(task_id=task_id))
        with suppress(MCPError, ValidationError):  # the server may have ended, or the task
            await self.session.send_request(request, types.Result, request_read_timeout_seconds=CANCEL_SECONDS)


def _build_error(view: DetailedTask) -> MCPError:
    error = view.error or {}
    code, message = error.get("code"), error.get("message")
    return MCPError(
        code if isinstance(code, int) else types.INTERNAL_ERROR,
        str(message or view.status_message or "the task failed")[:_MAX_MESSAGE_CHARS],
    )
