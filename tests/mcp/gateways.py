"""A real `spindle serve` in front of real upstream servers, and the SDK's own client in front of that."""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from spindle.cli import Runtime, load_config, open_runtime
from spindle.mcp.server.serve import propagate_changes
from spindle.mcp.server.tool_server import ToolServer
from tests.mcp.serving import COMMAND, chosen_config, served_over_http
from tests.mcp.upstreams import EventLog

LEGACY, MODERN = "legacy", "2026-07-28"
IN_TIME = 60
"""Seconds: far more than anything here takes, for a machine with other things to do."""
SERVERS = Path(__file__).parent / "servers"
PLAIN = "[server]\nfence = false\n"
"""Results as the tools wrote them."""


def entry(name: str, command: Sequence[str], **settings: Any) -> str:
    """A server's table of a `spindle.toml`."""
    reported = {"command": command[0], "args": list(command[1:]), **settings}
    return f"[mcp.servers.{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in reported.items())


def hostile(name: str, *flags: str, **settings: Any) -> str:
    """The table of the server that does what no server should; without a sandbox, unless it is asked."""
    settings.setdefault("sandbox", "none")
    return entry(name, [sys.executable, "-I", "-S", str(SERVERS / "hostile.py"), *flags], **settings)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(value)


@asynccontextmanager
async def gateway(
    folder: Path, way: str, mode: str, *arguments: str, config: str | None = None, **client: Any
) -> AsyncGenerator[Client]:
    """Serve the folder's configuration over a pipe or HTTP, and connect; everything ends with it."""
    if config is not None:
        (folder / "spindle.toml").write_text(config)
    with anyio.fail_after(IN_TIME):
        if way == "stdio":
            args = [*COMMAND[1:], "serve", "--stdio", *chosen_config(folder), "--state", str(folder / "state")]
            args += arguments
            with (folder / "stderr.txt").open("a") as said:
                pipe = stdio_client(StdioServerParameters(command=COMMAND[0], args=args, cwd=folder), errlog=said)
                async with Client(pipe, mode=mode, **client) as connected:
                    yield connected
            return
        with served_over_http(folder, *arguments) as address:
            async with Client(streamable_http_client(address), mode=mode, **client) as connected:
                yield connected


async def names_of(client: Client) -> list[str]:
    """The names of the tools, all pages of them."""
    listed = await client.list_tools(cache_mode="refresh")
    found = [each.name for each in listed.tools]
    while listed.next_cursor is not None:
        listed = await client.list_tools(cursor=listed.next_cursor)
        found += [each.name for each in listed.tools]
    return found


def text_of(result: Any) -> str:
    """The texts of a result."""
    assert isinstance(result, types.CallToolResult)
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def code_of(result: Any) -> str | None:
    """The code of an error; `None` of a result that is none."""
    assert isinstance(result, types.CallToolResult)
    assert result.is_error == (result.meta is not None and "spindle/code" in result.meta)
    return None if result.meta is None else result.meta.get("spindle/code")


@dataclass
class Inside:
    """A gateway in this process, as `spindle serve` puts it together."""

    runtime: Runtime
    server: ToolServer

    @asynccontextmanager
    async def client(self, mode: str, **options: Any) -> AsyncGenerator[Client]:
        """Connect one more client."""
        async with Client(self.server.sdk, mode=mode, **options) as connected:
            yield connected

    def restarts(self, name: str) -> int:
        """How often an upstream server was started again."""
        assert self.runtime.servers is not None
        [status] = [each for each in self.runtime.servers.status() if each.name == name]
        return status.restarts


@asynccontextmanager
async def inside(folder: Path, config: str, **server: Any) -> AsyncGenerator[Inside]:
    """Run the gateway of a configuration in this process."""
    (folder / "spindle.toml").write_text(config)
    settings = load_config(folder / "spindle.toml", state=folder / "state")
    with anyio.fail_after(IN_TIME):
        async with open_runtime(settings, events=EventLog().events) as runtime:
            made = ToolServer(
                runtime.executor,
                runtime.registry,
                is_fenced=False,
                filter_of=runtime.get_filter,
                upstream=runtime.servers,
                spool=runtime.spool,
                **server,
            )
            async with propagate_changes(made, runtime.on_change):
                yield Inside(runtime, made)
