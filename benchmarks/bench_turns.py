"""What one turn costs beside the calls in it."""

from typing import Any

from pydantic import BaseModel, TypeAdapter

from benchmarks.harness import Benchmark
from spindle import (
    Artifact,
    Call,
    DispatchContext,
    DispatchRunner,
    Reply,
    ToolCallRecord,
    TurnContext,
    TurnRunner,
    tool,
)

ARGS = b'{"text":"hello"}'


class Arguments(BaseModel):
    text: str


validate_json = TypeAdapter(Arguments).validator.validate_json


async def bare(args: Arguments) -> str:
    return args.text


async def one_call() -> str:
    return await bare(validate_json(ARGS))


def tools() -> list[Any]:
    def make(number: int) -> Any:
        @tool(name=f"tool_{number}")
        async def echo(text: str) -> str:
            """Echo."""
            return text

        return echo

    return [make(number) for number in range(200)]


async def answer(ctx: Any) -> str:  # noqa: ARG001 - what a callback is given
    return "done"


runner = TurnRunner(executor_callback=answer, tools=tools())


async def one_turn() -> None:
    await runner.run()


FEW, MANY, ITERATIONS = 100, 2_000, 50


def record(number: int) -> ToolCallRecord:
    text = Artifact.from_text(f"text {number}")
    facts: dict[str, Any] = {"is_complete": True, "is_error": False, "results": text}
    return ToolCallRecord(f"old_{number}", "note", args={}, checksum=str(number), **facts)


RECORDS = [record(number) for number in range(MANY)]


@tool
async def note(number: int) -> str:
    """Note a number."""
    return str(number)


async def ask(ctx: DispatchContext) -> Reply:
    done = ctx.iteration == ITERATIONS
    return Reply("done") if done else Reply(calls=[Call(f"c{ctx.iteration}", "note", {"number": ctx.iteration})])


def turns() -> dict[int, TurnContext]:
    """Make a turn in which few calls were made, and one with many; what is known of them is known when it starts."""
    made = {size: TurnContext(tools=[note], tool_calls=RECORDS[:size]) for size in (FEW, MANY)}
    for turn in made.values():
        DispatchContext(turn=turn).tool_context()
    return made


async def iterate_after_few(turns: dict[int, TurnContext]) -> None:
    await DispatchRunner.dispatch(source=turns[FEW], executor_callback=ask, max_iterations=None)


async def iterate_after_many(turns: dict[int, TurnContext]) -> None:
    await DispatchRunner.dispatch(source=turns[MANY], executor_callback=ask, max_iterations=None)


BENCHMARKS = [
    Benchmark(
        name="a turn without calls, 200 tools / one bare call",
        floor=one_call,
        subject=one_turn,
        aim=40,
        clock="cpu",
        note="3,500 bytecodes in 187 frames; the aim would leave about 1,300. 16 % are the two contexts and their "
        "record lists, 14 % the loop, 9 % the runner, 10 % the answer's message (checked, with an id that sorts by "
        "time) and its storing, 10 % the cancel scope of the callback, which has to be there before the callback opens "
        "its own, 7 % the frozen reports; the rest is events, signals and pipelines with nothing to do. Not tried: one "
        "context for turn and dispatch, which are published as two.",
    ),
    Benchmark(
        name="an iteration of a turn after 2,000 calls / after 100",
        floor=iterate_after_few,
        subject=iterate_after_many,
        setup=turns,
        aim=1.2,
    ),
]
