"""Whole turns with Anthropic's real SDK against a server that speaks the wire format."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anthropic import AsyncAnthropic
from anthropic.types import MessageCreateParams
from pydantic import TypeAdapter

from spindle import TurnReport, TurnRunner, tool
from spindle.bridges import Retries
from spindle.bridges.anthropic import messages
from tests.bridges.wire import messages as wire
from tests.bridges.wire.server import Answer, WireServer

REQUEST: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)
DONE = wire.streamed(wire.say(0, "done"), reason="end_turn")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def playing(*script: Answer) -> AsyncGenerator[tuple[WireServer, AsyncAnthropic]]:
    async with (
        WireServer.playing(*script) as server,
        AsyncAnthropic(base_url=server.url, api_key="k") as client,
    ):
        yield server, client


async def turn(*script: Answer, tools: Sequence[Any] = (add,), **options: Any) -> tuple[TurnReport, list[Any]]:
    async with playing(*script) as (server, client):
        wishes: dict[str, Any] = {"retries": Retries(base_seconds=0)} | options
        callback = messages(model="claude-test", client=client, **wishes)
        made = TurnRunner(executor_callback=callback, tools=tools)
        with anyio.fail_after(30):
            report = await made.run(system_prompt="Be brief.", messages=["What is it?"])
        requests = [request.json for request in server.requests]
    for request in requests:
        REQUEST.validate_python(request)
    return report, requests


def blocks(request: Any, kind: str) -> list[Any]:
    return [block for message in request["messages"] for block in message["content"] if block["type"] == kind]


def cause(report: TurnReport) -> BaseException | None:
    return report.error
