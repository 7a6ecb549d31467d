"""A server that speaks OpenAI's APIs, the SDK's client of it, and a turn that asks it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from openai import AsyncOpenAI
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter

from spindle import TurnReport, TurnRunner, tool
from tests.bridges.responses_wire import events
from tests.bridges.wire.server import Answer, WireServer, sse_answer

CHAT: TypeAdapter[Any] = TypeAdapter(CompletionCreateParams)
RESPONSES: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def chatting(*chunks: Any) -> Answer:
    return sse_answer(chunks, end="[DONE]")


def responding(*items: Any, **facts: Any) -> Answer:
    return sse_answer(events(*items, **facts), is_named=True)


@asynccontextmanager
async def serving(*script: Answer) -> AsyncGenerator[tuple[WireServer, AsyncOpenAI]]:
    async with (
        WireServer.playing(*script) as server,
        AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k") as client,
    ):
        yield server, client


async def turn(callback: Any, *tools: Any, **facts: Any) -> TurnReport:
    with anyio.fail_after(30):
        return await TurnRunner(executor_callback=callback, tools=tools).run(messages=["Go."], **facts)
