"""What one turn costs beside the calls in it."""

from typing import Any

from pydantic import BaseModel, TypeAdapter

from benchmarks.harness import Benchmark
from spindle import TurnRunner, tool

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


BENCHMARKS = [
    Benchmark(name="a turn without calls, 200 tools / one bare call", floor=one_call, subject=one_turn, aim=40),
]
