"""One call of one tool, as a model would make it: a unit test in one line."""

from collections.abc import Mapping
from typing import Any

from spindle.calls import Call, CallOutcome, RawArgs
from spindle.capabilities.resolve import Backends
from spindle.errors import UsageError
from spindle.execution.executor import Executor
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry


async def call(
    tool: Tool, /, args: RawArgs = None, *, ctx: Any = None, backends: Backends | None = None, **more: Any
) -> CallOutcome:
    """Run a tool once through an `Executor` of its own, and give the outcome.

    The tool's arguments are `args`, keyword arguments, or both. One that is called `args`, `ctx` or `backends` goes
    into the mapping. What the tool raises, or is refused for, is an `Err` in the outcome.

    Raises:
        InvalidToolError: `tool` is no tool.
        InvalidContextError: `ctx` is no context.
        UsageError: An argument is given twice, or beside a JSON text.
    """
    executor = Executor(ToolRegistry([tool]), backends=backends)
    request = Call("call", tool.name, _joined(args, more))
    outcomes = await executor.execute_parallel([request], ToolContext() if ctx is None else ctx)
    return outcomes[0]


def _joined(args: RawArgs, more: Mapping[str, Any]) -> RawArgs:
    if args is None:
        return more  # called with nothing, it is an empty object, as a keyword call would have it
    if not more:
        return args
    if not isinstance(args, Mapping):
        message = f"keyword arguments go with a mapping, got {type(args).__name__} beside {', '.join(more)}; give one"
        raise UsageError(message, field="args")
    twice = sorted(more.keys() & args.keys())
    if twice:
        raise UsageError(f"given twice: {', '.join(twice)}; give each argument once", field=twice[0])
    return {**args, **more}
