"""A model with scripted replies, and a helper that calls one tool, for tests and examples."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from spindle.calls import Call, CallOutcome, RawArgs
from spindle.capabilities.resolve import Backends
from spindle.errors import UsageError
from spindle.execution.executor import Executor
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.turns.callback_reports import CallbackHelpers
from spindle.turns.context import DispatchContext
from spindle.turns.report import Reply

Step: TypeAlias = str | Reply | Call | Sequence[Call] | Callable[[DispatchContext], object] | BaseException | None
"""One reply of the model: a final text, calls, a `Reply`, an error to raise, or a function of the context."""


class ScriptedModel:
    """An executor callback that returns one step of its script per model request.

    The steps are passed as arguments or as one list.
    """

    def __init__(self, *script: Step | Sequence[Step]) -> None:
        self._script = _steps(script)
        self.seen: list[list[str]] = []
        """The names of the visible tools, one list per request."""

    async def __call__(self, ctx: DispatchContext, helpers: CallbackHelpers) -> object:
        """Return the next step.

        Raises:
            UsageError: The script has no more steps.
        """
        self.seen.append([each.tool.name for each in ctx.tools.visible_entries(ctx.filter)])
        if ctx.iteration >= len(self._script):
            message = f"the script has only {len(self._script)} steps and another was requested; end it with a text"
            raise UsageError(message, field="script")
        planned = self._script[ctx.iteration]
        step = planned(ctx) if callable(planned) else planned
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, str):
            helpers.report_message(f"m{ctx.iteration}", step, is_complete=True)
        return [step] if isinstance(step, Call) else step


def _steps(script: tuple[Step | Sequence[Step], ...]) -> tuple[Step | Sequence[Step], ...]:
    """Unpack a single list of steps; a list of calls is one step."""
    if len(script) != 1 or not isinstance(script[0], (list, tuple)):
        return script
    steps = cast("Sequence[Step]", script[0])
    return script if all(isinstance(step, Call) for step in steps) else tuple(steps)


async def call(
    tool: Tool,
    /,
    args: RawArgs = None,
    *,
    ctx: ToolContext | DispatchContext | None = None,
    backends: Backends | None = None,
    **more: object,
) -> CallOutcome:
    """Run a tool once through its own `Executor` and return the outcome.

    The tool's arguments are `args`, keyword arguments, or both. Arguments named `args`, `ctx` or `backends` must be
    passed in the mapping. A raised error or a refusal is an `Err` in the outcome.

    Raises:
        InvalidToolError: `tool` is not a tool.
        InvalidContextError: `ctx` is not a context.
        UsageError: An argument is given twice, or keyword arguments are given with JSON text.
    """
    executor = Executor(ToolRegistry([tool]), backends=backends)
    request = Call("call", tool.name, _merge_arguments(args, more))
    outcomes = await executor.execute_parallel([request], ToolContext() if ctx is None else ctx)
    return outcomes[0]


def _merge_arguments(args: RawArgs, more: Mapping[str, object]) -> RawArgs:
    if args is None:
        return more  # an empty object if there are no keyword arguments either
    if not more:
        return args
    if not isinstance(args, Mapping):
        message = (
            f"expected a mapping with keyword arguments ({', '.join(more)}), got {type(args).__name__}; pass only one"
        )
        raise UsageError(message, field="args")
    twice = sorted(more.keys() & args.keys())
    if twice:
        raise UsageError(f"duplicate arguments: {', '.join(twice)}; pass each argument once", field=twice[0])
    return {**args, **more}
