"""A model that plays a script: for tests, examples and demonstrations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from spindle.calls import Call, CallOutcome, RawArgs
from spindle.capabilities.resolve import Backends
from spindle.errors import UsageError
from spindle.execution.executor import Executor
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.turns.dispatch import Reply

Step: TypeAlias = str | Reply | Call | Sequence[Call] | Callable[[Any], Any] | BaseException | None
"""What the model does next: a final text, calls, a `Reply`, an error to raise, or a function of the context."""


class ScriptedModel:
    """An executor callback that gives one step of its script for each trip to the model.

    The steps are its arguments, or one list of them.
    """

    def __init__(self, *script: Step | Sequence[Step]) -> None:
        self._script = _steps(script)
        self.seen: list[list[str]] = []
        """The names of the tools the model was shown, trip by trip."""

    async def __call__(self, ctx: Any, helpers: Any) -> Any:
        """Give the next step.

        Raises:
            UsageError: The script is over.
        """
        self.seen.append([each.tool.name for each in ctx.tools.entries() if not each.hidden])
        if ctx.iteration >= len(self._script):
            message = f"the script has {len(self._script)} steps and the model was asked once more; end it with a text"
            raise UsageError(message, field="script")
        step = self._script[ctx.iteration]
        if callable(step):
            step = step(ctx)
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, str):
            helpers.report_message(f"m{ctx.iteration}", step, is_complete=True)
        return [step] if isinstance(step, Call) else step


def _steps(script: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tell a list of steps from a list of calls, which is one step."""
    if len(script) != 1 or not isinstance(script[0], (list, tuple)):
        return script
    steps = cast("Sequence[Any]", script[0])
    return script if all(isinstance(step, Call) for step in steps) else tuple(steps)


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
