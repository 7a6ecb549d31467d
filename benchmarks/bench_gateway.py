"""A call through `spindle serve` against the same call sent directly to the same upstream, by the same SDK client.

An echo does nothing, so all of its time is the SDK's own, on both ends of one connection. Through a gateway there are
two connections: its ratio cannot be much under 2, and is for information. The aim is for calls that do something, with
the journal that `spindle serve` has by default: it waits for the disk before each call and after it, so a busy disk
shows here. The same without that disk is printed too.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness import Benchmark

UPSTREAM = str(Path(__file__).parent / "upstream.py")
SPINDLE = [sys.executable, "-m", "spindle.cli.main"]
TEXT = "a sentence of the length that an answer has now and then"


class Held:
    """A client that is connected on first use, in a task of its own that ends with the loop."""

    def __init__(self, connected: Callable[[], Any], tool: str) -> None:
        self._connected, self._tool = connected, tool
        self._client: Any = None
        self._owner: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Call once."""
        client = self._client or await self._connect()
        result = await client.call_tool(self._tool, {"text": TEXT})
        assert not result.is_error

    async def _connect(self) -> Any:
        connected: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def own() -> None:
            async with self._connected() as client:
                await client.list_tools()
                connected.set_result(client)
                await asyncio.Event().wait()

        self._owner = asyncio.create_task(own())
        await asyncio.wait([self._owner, connected], return_when=asyncio.FIRST_COMPLETED)
        if self._owner.done():
            self._owner.result()
        self._client = connected.result()
        return self._client


@asynccontextmanager
async def over_stdio(mode: str, config: str, *, is_direct: bool) -> AsyncGenerator[Any]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, UPSTREAM, "stdio"]
        if not is_direct:
            entry = {"command": command[0], "args": command[1:]}
            command = [*SPINDLE, "serve", "--stdio", *configured(Path(folder), config, entry)]
        pipe = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
        async with Client(pipe, mode=mode) as client:
            yield client


@asynccontextmanager
async def over_http(mode: str, config: str, *, is_direct: bool) -> AsyncGenerator[Any]:
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    with tempfile.TemporaryDirectory() as folder, started([sys.executable, UPSTREAM, "http"], r"^(\d+)$") as port:
        address = f"http://127.0.0.1:{port}/mcp"
        if is_direct:
            async with Client(streamable_http_client(address), mode=mode) as client:
                yield client
            return
        serve = [*SPINDLE, "serve", "--port", "0", *configured(Path(folder), config, {"url": address})]
        with started(serve, r"(http://\S+/mcp)") as served:
            async with Client(streamable_http_client(served), mode=mode) as client:
                yield client


def configured(folder: Path, config: str, entry: dict[str, Any]) -> list[str]:
    """Options of `spindle serve` that have it stand in front of one upstream."""
    (folder / "client.json").write_text(json.dumps({"mcpServers": {"up": entry}}))
    (folder / "spindle.toml").write_text(config)
    return [
        *("--config", str(folder / "spindle.toml")),
        *("--mcp-config", str(folder / "client.json")),
        *("--state", str(folder / "state")),
    ]


@contextmanager
def started(command: list[str], told: str) -> Generator[str]:
    """A server that tells its address on stdout or stderr, ended with this."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        found = next(match for line in process.stdout if (match := re.search(told, line)))
        yield found[1]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def pair(
    tool: str, words: str, way: Callable[..., Any], mode: str, *, aim: float | None = None, config: str = ""
) -> Benchmark:
    """The same call, directly and through the gateway."""

    def held(name: str, *, is_direct: bool) -> Callable[[], Awaitable[None]]:
        return Held(lambda: way(mode, config, is_direct=is_direct), name)

    return Benchmark(
        name=f"{words} / directly",
        floor=held(tool, is_direct=True),
        subject=held(f"mcp__up__{tool}", is_direct=False),
        aim=aim,
    )


MODERN, OLDER = "2026-07-28", "legacy"
IN_MEMORY = '[journal]\npath = "memory"\n'
BENCHMARKS = [
    pair("work", "a call of 20 ms through the gateway, HTTP", over_http, MODERN, aim=1.5),
    pair("work", "the same through the gateway, older revision", over_http, OLDER, aim=1.5),
    pair("work", "the same through the gateway, journal in memory", over_http, MODERN, config=IN_MEMORY),
    pair("work", "a call of 20 ms through the gateway, stdio", over_stdio, MODERN, aim=1.5),
    pair("work", "the same through the gateway, older revision", over_stdio, OLDER, aim=1.5),
    pair("work", "the same through the gateway, journal in memory", over_stdio, MODERN, config=IN_MEMORY),
    pair("echo", "an echo through the gateway, HTTP", over_http, MODERN),
    pair("echo", "an echo through the gateway, stdio", over_stdio, MODERN),
]
