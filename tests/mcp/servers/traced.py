"""One traced call: client → gateway → upstream, in a program of its own, for a tracer is set up once in a process.

Prints the trace context that the upstream server received, and every span: `traced.py MODE WAY`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spindle import Executor
from spindle.mcp.client.servers import McpServers
from spindle.mcp.server.tool_server import ToolServer
from spindle.mcp.spec import ServerSpec
from spindle.telemetry import telemetry

STEADY = str(Path(__file__).parent / "steady.py")


def shown(span: ReadableSpan) -> dict[str, Any]:
    assert span.context is not None
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    return {
        "name": span.name,
        "trace": f"{span.context.trace_id:032x}",
        "id": f"{span.context.span_id:016x}",
        "parent": parent,
    }


async def answer(context: Any, params: Any) -> types.ElicitResult:
    """Make the client one that can be asked: its calls run in tasks of their own."""
    return types.ElicitResult(action="decline")


async def call_through(spec: ServerSpec, mode: str) -> str:
    async with McpServers([spec]) as servers:
        await servers.ready()
        executor = Executor(servers.registry, interceptors=[telemetry()])
        server = ToolServer(executor, servers.registry, is_fenced=False)
        async with Client(server.sdk, mode=mode, elicitation_callback=answer) as client:
            with trace.get_tracer("test").start_as_current_span("the user's own"):
                result = await client.call_tool("mcp__up__trace", {})
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def main(mode: str, way: str) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    if way == "stdio":
        reported = anyio.run(call_through, ServerSpec(name="up", command=sys.executable, args=(STEADY, "stdio")), mode)
    else:
        with subprocess.Popen([sys.executable, STEADY, "http"], stdout=subprocess.PIPE, text=True) as upstream:
            try:
                assert upstream.stdout is not None
                url = f"http://127.0.0.1:{upstream.stdout.readline().strip()}/mcp"
                reported = anyio.run(call_through, ServerSpec(name="up", url=url), mode)
            finally:
                upstream.terminate()
    sys.stdout.write(json.dumps({"trace": reported, "spans": [shown(span) for span in exporter.get_finished_spans()]}))


main(*sys.argv[1:])
