"""Whole turns with Google's real SDK against a server that speaks the wire format."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from google.genai import Client, types

from spindle import TurnReport, TurnRunner, tool
from spindle.bridges import Retries
from spindle.bridges.gemini import generate
from tests.bridges.wire.generating import chunk, streamed
from tests.bridges.wire.server import Answer, WireServer

DONE = streamed(chunk({"text": "done"}, reason="STOP"))


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def client_of(url: str) -> AsyncGenerator[Client]:
    client = Client(api_key="k", http_options=types.HttpOptions(base_url=url))
    try:
        yield client
    finally:
        await client.aio.aclose()
        client.close()


@asynccontextmanager
async def playing(*script: Answer) -> AsyncGenerator[tuple[WireServer, Client]]:
    async with WireServer.playing(*script) as server, client_of(server.url) as client:
        yield server, client


async def turn(
    *script: Answer, tools: Sequence[Any] = (add,), **options: Any
) -> tuple[TurnReport, list[dict[str, Any]]]:
    async with playing(*script) as (server, client):
        wishes: dict[str, Any] = {"retries": Retries(base_seconds=0)} | options
        callback = generate(model="gemini-test", client=client, **wishes)
        made = TurnRunner(executor_callback=callback, tools=tools)
        with anyio.fail_after(30):
            report = await made.run(system_prompt="Be brief.", messages=["What is it?"])
        requests = [request.json for request in server.requests]
    for request in requests:
        checked(request)
    return report, requests


def checked(request: dict[str, Any]) -> None:
    """Hold a request against the SDK's own types, and the roles against the API's rule."""
    for content in request["contents"]:
        types.Content.model_validate(content)
    for reported in request.get("tools", ()):
        types.Tool.model_validate(reported)
    if "toolConfig" in request:
        types.ToolConfig.model_validate(request["toolConfig"])
    roles = [content["role"] for content in request["contents"]]
    assert roles == [("user", "model")[place % 2] for place in range(len(roles))]
    for asked, answered in zip(request["contents"], request["contents"][1:], strict=False):
        count = sum("functionCall" in part for part in asked["parts"])
        assert count == sum("functionResponse" in part for part in answered["parts"])


def parts(request: dict[str, Any], kind: str) -> list[Any]:
    return [part[kind] for content in request["contents"] for part in content["parts"] if kind in part]


def cause(report: TurnReport) -> BaseException | None:
    return report.error
