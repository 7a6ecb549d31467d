"""Tools, and streams of Chat Completions that ask for them."""

from typing import Any

from spindle import Call, Err, Executor, Tool, ToolContext, ToolRegistry, tool
from spindle.bridges.openai.chat_completions import Stream


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def now() -> str:
    """Tell the time."""
    return "noon"


def dotted() -> Tool:
    """Give a tool whose name OpenAI does not take."""

    @tool(name="shop.orders")
    async def orders() -> str:
        """List the orders."""
        return "none"

    return orders


def streamed(*events: Any, definitions: Any = None) -> Stream:
    stream = Stream(definitions)
    for event in events:
        stream.feed(event)
    return stream


def asked(*events: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in streamed(*events).calls()]


async def refused(calls: list[Call], *tools: Tool) -> list[str]:
    outcomes = await Executor(ToolRegistry(tools or (add, now))).execute_parallel(calls, ToolContext("s"))
    return [each.result.code if isinstance(each.result, Err) else "ok" for each in outcomes]
