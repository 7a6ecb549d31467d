"""What the official conformance suite calls: tools of ours, and prompts and resources of the SDK beside them."""

import base64
import json
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate

from spindle import Err, Gate, Media, Ok, Tool, ToolContext, tool
from spindle.errors import GateAbortedError

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = (
    b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"
    b"@\x1f\x00\x00@\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"
)
SECONDS = 20


def image() -> Media:
    return Media.tool_generated(PNG, kind="image", mime_type="image/png", filename="dot.png")


def document(text: str, mime_type: str, uri: str) -> Media:
    return Media.tool_generated(text.encode(), kind="document", mime_type=mime_type, filename="document", source=uri)


@tool
def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Media:
    """Give an image."""
    return image()


@tool
def test_audio_content() -> Media:
    """Give a sound."""
    return Media.tool_generated(WAV, kind="audio", mime_type="audio/wav", filename="silence.wav")


@tool
def test_embedded_resource() -> Media:
    """Give a document."""
    return document("This is an embedded resource content.", "text/plain", "test://embedded-resource")


@tool
def test_multiple_content_types() -> Ok:
    """Give a text, an image and a document."""
    data = document('{"test":"data","value":123}', "application/json", "test://mixed-content-resource")
    return Ok("Multiple content types test:", media=(image(), data))


@tool
def test_error_handling() -> Err:
    """Fail."""
    return Err("execution_failed", "This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(*, ctx: ToolContext) -> str:
    """Say how far it is."""
    for percent in (0, 50, 100):
        ctx.progress(f"{percent} of 100", percent=percent)
    return "done"


async def answer_to(ctx: ToolContext, name: str, question: str, properties: dict[str, Any]) -> Any:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return await ctx.wait_for(Gate(name, {"question": question}, schema=schema, timeout_seconds=SECONDS))


async def told(ctx: ToolContext, name: str, question: str, properties: dict[str, Any]) -> str:
    try:
        content = await answer_to(ctx, name, question, properties)
    except PermissionError:
        return "action=decline, content={}"
    except GateAbortedError:
        return "action=cancel, content={}"
    return f"action=accept, content={json.dumps(content)}"


@tool
async def test_elicitation(message: str, *, ctx: ToolContext) -> str:
    """Ask the user."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return f"User response: {await told(ctx, 'user', message, fields)}"


@tool
async def test_elicitation_sep1034_defaults(*, ctx: ToolContext) -> str:
    """Ask with defaults."""
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await told(ctx, 'defaults', 'Who are you?', fields)}"


@tool
async def test_elicitation_sep1330_enums(*, ctx: ToolContext) -> str:
    """Ask with choices."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await told(ctx, 'choices', 'Which?', fields)}"


NAME = {"name": {"type": "string"}}


@tool
async def test_input_required_result_elicitation(*, ctx: ToolContext) -> str:
    """Greet the user."""
    answer = await answer_to(ctx, "user_name", "What is your name?", NAME)
    return f"Hello, {answer['name']}!"


@tool
async def test_input_required_result_request_state(*, ctx: ToolContext) -> str:
    """Ask, and go on with what was kept."""
    await answer_to(ctx, "confirm", "Please confirm", {"ok": {"type": "boolean"}})
    return "state-ok"


@tool
async def test_input_required_result_tampered_state(*, ctx: ToolContext) -> str:
    """Ask, and go on only with what was kept."""
    await answer_to(ctx, "confirm", "Please confirm", {"ok": {"type": "boolean"}})
    return "state-ok"


@tool
async def test_input_required_result_multi_round(*, ctx: ToolContext) -> str:
    """Ask twice."""
    one = await answer_to(ctx, "step1", "Step 1: What is your name?", NAME)
    two = await answer_to(ctx, "step2", "Step 2: What is your favorite color?", {"color": {"type": "string"}})
    return f"{one['name']} likes {two['color']}"


@tool
async def test_input_required_result_capabilities(*, ctx: ToolContext) -> str:
    """Ask whoever can be asked."""
    answer = await answer_to(ctx, "user_name", "What is your name?", NAME)
    return f"Hello, {answer['name']}!"


def _typed_anew(args: Any, _ctx: Any, _meta: Any) -> str:
    return json.dumps(args)


json_schema_2020_12_tool = Tool(
    name="json_schema_2020_12_tool",
    description="Takes what the newer JSON Schema can say",
    input_schema={
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
    handler=_typed_anew,
)

TOOLS = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_input_required_result_elicitation,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    json_schema_2020_12_tool,
]


# --- what Spindle does not do itself: a server of the SDK whose prompts and resources are served beside the tools

Context = ServerRequestContext[Any, Any]
TEMPLATE = UriTemplate.parse("test://template/{id}/data")
BLOB = base64.b64encode(PNG).decode()


async def list_resources(_ctx: Context, _params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri="test://static-text", name="text", description="A text", mime_type="text/plain"),
            types.Resource(uri="test://static-binary", name="image", description="An image", mime_type="image/png"),
            types.Resource(uri="test://watched-resource", name="watched", description="Watched"),
        ]
    )


