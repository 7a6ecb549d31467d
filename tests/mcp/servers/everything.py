"""A real MCP server, written with the official SDK: one tool for each kind of answer.

`everything.py stdio` speaks over its standard streams, `everything.py http` over streamable HTTP on a port it prints;
`everything.py http-older` does not know the revision 2026-07-28.
"""

import base64
import os
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

PNG = base64.b64encode(bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000")).decode()

server = MCPServer("everything", log_level="ERROR")


class Point(BaseModel):
    x: int
    y: int


class Name(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False))
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def point() -> Point:
    """Give a point."""
    return Point(x=1, y=2)


@server.tool(structured_output=False)
def rich() -> CallToolResult:
    """Give one block of each kind."""
    blocks = [
        TextContent(type="text", text="first"),
        ImageContent(type="image", data=PNG, mime_type="image/png"),
        AudioContent(
            type="audio", data=base64.b64encode(b"<html><body>no sound</body></html>").decode(), mime_type="audio/wav"
        ),
        EmbeddedResource(
            type="resource", resource=TextResourceContents(uri="note://one", mime_type="text/plain", text="a note")
        ),
        EmbeddedResource(
            type="resource",
            resource=BlobResourceContents(
                uri="file:///tmp/data.bin",
                mime_type="application/octet-stream",
                blob=base64.b64encode(b"\0\1").decode(),
            ),
        ),
        ResourceLink(type="resource_link", uri="https://example.org/x", name="x", description="a link"),
        TextContent(type="text", text="last"),
    ]
    return CallToolResult(content=blocks)


@server.tool(structured_output=False)
def nothing() -> CallToolResult:
    """Give nothing at all."""
    return CallToolResult(content=[])


@server.tool(structured_output=False)
def broken(text: str = "") -> CallToolResult:
    """Fail."""
    return CallToolResult(content=[TextContent(type="text", text=text)] if text else [], is_error=True)


@server.tool()
def variable(name: str) -> str:
    """Give an environment variable."""
    return os.environ.get(name, "(unset)")


@server.tool()
def variables() -> list[str]:
    """Name the environment variables."""
    return sorted(os.environ)


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Count and report progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "counted"


async def ask_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool()
def greet(answer: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Ask for a name."""
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool()
def headers(ctx: Context) -> dict[str, str]:
    """Give the headers of the request."""
    return {name: value for name, value in (ctx.headers or {}).items() if name.lower() in ("authorization", "x-team")}


@server.tool()
async def wait(seconds: float, path: str) -> str:
    """Wait; leaves a file behind when it is cancelled."""
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        Path(path).touch()  # noqa: ASYNC240  nothing can be awaited any more
        raise
    return "waited"


@server.tool()
async def say(text: str, ctx: Context) -> str:
    """Write to the log."""
    await ctx.info(text)  # pyright: ignore[reportDeprecated] - servers will go on doing it
    return "said"


async def changed(ctx: Context) -> None:
    """Say that there are other tools now, as both revisions have it."""
    await ctx.notify_tools_changed()
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()


def extra() -> str:
    """A tool that came later."""
    return "extra"


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer one tool more."""
    server.add_tool(extra, name="extra")
    await changed(ctx)
    return "grown"


@server.tool()
async def shrink(ctx: Context) -> str:
    """Offer it no longer."""
    server.remove_tool("extra")
    await changed(ctx)
    return "shrunk"


def older(app: Any) -> Any:
    """Answer the newer way to connect like a server that does not support it."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"mcp-method", b"server/discover") in scope["headers"]:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"what?"})
            return
        await app(scope, receive, send)

    return served


def build_http_server(*, is_older: bool) -> uvicorn.Server:
    app = server.streamable_http_app()
    config = uvicorn.Config(older(app) if is_older else app, log_level="error", timeout_graceful_shutdown=1)
    return uvicorn.Server(config)


def serve_http(*, is_older: bool) -> None:
    """Serve on a free port; it listens before the port is printed, so clients need not wait."""
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    build_http_server(is_older=is_older).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        serve_http(is_older=sys.argv[1] == "http-older")
