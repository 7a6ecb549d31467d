"""The tools that the official conformance suite calls."""

import base64
import json
from typing import Any

import anyio

from spindle import Err, Gate, Media, Ok, Tool, ToolContext, tool
from spindle.errors import GateAbortedError
from spindle.mcp.client_requests import ListRoots, Sampling, ask_all, can_ask, roots, sample

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


@tool
async def test_tool_with_logging(*, ctx: ToolContext) -> str:
    """Write lines to the client's log."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log("info", line)
        await anyio.sleep(0.05)
    return "done"


@tool
async def test_logging_tool(*, ctx: ToolContext) -> str:
    """Write a line of each kind to the client's log."""
    for level in ("debug", "info", "error"):
        ctx.log(level, "A line that only some want")
    return "done"


@tool
async def test_sampling(prompt: str, *, ctx: ToolContext) -> str:
    """Ask the client's model."""
    return f"LLM response: {(await sample(ctx, prompt, max_tokens=100)).text}"


@tool
async def test_missing_capability(*, ctx: ToolContext) -> str:
    """Ask the client's model, which it needs for everything it does."""
    return (await sample(ctx, "Say something", max_tokens=10)).text


async def answer_to(ctx: ToolContext, name: str, question: str, properties: dict[str, Any]) -> Any:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return await ctx.wait_for(Gate(name, {"question": question}, schema=schema, timeout_seconds=SECONDS))


async def reported(ctx: ToolContext, name: str, question: str, properties: dict[str, Any]) -> str:
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
    return f"User response: {await reported(ctx, 'user', message, fields)}"


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
    return f"Elicitation completed: {await reported(ctx, 'defaults', 'Who are you?', fields)}"


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
    return f"Elicitation completed: {await reported(ctx, 'choices', 'Which?', fields)}"


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
async def test_input_required_result_sampling(*, ctx: ToolContext) -> str:
    """Ask the client's model for a capital."""
    return (await sample(ctx, "What is the capital of France?", max_tokens=100)).text


@tool
async def test_input_required_result_list_roots(*, ctx: ToolContext) -> str:
    """Say where the client works."""
    return ", ".join(f"{root.name}: {root.uri}" for root in await roots(ctx))


@tool
async def test_input_required_result_multiple_inputs(*, ctx: ToolContext) -> str:
    """Ask for three things at once."""
    schema = {"type": "object", "properties": NAME, "required": ["name"]}
    user = Gate("user_name", {"question": "What is your name?"}, schema=schema, timeout_seconds=SECONDS)
    greeting = Sampling("Generate a greeting", max_tokens=50, name="greeting")
    said, greeted, found = await ask_all(ctx, [user, greeting, ListRoots(name="client_roots")])
    return f"{greeted.text} {said['name']}, of {len(found)} roots"


@tool
async def test_input_required_result_capabilities(*, ctx: ToolContext) -> str:
    """Ask the client if it can be asked."""
    if can_ask(ctx, "elicitation"):
        answer = await answer_to(ctx, "user_name", "What is your name?", NAME)
        return f"Hello, {answer['name']}!"
    return (await sample(ctx, "Generate a greeting", max_tokens=50)).text


@tool
async def test_streaming_elicitation(*, ctx: ToolContext) -> str:
    """Say how far it is, and then ask."""
    ctx.progress("about to ask", percent=50)
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

test_custom_header = Tool(
    name="test_custom_header",
    description="Takes an argument that also stands in a header",
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
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
    test_tool_with_logging,
    test_logging_tool,
    test_sampling,
    test_missing_capability,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_input_required_result_elicitation,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multi_round,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_multiple_inputs,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
    json_schema_2020_12_tool,
    test_custom_header,
]