async def list_templates(_ctx: Context, _params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template=str(TEMPLATE), name="template", description="Data by id", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    found = TEMPLATE.match(uri)
    if uri == "test://static-text":
        text = "This is the content of the static text resource."
        content: Any = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    elif uri == "test://static-binary":
        content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=BLOB)
    elif found is not None:
        data = {"id": found["id"], "templateTest": True, "data": f"Data for ID: {found['id']}"}
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    else:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[content])


async def subscribed(_ctx: Context, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def list_prompts(_ctx: Context, _params: Any) -> types.ListPromptsResult:
    def argument(name: str) -> types.PromptArgument:
        return types.PromptArgument(name=name, description=f"The {name}", required=True)

    return types.ListPromptsResult(
        prompts=[
            types.Prompt(name="test_simple_prompt", description="A simple prompt"),
            types.Prompt(
                name="test_prompt_with_arguments",
                description="A prompt with arguments",
                arguments=[argument("arg1"), argument("arg2")],
            ),
            types.Prompt(
                name="test_prompt_with_embedded_resource",
                description="A prompt with a resource",
                arguments=[argument("resourceUri")],
            ),
            types.Prompt(name="test_prompt_with_image", description="A prompt with an image"),
            types.Prompt(name="test_input_required_result_prompt", description="A prompt that asks"),
        ]
    )


def user(content: Any) -> types.PromptMessage:
    content = types.TextContent(type="text", text=content) if isinstance(content, str) else content
    return types.PromptMessage(role="user", content=content)


async def get_prompt(
    _ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            messages = [user("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            messages = [user(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            text = "Embedded resource content for testing."
            inside = types.TextResourceContents(uri=given["resourceUri"], mime_type="text/plain", text=text)
            embedded = types.EmbeddedResource(type="resource", resource=inside)
            messages = [user(embedded), user("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            shown = types.ImageContent(type="image", data=BLOB, mime_type="image/png")
            messages = [user(shown), user("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            answered = (params.input_responses or {}).get("user_context")
            if not isinstance(answered, types.ElicitResult):
                schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
                asked = types.ElicitRequestFormParams(
                    message="What context should the prompt use?", requested_schema=schema
                )
                return types.InputRequiredResult(input_requests={"user_context": types.ElicitRequest(params=asked)})
            messages = [user(f"The context is {(answered.content or {}).get('context')}")]
        case _:
            raise MCPError(types.INVALID_PARAMS, "Prompt not found")
    return types.GetPromptResult(messages=messages)


async def complete(_ctx: Context, _params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


OFFERS = Server(
    "fixtures",
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribed,
    on_unsubscribe_resource=subscribed,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
)
