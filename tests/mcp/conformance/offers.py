"""What Spindle does not do itself: a server of the SDK whose prompts and resources are served beside the tools."""

import json
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate

Context = ServerRequestContext[Any, Any]
TEMPLATE = UriTemplate.parse("test://template/{id}/data")
BLOB = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="


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
