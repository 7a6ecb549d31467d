"""Registry and calls of `spindle demo`: the tools of a small shop and a model reply with invalid calls."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from spindle.calls import Call, RawArgs
from spindle.cli.demo_cases import CASES, DEADLINE_SECONDS, Note, RawCall, hostile_tools
from spindle.tools.context import ToolContext
from spindle.tools.declaration import tool
from spindle.tools.registry import ToolRegistry

SIBLING = "a good sibling"


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoCall:
    """One call of the batch and its title."""

    title: str
    call: Call


@tool(toolset="shop", read_only=True)
async def search_orders(
    customer: str, limit: Annotated[int, Field(ge=1, le=100)] = 10, *, ctx: ToolContext
) -> list[str]:
    """Find a customer's orders.

    Args:
        customer: The customer's number, like C-17.
        limit: The maximum number of orders.
    """
    ctx.progress(f"looking for {limit} orders")
    return [f"{customer}/{number}" for number in range(1, limit + 1)]


def shop(note: Note) -> ToolRegistry:
    """Build the registry of the demo; its tools report their arguments to `note`."""
    hostile = [
        tool(timeout_seconds=DEADLINE_SECONDS)(function) if function.__name__ == "print_label" else tool(function)
        for function in hostile_tools(note)
    ]
    return ToolRegistry([search_orders, *hostile])


def six_calls() -> list[DemoCall]:
    """Return the hostile calls and their good siblings, as one reply of the model."""
    asked: list[DemoCall] = []
    for case in CASES:
        asked += [_sent(case.title if sent is case.hostile else SIBLING, sent) for sent in case.calls]
    return asked


def every_call() -> list[DemoCall]:
    """Return the hostile calls and further malformed calls a model may send."""
    refund = '{"order": "A-7", "cents": '
    return [
        _asked("plain", "search_orders", {"customer": "C-17", "limit": 2}),
        _asked("a number sent as text", "search_orders", '{"customer": "C-17", "limit": "3"}'),
        _asked("arguments as bytes", "count_words", '{"text": "größer als gedacht"}'.encode()),
        _asked("changes something", "refund", f"{refund}250}}"),
        *six_calls(),
        _asked("out of range", "search_orders", '{"customer": "C-17", "limit": 5000}'),
        _asked("unknown argument", "refund", f'{refund}1, "centz": 9}}'),
        _asked("an argument missing", "refund", '{"cents": 250}'),
        _asked("not a number", "refund", f"{refund}NaN}}"),
        _asked("one key twice", "refund", f'{refund}1, "cents": 900}}'),
        _asked("chatter after the JSON", "refund", f"{refund}1}} Done!"),
        _asked("not an object", "refund", '["A-7", 250]'),
        _asked("absurdly deep", "count_words", '{"text": ' + "[" * 5_000),
        _asked("claims our context", "search_orders", '{"customer": "C-17", "ctx": {}}'),
        _asked("unknown tool", "refnud", f"{refund}250}}"),
    ]


def _sent(title: str, sent: RawCall) -> DemoCall:
    return DemoCall(title=title, call=Call(sent.id, sent.name, sent.args))


def _asked(title: str, name: str, args: RawArgs) -> DemoCall:
    return DemoCall(title=title, call=Call(f"call_{title.replace(' ', '_')}", name, args))
