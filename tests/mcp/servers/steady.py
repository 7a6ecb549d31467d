"""A well-behaved MCP server, on the official SDK: `steady.py stdio`, or `steady.py http` on a port that it prints."""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("steady", log_level="ERROR")


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool(structured_output=False)
async def lines(count: int) -> str:
    """Give many lines."""
    return "\n".join(f"line {n} of upstream" for n in range(count))


@server.tool(structured_output=False)
async def trace(ctx: Context) -> str:
    """Give the trace the call is in, as the caller sent it."""
    meta = ctx.request_context.meta or {}
    return str(meta.get("traceparent"))


def serve_http() -> None:
    """Serve on a free port; it listens before the port is printed, so clients need not wait."""
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    server.run("stdio") if sys.argv[1] == "stdio" else serve_http()
