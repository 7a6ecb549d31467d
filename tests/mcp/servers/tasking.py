"""An MCP server whose tools run as tasks, in the form of either revision; it lives in the folder it is given.

`tasking.py FOLDER http` serves on a port it prints, `tasking.py FOLDER http-older` without the revision 2026-07-28.
What it is asked is in the file `log` of the folder. A task ends once the folder has a file `go`.
"""

import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

EXTENSION = "io.modelcontextprotocol/tasks"
FORM = {
    "mode": "form",
    "message": "What is your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
NAMES = ("build", "ask_name", "fail", "odd")
WORKING, DONE = "working", "completed"


def get_field(values: Any, name: str, otherwise: Any) -> Any:
    return otherwise if values is None else values.get(name, otherwise)


class TaskParams(types.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class Tasking:
    """The server and its tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: dict[str, dict[str, Any]] = {}
        self.sdk: Server[Any] = Server("tasking", on_list_tools=self.list_tools, on_call_tool=self.call_plainly)
        self.sdk.extensions[EXTENSION] = {}
        self.sdk.middleware.append(self)
        self.sdk.add_request_handler("tasks/get", TaskParams, self.get)
        self.sdk.add_request_handler("tasks/result", TaskParams, self.result)
        self.sdk.add_request_handler("tasks/update", UpdateParams, self.update)
        self.sdk.add_request_handler("tasks/cancel", TaskParams, self.cancel)

    def log(self, line: str) -> None:
        with (self.folder / "log").open("a") as file:
            file.write(f"{line}\n")

    async def list_tools(self, _ctx: Any, _params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"what": {"type": "string"}}}
        required = types.ToolExecution(task_support="required")
        tools = [types.Tool(name=name, input_schema=schema, execution=required) for name in NAMES]
        return types.ListToolsResult(tools=[*tools, types.Tool(name="plain", input_schema=schema)])

    async def call_plainly(self, _ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.log(f"plain {params.name}")
        return types.CallToolResult(content=[types.TextContent(type="text", text="plain")])

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        """Answer calls with tasks, and declare them on the older revision."""
        params: dict[str, Any] = ctx.params or {}
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if ctx.method == "initialize":
            answer = await call_next(ctx)
            tasks: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
            return {**answer, "capabilities": {**answer["capabilities"], "tasks": tasks}}
        if ctx.method != "tools/call" or params["name"] == "plain":
            return await call_next(ctx)
        declared = ctx.session.client_capabilities
        if is_modern and EXTENSION not in (declared.extensions or {}):
            raise MCPError(-32021, "tasks are required")
        if not is_modern and "task" not in params:
            raise MCPError(types.METHOD_NOT_FOUND, "a task is required")
        self.log(f"call {params['name']}")
        now, made = datetime.now(UTC).isoformat(), f"task-{len(self.tasks) + 1}"
        self.tasks[made] = {
            "name": params["name"],
            "what": get_field(params.get("arguments"), "what", ""),
            "createdAt": now,
            "answer": None,
            "cancelled": False,
        }
        shown = self.show(made, is_modern=is_modern)
        return {"resultType": "task", **shown} if is_modern else {"task": shown}

    def show(self, id: str, *, is_modern: bool) -> dict[str, Any]:
        task = self.tasks[id]
        shown: dict[str, Any] = {
            "taskId": id,
            "status": self.get_status(task),
            "statusMessage": f"{task['name']} {task['what']}",
            "createdAt": task["createdAt"],
            "lastUpdatedAt": task["createdAt"],
            "ttlMs" if is_modern else "ttl": None,
            "pollIntervalMs" if is_modern else "pollInterval": 20,
        }
        if task["name"] == "odd":
            shown |= {"id": {"taskId": "another"}, "long": {"statusMessage": "x" * 100_000}}.get(task["what"], {})
            hints = {"never": 10**15, "always": -5, "words": "soon"}
            if task["what"] in hints:
                shown["pollIntervalMs" if is_modern else "pollInterval"] = hints[task["what"]]
        return shown

    def get_status(self, task: dict[str, Any]) -> str:
        if task["cancelled"]:
            return "cancelled"
        if task["name"] == "ask_name":
            return "input_required" if task["answer"] is None else DONE
        if not (self.folder / "go").exists():
            return WORKING
        return "failed" if task["name"] == "fail" else DONE

    def build_result(self, task: dict[str, Any]) -> dict[str, Any]:
        if task["name"] == "fail":
            raise MCPError(types.INTERNAL_ERROR, "the build broke")
        text = f"hello {task['answer']}" if task["name"] == "ask_name" else f"built {task['what']}"
        return {"content": [{"type": "text", "text": text}], "isError": False}

    def find(self, id: str) -> dict[str, Any]:
        if id not in self.tasks:
            raise MCPError(types.INVALID_PARAMS, "Task not found")
        return self.tasks[id]

    async def get(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        task, is_modern = self.find(params.task_id), ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.log(f"get {params.task_id}")
        shown = self.show(params.task_id, is_modern=is_modern)
        if is_modern and shown["status"] == "input_required":
            shown["inputRequests"] = {"name": {"method": "elicitation/create", "params": FORM}}
        if is_modern and shown["status"] == DONE:
            shown["result"] = self.build_result(task)
        if is_modern and shown["status"] == "failed":
            shown["error"] = {"code": types.INTERNAL_ERROR, "message": "the build broke"}
        return shown

    async def result(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        task = self.find(params.task_id)
        self.log(f"result {params.task_id}")
        if task["name"] == "ask_name":
            asked = types.ElicitRequestFormParams.model_validate(FORM, by_name=False)
            answer = await ctx.session.elicit_form(asked.message, asked.requested_schema, ctx.request_id)
            task["answer"] = get_field(answer.content, "name", answer.action)
        while self.get_status(task) == WORKING:  # noqa: ASYNC110  another process creates the file
            await anyio.sleep(0.02)
        return self.build_result(task)

    async def update(self, _ctx: Any, params: UpdateParams) -> dict[str, Any]:
        self.log(f"update {params.task_id}")
        answer = params.input_responses["name"]
        self.find(params.task_id)["answer"] = get_field(answer.get("content"), "name", answer["action"])
        return {}

    async def cancel(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        self.log(f"cancel {params.task_id}")
        self.find(params.task_id)["cancelled"] = True
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        return {} if is_modern else self.show(params.task_id, is_modern=False)


def older(app: Any) -> Any:
    """Answer the newer way to connect like a server that does not support it."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"mcp-method", b"server/discover") in scope["headers"]:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"what?"})
            return
        await app(scope, receive, send)

    return served


if __name__ == "__main__":
    served = Tasking(Path(sys.argv[1])).sdk.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    chosen = older(served) if sys.argv[2] == "http-older" else served
    uvicorn.Server(uvicorn.Config(chosen, log_level="error", timeout_graceful_shutdown=1)).run(sockets=[listening])
