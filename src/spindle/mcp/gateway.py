"""The gateway: one server that keeps up with tools that come and go upstream."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from spindle.mcp.server import ToolServer


class Gateway:
    """Tells a server's clients of changes, many at once as one."""

    def __init__(self, server: ToolServer) -> None:
        self.server = server
        self._news = anyio.Event()

    def changed(self) -> None:
        """Say that tools came, went or changed."""
        self._news.set()

    async def keep_up(self) -> None:
        """Pass news on, for ever."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await self.server.tools_changed()


@asynccontextmanager
async def following(
    server: ToolServer, on_change: Callable[[Callable[[], Any]], Callable[[], None]]
) -> AsyncGenerator[Gateway]:
    """Keep a server's clients up to date as long as this lasts; `on_change` takes what to call, and gives its end."""
    gateway = Gateway(server)
    stop = on_change(gateway.changed)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.keep_up)
            try:
                yield gateway
            finally:
                tasks.cancel_scope.cancel()
    finally:
        stop()
