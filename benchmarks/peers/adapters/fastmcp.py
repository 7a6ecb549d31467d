"""fastmcp: a server's `call_tool`, one for each call, side by side."""
# pyright: basic, reportMissingImports=false, reportCallIssue=false, reportAttributeAccessIssue=false
# The library lives in another environment than the type checker's, which takes this very file for it.

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool

from benchmarks.peers.adapters.driving import Clock, Function, RawCall, Run, report


def setup(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:
    server = FastMCP("peer")
    for function in tools:
        server.add_tool(Tool.from_function(function, timeout=deadline_seconds))

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        clock.start()
        results = await asyncio.gather(
            *(server.call_tool(call.name, json.loads(call.args)) for call in calls), return_exceptions=True
        )
        clock.stop()
        return {call.id: text_of(result) for call, result in zip(calls, results, strict=True)}

    return run


def text_of(result: Any) -> str:
    # An exception's words are what the server would send as an error result.
    return str(result) if isinstance(result, BaseException) else "".join(part.text for part in result.content)


if __name__ == "__main__":
    report(
        setup,
        library="fastmcp",
        driven="FastMCP.call_tool under asyncio.gather: a server answers call by call, it has no batch",
        parses_json=False,
    )
