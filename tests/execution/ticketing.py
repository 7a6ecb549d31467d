"""What the tests of tickets share: a tool that needs approval, an executor with a key, a call that waits."""

from collections.abc import Sequence
from typing import Any

from spindle import Call, CallOutcome, Err, Executor, Journal, Tool, ToolContext, ToolRegistry
from tests.execution.calling import counting

NUMBER: dict[str, Any] = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "password": {"type": "string"}},
    "required": ["amount"],
}


def paying(**options: Any) -> tuple[Tool, list[Any]]:
    return counting("pay", input_schema=NUMBER, requires_approval=True, **options)


def executor(tools: Sequence[Tool], journal: Journal | None, *, state_key: Any = "a key", **settings: Any) -> Executor:
    return Executor(ToolRegistry(tools), journal=journal, state_key=state_key, **settings)


async def ask(
    asked: Executor, args: Any = None, *, id: str = "c1", ctx: ToolContext | None = None, tool: str = "pay"
) -> CallOutcome:
    context = ctx or ToolContext("s1", turn_id="t1", caller={"user": "ann"})
    [outcome] = await asked.execute_parallel([Call(id, tool, {"amount": 5} if args is None else args)], context)
    return outcome


async def get_ticket(asked: Executor, args: Any = None, **options: Any) -> str:
    result = (await ask(asked, args, **options)).result
    assert isinstance(result, Err)
    assert result.code == "needs_approval"
    assert result.ticket is not None
    return result.ticket
