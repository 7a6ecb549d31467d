"""A call through `spindle serve` against the same call sent directly to the same upstream, by the same SDK client.

An echo does nothing, so all of its time is the SDK's own, on both ends of one connection. Through a gateway there are
two connections: its ratio cannot be much under 2, and is for information. The aim is for calls that do something, with
the journal that `spindle serve` has by default: it waits for the disk before each call and after it, so a busy disk
shows here. The same without that disk is printed too.

CPU time is that of all processes: client, gateway and upstream. Many clients are compared with FastMCP's proxy, with
one session that it keeps, in front of the same upstream.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

from benchmarks.gateway_load import HANDSHAKE, BareClient, call_side_by_side, open_clients
from benchmarks.harness import Benchmark

UPSTREAM = str(Path(__file__).parent / "upstream.py")
FASTMCP_PROXY = str(Path(__file__).parent / "fastmcp_proxy.py")
SPINDLE = [sys.executable, "-m", "spindle.cli.main"]
TEXT = "a sentence of the length that an answer has now and then"


class Held:
    """Something that is connected on first use, in a task of its own that ends with the loop, and used each time."""

    def __init__(self, connected: Callable[[], Any], use: Callable[[Any], Awaitable[None]]) -> None:
        self._connected, self._use = connected, use
        self._client: Any = None
        self._owner: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Use it once."""
        await self._use(self._client or await self._connect())

    async def _connect(self) -> Any:
        connected: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def own() -> None:
            async with self._connected() as client:
                connected.set_result(client)
                await asyncio.Event().wait()

        self._owner = asyncio.create_task(own())
        await asyncio.wait([self._owner, connected], return_when=asyncio.FIRST_COMPLETED)
        if self._owner.done():
            self._owner.result()
        self._client = connected.result()
        return self._client


@asynccontextmanager
async def over_stdio(mode: str, config: str, *, is_direct: bool, more_tools: int = 0) -> AsyncGenerator[Any]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, UPSTREAM, "stdio", str(more_tools)]
        if not is_direct:
            entry = {"command": command[0], "args": command[1:]}
            command = [*SPINDLE, "serve", "--stdio", *configured(Path(folder), config, entry)]
        pipe = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
        async with Client(pipe, mode=mode) as client:
            yield client


@asynccontextmanager
async def over_http(mode: str, config: str, *, is_direct: bool, more_tools: int = 0) -> AsyncGenerator[Any]:
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    with upstream_at(more_tools) as upstream, ExitStack() as stack:
        address = upstream if is_direct else stack.enter_context(gateway_to({"url": upstream}, config))
        async with Client(streamable_http_client(address), mode=mode) as client:
            yield client


@contextmanager
def upstream_at(more_tools: int = 0) -> Generator[str]:
    """The address of the upstream server."""
    with started([sys.executable, UPSTREAM, "http", str(more_tools)], r"^(\d+)$") as port:
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def gateway_to(entry: dict[str, Any], config: str = "") -> Generator[str]:
    """The address of a gateway in front of one upstream."""
    with tempfile.TemporaryDirectory() as folder:
        serve = [*SPINDLE, "serve", "--port", "0", *configured(Path(folder), config, entry)]
        with started(serve, r"(http://\S+/mcp)") as address:
            yield address


@contextmanager
def fastmcp_to(upstream: str) -> Generator[str]:
    """The address of FastMCP's proxy, from its own environment."""
    from benchmarks.peers.__main__ import CACHE, python_of

    with started([str(python_of("fastmcp", CACHE)), FASTMCP_PROXY, upstream], r"^(\d+)$") as port:
        yield f"http://127.0.0.1:{port}/mcp"


