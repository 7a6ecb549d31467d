"""A server with an app: `apps.py NAME OTHER` serves a page that tries to reach the server OTHER, too."""

import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

NAME, OTHER = sys.argv[1], sys.argv[2]
PAGE = Path(__file__).parents[1] / "apps" / "app.html"
UI = "ui://panel/main.html"
Context = ServerRequestContext[Any, Any]


async def list_tools(_ctx: Context, _params: Any) -> types.ListToolsResult:
    plain: dict[str, Any] = {"type": "object", "properties": {}}
    panel = {
        "name": "panel",
        "description": "Show the panel.",
        "inputSchema": plain,
        "_meta": {"ui": {"resourceUri": UI}},
    }
    secret = types.Tool(name="secret_of", description="Return the secret.", input_schema=plain)
    return types.ListToolsResult(tools=[types.Tool.model_validate(panel), secret])


async def call_tool(_ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} of {NAME}")])


async def list_resources(_ctx: Context, _params: Any) -> types.ListResourcesResult:
    page = types.Resource(uri=UI, name="panel", mime_type="text/html;profile=mcp-app")
    return types.ListResourcesResult(resources=[page, types.Resource(uri="notes://private", name="notes")])


async def read_resource(_ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    if params.uri == UI:
        page = PAGE.read_text(encoding="utf-8").replace("NAME", NAME).replace("OTHER", OTHER)
        contents = types.TextResourceContents(uri=UI, mime_type="text/html;profile=mcp-app", text=page)
    elif params.uri != "notes://private":
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": params.uri})
    else:
        contents = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=f"note of {NAME}")
    return types.ReadResourceResult(contents=[contents])


async def main() -> None:
    server: Server[Any] = Server(
        NAME,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


anyio.run(main)
