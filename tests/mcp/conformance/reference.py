"""The reference server of the conformance suite, written with the official SDK: `reference.py` prints its port.

It has every tool, resource and prompt that the suite uses. The suite runs against it directly, and against a gateway in
front of it. `reference.py older` does not know the revision 2026-07-28.
"""

import json
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

sys.path.insert(0, str(Path(__file__).parent))
import offers

Context = offers.Context
Answers = dict[str, Any]
Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, types.CallToolRequestParams], Awaitable[Result | str]]

WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
TOOLS: dict[str, tuple[dict[str, Any], Handler]] = {}
BUS = InMemorySubscriptionBus()


def tool(name: str, schema: dict[str, Any] | None = None) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        TOOLS[name] = (schema or {"type": "object", "properties": {}}, handler)
        return handler

    return add


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def build_metadata(ctx: Context) -> ServerMessageMetadata:
    return ServerMessageMetadata(related_request_id=ctx.request_id)


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=offers.BLOB, mime_type="image/png")


def document(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    inside = types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return types.EmbeddedResource(type="resource", resource=inside)


def done(*blocks: Any, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(blocks), **more)


def form(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def prompt(words: str, tokens: int = 100) -> types.CreateMessageRequest:
    asked = types.SamplingMessage(role="user", content=text(words))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[asked], max_tokens=tokens))


def require(ctx: Context, *names: str) -> None:
    declared = ctx.session.client_capabilities or types.ClientCapabilities()
    missing: dict[str, Any] = {name: {} for name in names if getattr(declared, name) is None}
    if missing:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY, "A capability is missing.", {"requiredCapabilities": missing}
        )


NEEDS = {types.ElicitRequest: "elicitation", types.CreateMessageRequest: "sampling", types.ListRootsRequest: "roots"}


RESULTS: dict[type, Any] = {
    types.ElicitRequest: types.ElicitResult,
    types.CreateMessageRequest: types.CreateMessageResult,
    types.ListRootsRequest: types.ListRootsResult,
}


async def ask(
    ctx: Context, params: types.CallToolRequestParams, state: str | None = None, **requests: Any
) -> Answers | types.InputRequiredResult:
    """Return the answers that the request brings, or ask for them; on the older revision, ask during the call."""
    require(ctx, *(NEEDS[type(each)] for each in requests.values()))
    if not is_modern(ctx):
        about = build_metadata(ctx)
        return {
            name: await ctx.session.send_request(each, RESULTS[type(each)], metadata=about)
            for name, each in requests.items()
        }
    given = params.input_responses or {}
    if all(_is_valid(each, given.get(name)) for name, each in requests.items()):
        return {name: given[name] for name in requests}
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def _is_valid(request: Any, answer: Any) -> bool:
    if isinstance(request, types.ElicitRequest):
        if not isinstance(answer, types.ElicitResult):
            return False
        wanted: dict[str, Any] = getattr(request.params, "requested_schema", {})
        content = answer.content or {}
        kinds = {"string": str, "boolean": bool}
        return answer.action != "accept" or all(
            isinstance(content.get(name), kinds[wanted["properties"][name]["type"]]) for name in wanted["required"]
        )
    if isinstance(request, types.ListRootsRequest):
        return isinstance(answer, types.ListRootsResult)
    return isinstance(answer, types.CreateMessageResult)


def get_content(answer: Any) -> dict[str, Any]:
    return (answer.content or {}) if isinstance(answer, types.ElicitResult) else {}


@tool("test_simple_text")
async def simple_text(_ctx: Context, _params: Any) -> str:
    return "This is a simple text response for testing."


@tool("test_image_content")
async def image_content(_ctx: Context, _params: Any) -> Result:
    return done(image())


@tool("test_audio_content")
async def audio_content(_ctx: Context, _params: Any) -> Result:
    return done(types.AudioContent(type="audio", data=WAV, mime_type="audio/wav"))


