"""A client of a tool server that supports every request and records every notification."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client

from spindle import Backends, Executor, Tool, ToolRegistry
from spindle.mcp.server.tool_server import Caller, ToolServer

LEGACY, MODERN = "legacy", "2026-07-28"
YES = types.ElicitResult(action="accept", content={"answer": "yes"})
SAID = types.CreateMessageResult(
    role="assistant",
    content=types.TextContent(type="text", text="Paris."),
    model="small",
    stop_reason="endTurn",
)
ROOTS = types.ListRootsResult.model_validate({"roots": [{"uri": "file:///home/ann", "name": "home"}]})


@dataclass
class Asked:
    """What a client was asked and notified of, and what it answers."""

    sampling: Any = field(default_factory=lambda: SAID)
    roots: Any = field(default_factory=lambda: ROOTS)
    elicitation: Any = field(default_factory=lambda: YES)
    requests: list[Any] = field(default_factory=list[Any])
    lines: list[types.LoggingMessageNotificationParams] = field(
        default_factory=list[types.LoggingMessageNotificationParams]
    )

    async def sample(self, _context: Any, params: types.CreateMessageRequestParams) -> Any:
        self.requests.append(params)
        return self.sampling

    async def list_roots(self, _context: Any) -> Any:
        self.requests.append("roots")
        return self.roots

    async def elicit(self, _context: Any, params: types.ElicitRequestParams) -> Any:
        self.requests.append(params.message)
        return self.elicitation

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.lines.append(params)

    def callbacks(self, *which: str) -> dict[str, Any]:
        known = {"sampling": self.sample, "list_roots": self.list_roots, "elicitation": self.elicit}
        return {f"{name}_callback": known[name] for name in which or known}


@asynccontextmanager
async def connected(
    *tools: Tool,
    mode: str,
    asked: Asked | None = None,
    can: tuple[str, ...] = (),
    who: list[Caller] | None = None,
    backends: Backends | None = None,
    **options: Any,
) -> AsyncGenerator[Client]:
    """Serve tools to one client in this process; `can` are the callbacks it has, and without any it has them all."""
    asked = asked or Asked()
    callers = who or [Caller(key="alice")]
    registry = ToolRegistry(tools)
    executor = Executor(registry, backends=backends or Backends())
    server = ToolServer(executor, registry, identify=lambda _ctx: callers[0], is_fenced=False)
    with anyio.fail_after(30):
        async with Client(
            server.sdk, mode=mode, logging_callback=asked.log, **asked.callbacks(*can), **options
        ) as client:
            yield client


def text_of(result: Any) -> str:
    """The first text of a result."""
    assert isinstance(result, types.CallToolResult)
    first = result.content[0]
    assert isinstance(first, types.TextContent)
    return first.text
