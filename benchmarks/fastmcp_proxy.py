"""fastmcp's proxy in front of one upstream, with one session that is kept: `fastmcp_proxy.py URL` prints a port."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# The library lives in another environment than the type checker's.

import asyncio
import logging
import socket
import sys

import uvicorn
from fastmcp import Client
from fastmcp.server import create_proxy


async def serve(upstream: str) -> None:
    """Serve on a free port, which is printed when it is listened to."""
    logging.disable(logging.WARNING)
    async with Client(upstream) as client:
        await client.list_tools()
        app = create_proxy(client, name="proxy").http_app(path="/mcp")
        # Not `create_server`: asyncio would not know it for TCP, and let each answer wait 40 ms for company.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_keep_alive=20)  # as Spindle's server
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