def find_missing_fastmcp() -> str | None:
    from benchmarks.peers.__main__ import CACHE, NotMeasured, python_of

    try:
        python_of("fastmcp", CACHE)
    except NotMeasured as reason:
        return f"FastMCP is {reason}"
    return None


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
def started(command: list[str], pattern: str) -> Generator[str]:
    """A server that prints its address on stdout or stderr, ended with this."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        found = next(match for line in process.stdout if (match := re.search(pattern, line)))
        yield found[1]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def pair(
    tool: str,
    words: str,
    way: Callable[..., Any],
    mode: str,
    *,
    aim: float | None = None,
    config: str = "",
    **more: Any,
) -> Benchmark:
    """The same call, directly and through the gateway."""

    def held(name: str, *, is_direct: bool) -> Callable[[], Awaitable[None]]:
        async def call(client: Any) -> None:
            result = await client.call_tool(name, {"text": TEXT})
            assert not result.is_error

        @asynccontextmanager
        async def connected() -> AsyncGenerator[Any]:
            async with way(mode, config, is_direct=is_direct) as client:
                await client.list_tools()
                yield client

        return Held(connected, call)

    return Benchmark(
        name=f"{words} / directly",
        floor=held(tool, is_direct=True),
        subject=held(f"mcp__up__{tool}", is_direct=False),
        aim=aim,
        **more,
    )


def listing(words: str, mode: str, count: int, *, aim: float) -> Benchmark:
    """The whole list of tools, directly and through the gateway."""

    def held(*, is_direct: bool) -> Callable[[], Awaitable[None]]:
        async def list_all(client: Any) -> None:
            page = await client.list_tools(cache_mode="refresh")
            found = len(page.tools)
            while page.next_cursor is not None:
                page = await client.list_tools(cursor=page.next_cursor)
                found += len(page.tools)
            assert found >= count

        return Held(lambda: over_http(mode, "", is_direct=is_direct, more_tools=count), list_all)

    return Benchmark(
        name=f"{words} / directly", floor=held(is_direct=True), subject=held(is_direct=False), aim=aim, clock="cpu"
    )


def crowd(count: int, revision: str, words: str, clock: Literal["wall", "cpu"] = "wall") -> Benchmark:
    """Calls of many clients, through FastMCP's proxy and through the gateway."""
    calls_each = max(1, 50 // count)

    def held(tool: str, proxy_to: Callable[[str], Any]) -> Callable[[], Awaitable[None]]:
        @asynccontextmanager
        async def connected() -> AsyncGenerator[list[BareClient]]:
            with upstream_at() as upstream, proxy_to(upstream) as address:
                async with open_clients(address, revision, count) as clients:
                    yield clients

        async def use(clients: list[BareClient]) -> None:
            await call_side_by_side(clients, tool, TEXT, calls_each)

        return Held(connected, use)

    return Benchmark(
        name=f"{words} / FastMCP's proxy",
        floor=held("echo", fastmcp_to),
        subject=held("mcp__up__echo", lambda upstream: gateway_to({"url": upstream})),
        floor_items=count * calls_each,
        subject_items=count * calls_each,
        aim=1.0,
        direction="at least",
        clock=clock,
        missing=find_missing_fastmcp,
        note=CROWD_NOTE,
    )


MODERN, OLDER = "2026-07-28", "legacy"
GATEWAY_NOTE = (
    "Profile of the gateway: a third is the SDK's HTTP client (httpx2, httpcore2, h11), a third the SDK's server with "
    "uvicorn, the rest the executor and two transactions of the journal in its thread; anyio's scopes, events and "
    "tasks are two fifths of all of it. A leaner HTTP transport to upstreams would help most."
)
STDIO_NOTE = (
    "Without HTTP the floor is small: the SDK parses and validates each message with pydantic at four ends instead of "
    "two, and the executor and the two transactions of the journal are a larger share. The same without the journal's "
    "disk is printed above."
)
WORK_NOTE = (
    "The journal waits for the disk before the call and after it, and an echo's worth of CPU is added to 20 ms of "
    "waiting: a busy disk or CPU shows here. The same without the disk is printed below."
)
CROWD_NOTE = (
    "FastMCP's proxy passes a call on; the gateway also validates it, writes it to the journal on disk before and "
    "after, and fences its result."
)
CROWDS = (1, 10, 50, 200)
IN_MEMORY = '[journal]\npath = "memory"\n'
BENCHMARKS = [
    pair("work", "a call of 20 ms through the gateway, HTTP", over_http, MODERN, aim=1.5, note=WORK_NOTE),
    pair("work", "the same through the gateway, older revision", over_http, OLDER, aim=1.5, note=WORK_NOTE),
    pair("work", "the same through the gateway, journal in memory", over_http, MODERN, config=IN_MEMORY),
    pair("work", "a call of 20 ms through the gateway, stdio", over_stdio, MODERN, aim=1.5, note=WORK_NOTE),
    pair("work", "the same through the gateway, older revision", over_stdio, OLDER, aim=1.5, note=WORK_NOTE),
    pair("work", "the same through the gateway, journal in memory", over_stdio, MODERN, config=IN_MEMORY),
    pair("echo", "an echo through the gateway, HTTP", over_http, MODERN),
    pair("echo", "an echo through the gateway, stdio", over_stdio, MODERN),
    pair("echo", "CPU of a call through the gateway, HTTP", over_http, MODERN, aim=2.5, clock="cpu", note=GATEWAY_NOTE),
    pair("echo", "CPU of the same, older revision", over_http, OLDER, aim=2.5, clock="cpu", note=GATEWAY_NOTE),
    pair("echo", "CPU of a call through the gateway, stdio", over_stdio, MODERN, aim=2.5, clock="cpu", note=STDIO_NOTE),
    pair("echo", "CPU of the same, older revision, stdio", over_stdio, OLDER, aim=2.5, clock="cpu", note=STDIO_NOTE),
    listing("CPU of listing 2,000 tools through the gateway", MODERN, 2_000, aim=1.5),
    listing("CPU of listing them, older revision", OLDER, 2_000, aim=1.5),
    *(crowd(count, HANDSHAKE, f"a call of {count} clients through the gateway") for count in CROWDS),
    *(crowd(count, HANDSHAKE, f"CPU of a call of {count} clients", "cpu") for count in CROWDS),
    *(crowd(count, MODERN, f"a call of {count} clients, newer revision") for count in (10, 200)),
]
