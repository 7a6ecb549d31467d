"""A plain MCP server on the official SDK, to be called directly and through the gateway.

`upstream.py stdio | http [N]` serves two tools, and N more of the size that tools have.
"""

import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("upstream", log_level="ERROR")


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool(structured_output=False)
async def work(text: str) -> str:
    """Take as long as asking a database or a service nearby does."""
    await anyio.sleep(0.02)
    return text


def add_tools(count: int) -> None:
    """Add tools with three arguments each."""

    def query(table: str, limit: int = 10, order: str = "asc") -> str:
        return f"{limit} rows of {table}, {order}"

    for number in range(count):
        about = f"Read the rows of table number {number} that match, in the order and up to the limit that are given."
        server.tool(name=f"query_{number}", description=about, structured_output=False)(query)


def serve_http() -> None:
    """Serve on a free port, which is printed when it is listened to."""
    # Not `create_server`: asyncio would not know it for TCP, and let each answer wait 40 ms for company.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    add_tools(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    server.run("stdio") if sys.argv[1] == "stdio" else serve_http()