@tool("test_embedded_resource")
async def embedded_resource(_ctx: Context, _params: Any) -> Result:
    return done(document("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool("test_multiple_content_types")
async def multiple_content_types(_ctx: Context, _params: Any) -> Result:
    data = document("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return done(text("Multiple content types test:"), image(), data)


@tool("test_error_handling")
async def error_handling(_ctx: Context, _params: Any) -> Result:
    return done(text("This tool intentionally returns an error for testing"), is_error=True)


@tool("test_tool_with_progress")
async def with_progress(ctx: Context, _params: Any) -> str:
    for percent in (0, 50, 100):
        await ctx.session.report_progress(percent, 100, f"{percent} of 100")
    return "done"


async def log(ctx: Context, level: types.LoggingLevel, words: str) -> None:
    wanted = (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
    if is_modern(ctx) and wanted is None:
        return
    line = types.LoggingMessageNotificationParams(level=level, data=words, logger="reference")
    await ctx.session.send_notification(types.LoggingMessageNotification(params=line), ctx.request_id)


@tool("test_tool_with_logging")
async def with_logging(ctx: Context, _params: Any) -> str:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(ctx, "info", line)
    return "done"


@tool("test_logging_tool")
async def logging_tool(ctx: Context, _params: Any) -> str:
    for level in ("debug", "info", "error"):
        await log(ctx, level, "A line that only some want")
    return "done"


ASKED = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}


@tool("test_sampling", ASKED)
async def sampling(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    request = prompt((params.arguments or {})["prompt"])
    answered = await ask(ctx, params, sampled=request)
    if isinstance(answered, types.InputRequiredResult):
        return answered
    return f"LLM response: {answered['sampled'].content.text}"


@tool("test_missing_capability")
async def missing_capability(ctx: Context, _params: Any) -> str:
    require(ctx, "sampling")
    return "done"


async def elicited(
    ctx: Context, params: types.CallToolRequestParams, message: str, properties: dict[str, Any], begins: str
) -> Result | str:
    """Ask, and report the answer."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": []}
    answered = await ask(ctx, params, form=form(message, schema))
    if isinstance(answered, types.InputRequiredResult):
        return answered
    answer = answered["form"]
    return f"{begins}: action={answer.action}, content={json.dumps(answer.content or {})}"


@tool("test_elicitation", {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]})
async def elicitation(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await elicited(ctx, params, (params.arguments or {})["message"], fields, "User response")


@tool("test_elicitation_sep1034_defaults")
async def elicitation_defaults(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicited(ctx, params, "Who are you?", fields, "Elicitation completed")


@tool("test_elicitation_sep1330_enums")
async def elicitation_enums(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicited(ctx, params, "Which?", fields, "Elicitation completed")


async def greet(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    answered = await ask(ctx, params, user_name=form("What is your name?", NAME))
    if isinstance(answered, types.InputRequiredResult):
        return answered
    return f"Hello, {get_content(answered['user_name']).get('name')}!"


@tool("test_input_required_result_elicitation")
async def input_elicitation(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    return await greet(ctx, params)


@tool("test_streaming_elicitation")
async def streaming_elicitation(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    await ctx.session.report_progress(50, 100, "about to ask")
    return await greet(ctx, params)


@tool("test_input_required_result_request_state")
@tool("test_input_required_result_tampered_state")
async def input_state(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    answered = await ask(ctx, params, state="confirming", confirm=form("Please confirm", OK))
    if isinstance(answered, types.InputRequiredResult):
        return answered
    if is_modern(ctx) and params.request_state != "confirming":
        raise MCPError(types.INVALID_PARAMS, "The request state is missing.")
    return "state-ok"


@tool("test_input_required_result_multi_round")
async def input_rounds(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    if params.request_state is None or params.request_state == "round 1":
        first = await ask(ctx, params, state="round 1", step1=form("Step 1: What is your name?", NAME))
        if isinstance(first, types.InputRequiredResult):
            return first
        name = get_content(first["step1"]).get("name")
        color = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
        request = form("Step 2: What is your favorite color?", color)
        if not is_modern(ctx):
            second = await ask(ctx, params, step2=request)
            return f"{name} likes {get_content(second['step2']).get('color')}" if isinstance(second, dict) else second
        return types.InputRequiredResult(input_requests={"step2": request}, request_state=f"round 2 of {name}")
    answer = (params.input_responses or {}).get("step2")
    content = get_content(answer)
    return f"{params.request_state.removeprefix('round 2 of ')} likes {content.get('color')}"


@tool("test_input_required_result_sampling")
async def input_sampling(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    answered = await ask(ctx, params, capital_question=prompt("What is the capital of France?"))
    return answered if isinstance(answered, types.InputRequiredResult) else answered["capital_question"].content.text


@tool("test_input_required_result_list_roots")
async def input_roots(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    answered = await ask(ctx, params, client_roots=types.ListRootsRequest())
    if isinstance(answered, types.InputRequiredResult):
        return answered
    return ", ".join(f"{root.name}: {root.uri}" for root in answered["client_roots"].roots)


@tool("test_input_required_result_multiple_inputs")
async def input_several(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    answered = await ask(
        ctx,
        params,
        state="several",
        user_name=form("What is your name?", NAME),
        greeting=prompt("Generate a greeting", 50),
        client_roots=types.ListRootsRequest(),
    )
    if isinstance(answered, types.InputRequiredResult):
        return answered
    name = get_content(answered["user_name"]).get("name")
    return f"{answered['greeting'].content.text} {name}, of {len(answered['client_roots'].roots)} roots"


@tool("test_input_required_result_capabilities")
async def input_capabilities(ctx: Context, params: types.CallToolRequestParams) -> Result | str:
    declared = ctx.session.client_capabilities or types.ClientCapabilities()
    if declared.elicitation is not None:
        return await greet(ctx, params)
    answered = await ask(ctx, params, greeting=prompt("Generate a greeting", 50))
    return answered if isinstance(answered, types.InputRequiredResult) else answered["greeting"].content.text


async def say_arguments(_ctx: Context, params: types.CallToolRequestParams) -> str:
    return json.dumps(params.arguments)


TOOLS["json_schema_2020_12_tool"] = (
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    say_arguments,
)
TOOLS["test_custom_header"] = (
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
    say_arguments,
)


@tool("test_trigger_tool_change")
async def trigger_tool_change(ctx: Context, _params: Any) -> str:
    if TOOLS.pop("test_extra_tool", None) is None:
        TOOLS["test_extra_tool"] = ({"type": "object"}, say_arguments)
    await BUS.publish(ToolsListChanged())
    if not is_modern(ctx):
        await ctx.session.send_tool_list_changed()
    return "changed"


async def list_tools(_ctx: Context, _params: Any) -> types.ListToolsResult:
    listed = [
        types.Tool(name=name, description=f"Runs {name}", input_schema=schema) for name, (schema, _) in TOOLS.items()
    ]
    return types.ListToolsResult(tools=listed)


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Result:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    answer = await TOOLS[params.name][1](ctx, params)
    return done(text(answer)) if isinstance(answer, str) else answer


async def set_level(_ctx: Context, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def build() -> Server[Any]:
    """Build the server: the tools, and the resources and prompts of `offers`."""
    server: Server[Any] = Server(
        "reference",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=offers.list_resources,
        on_list_resource_templates=offers.list_templates,
        on_read_resource=offers.read_resource,
        on_subscribe_resource=offers.subscribed,
        on_unsubscribe_resource=offers.subscribed,
        on_list_prompts=offers.list_prompts,
        on_get_prompt=offers.get_prompt,
        on_completion=offers.complete,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="reference"))
    return server


def older(app: Any) -> Any:
    """Answer the newer way to connect like a server that does not support it."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"mcp-method", b"server/discover") in scope["headers"]:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"what?"})
            return
        await app(scope, receive, send)

    return served


def main() -> None:
    """Serve on a free port; it listens before the port is printed, so clients need not wait."""
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    app = build().streamable_http_app()
    served = older(app) if "older" in sys.argv else app
    uvicorn.Server(uvicorn.Config(served, log_level="error", timeout_graceful_shutdown=1)).run(sockets=[listening])


if __name__ == "__main__":
    main()
