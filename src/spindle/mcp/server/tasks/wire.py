"""The wire forms of tasks: in the core of 2025-11-25, and as an extension of 2026-07-28.

The older form names a tool's own error `failed` and answers with the result in a request of its own; the newer one has
the result in the task, and `failed` only for protocol errors.
"""

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, TypeAdapter, ValidationError
from starlette.requests import Request

from spindle.json_types import JsonObject, JsonValue
from spindle.mcp.server.peer import TASKS_EXTENSION, TASKS_REVISION, Context, declares_tasks
from spindle.mcp.server.tasks.state import TaskState

RELATED: Final = "io.modelcontextprotocol/related-task"
POLL_MS: Final = 1_000
"""How often a client should ask for a task."""
MAX_RESPONSES: Final = 100
_RESPONSE: Final = TypeAdapter[types.InputResponse](types.InputResponse)


class TaskIdParams(types.RequestParams):
    """The parameters of a request about one task."""

    task_id: str


class UpdateParams(TaskIdParams):
    """The parameters of `tasks/update`."""

    input_responses: JsonObject = Field(max_length=MAX_RESPONSES)
    """As they were sent: those to questions that are not open are ignored, whatever they are."""


def is_modern(ctx: Context) -> bool:
    """Return whether a request is of the newer protocol."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def check_method(ctx: Context, *, modern: bool | None = None) -> None:
    """Check that the client may send a request about tasks; `modern` restricts it to one of both protocols.

    Raises:
        MCPError: The protocol of the client has no such method, or it has not declared the extension.
    """
    has_tasks = is_modern(ctx) or ctx.protocol_version == TASKS_REVISION
    if not has_tasks or (modern is not None and modern is not is_modern(ctx)):
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
    if is_modern(ctx) and not declares_tasks(ctx):
        raise build_missing_extension()


def build_missing_extension() -> MCPError:
    """Build the error for a client that has not declared the extension."""
    needed: JsonObject = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", needed)


def check_name_header(ctx: Context, task_id: str) -> None:
    """Check that the `Mcp-Name` header of a request names its task.

    Raises:
        MCPError: It names another one.
    """
    request: object = ctx.request
    if not isinstance(request, Request) or not is_modern(ctx):
        return
    if decode_header_value(request.headers.get(MCP_NAME_HEADER)) != task_id:
        raise MCPError(
            types.HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
        )


def build_unknown() -> MCPError:
    """Build the error for a task that does not exist, has expired, or belongs to another client."""
    return MCPError(types.INVALID_PARAMS, "Task not found: it is unknown, or has expired.")


def build_task(ctx: Context, state: TaskState) -> JsonObject:
    """Build the task without its result."""
    modern = is_modern(ctx)
    shown: JsonObject = {
        "taskId": state.id,
        "status": "failed" if state.is_error and not modern else state.status,
        "createdAt": _format_time(state.created_at),
        "lastUpdatedAt": _format_time(state.updated_at),
        "ttlMs" if modern else "ttl": state.ttl_ms,
        "pollIntervalMs" if modern else "pollInterval": POLL_MS,
    }
    if state.message is not None:
        shown["statusMessage"] = state.message
    return shown


created_tasks: ContextVar[list[JsonObject] | None] = ContextVar("spindle_created_tasks", default=None)
"""Where the answer to a call of the older protocol goes that became a task: the SDK would refuse it as a result."""


def build_created(ctx: Context, state: TaskState) -> JsonObject:
    """Build the answer to a call that has become a task; on the older protocol it is empty, see `created_tasks`."""
    if is_modern(ctx):
        return {"resultType": "task", **build_task(ctx, state)}
    created = created_tasks.get()
    if created is not None:
        created.append({"task": build_task(ctx, state)})
    return {"content": []}


def build_detailed(ctx: Context, state: TaskState, end: JsonObject | None) -> JsonObject:
    """Build the answer to `tasks/get`; on the newer protocol it has the questions, the result or the error."""
    shown = build_task(ctx, state)
    if not is_modern(ctx):
        return shown
    if state.status == "input_required":
        shown["inputRequests"] = state.requests
    elif state.status == "completed":
        shown["result"] = {} if end is None else end.get("result")
    elif state.status == "failed":
        shown["error"] = {} if end is None else end.get("error")
    return {"resultType": "complete", **shown}


def build_result(state: TaskState, end: JsonObject) -> JsonObject:
    """Build the answer to `tasks/result`.

    Raises:
        MCPError: The call ended with a protocol error.
    """
    if "error" in end:
        error: JsonObject = end["error"]
        raise MCPError(error["code"], error["message"], error.get("data"))
    result: JsonObject = end["result"]
    return {**result, "_meta": {**result.get("_meta", {}), RELATED: {"taskId": state.id}}}


def read_response(response: JsonValue) -> types.InputResponse:
    """Read the answer to a question.

    Raises:
        MCPError: It is not the result of any request to a client.
    """
    try:
        return _RESPONSE.validate_python(response, by_name=False)
    except ValidationError as error:
        raise MCPError(types.INVALID_PARAMS, "An input response is not a valid result of its request.") from error


def relate(request: Any, task_id: str) -> Any:
    """Return a request to the client with the task that it belongs to."""
    params = request.params
    if params is None:
        params = types.RequestParams()
    return request.model_copy(update={"params": params.model_copy(update={"meta": {RELATED: {"taskId": task_id}}})})


def declare_tasks(answer: JsonObject) -> JsonObject:
    """Add tasks to the answer to `initialize`, if the revision that was agreed on has them."""
    if answer.get("protocolVersion") != TASKS_REVISION:
        return answer
    own: JsonObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    return {**answer, "capabilities": {**answer.get("capabilities", {}), "tasks": own}}


def mark_tools(answer: JsonObject) -> JsonObject:
    """Mark the tools of a list as ones that may be called as tasks."""
    execution = {"taskSupport": "optional"}
    return {**answer, "tools": [{**tool, "execution": execution} for tool in answer.get("tools", ())]}


def _format_time(micros: int) -> str:
    whole = datetime.fromtimestamp(micros / 1_000_000, UTC)
    return whole.isoformat(timespec="milliseconds").replace("+00:00", "Z")
