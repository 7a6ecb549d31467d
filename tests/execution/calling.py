"""What the tests of the executor share: a tool in one line, a call in one line, a batch in one line."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from spindle import Artifact, Call, CallOutcome, Err, Events, Executor, Ok, Tool, ToolContext, ToolFilter, ToolRegistry
from spindle.events import Warned

Kind = TypeVar("Kind", bound=Artifact)

ANYTHING: dict[str, Any] = {"type": "object"}


def make(name: str, handler: Callable[..., Any], **options: Any) -> Tool:
    """A tool of a handler `(args, ctx, meta)` that takes any arguments."""
    given: dict[str, Any] = {"description": f"Does {name}.", "input_schema": ANYTHING, "handler": handler}
    return Tool(name=name, **(given | options))


def giving(value: Any, name: str = "give", **options: Any) -> Tool:
    """A tool that gives `value`."""

    async def give(_args: Any, _ctx: Any, _meta: Any) -> Any:
        return value

    return make(name, give, **options)


def raising(error: BaseException, name: str = "fail", **options: Any) -> Tool:
    """A tool that raises `error`."""

    async def fail(_args: Any, _ctx: Any, _meta: Any) -> Any:
        raise error

    return make(name, fail, **options)


def counting(name: str = "count", **options: Any) -> tuple[Tool, list[Any]]:
    """A tool that notes the arguments of each of its runs, and the list of these notes."""
    runs: list[Any] = []

    async def note(args: Any, _ctx: Any, _meta: Any) -> str:
        runs.append(args)
        return "ran"

    return make(name, note, **options), runs


def call(name: str, args: Any = None, call_id: str = "c1") -> Call:
    """A call; without arguments it is one of an empty object."""
    return Call(call_id, name, {} if args is None else args)


async def execute(
    tools: Iterable[Tool] | ToolRegistry,
    calls: Sequence[Any],
    *,
    ctx: ToolContext | None = None,
    filter: ToolFilter | None = None,
    **settings: Any,
) -> list[CallOutcome]:
    """One batch on an executor of its own."""
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
    return await Executor(registry, **settings).execute_parallel(calls, ctx or ToolContext("s1"), filter=filter)


async def execute_one(tool: Tool, args: Any = None, **settings: Any) -> CallOutcome:
    """One call of one tool."""
    (outcome,) = await execute([tool], [call(tool.name, args)], **settings)
    return outcome


def ok(outcome: CallOutcome) -> Ok:
    """The good result; a failed one is shown."""
    assert isinstance(outcome.result, Ok), outcome.result
    return outcome.result


def artifact_of(result: Ok, kind: type[Kind]) -> Kind:
    """The artifact of a result, which has one of that kind."""
    assert isinstance(result.artifact, kind)
    return result.artifact


def err(outcome: CallOutcome) -> Err:
    """The failed result; a good one is shown."""
    assert isinstance(outcome.result, Err), outcome.result
    return outcome.result


def hearing() -> tuple[ToolContext, list[Warned]]:
    """A context and the warnings that it emits."""
    warnings: list[Warned] = []
    events = Events()
    events.on("warning", warnings.append)
    return ToolContext("s1", events=events), warnings
