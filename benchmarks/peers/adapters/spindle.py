"""Spindle itself, measured like everyone else."""

from collections.abc import Mapping, Sequence

from benchmarks.peers.adapters.driving import Clock, Function, RawCall, Run, report
from spindle import Call, DispatchContext, Err, Executor, Ok, Reply, ToolContext, ToolRegistry, TurnRunner, tool


def setup(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:
    executor = Executor(ToolRegistry([tool(timeout_seconds=deadline_seconds)(function) for function in tools]))

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        asked = [Call(call.id, call.name, call.args) for call in calls]
        clock.start()
        outcomes = await executor.execute_parallel(asked, ToolContext(session_id="peers"))
        clock.stop()
        return {outcome.tool_call_id: text_of(outcome.result) for outcome in outcomes}

    return run


def turn(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:
    wrapped = [tool(timeout_seconds=deadline_seconds)(function) for function in tools]

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:  # noqa: ARG001 - a turn is measured whole
        answers: dict[str, str] = {}

        async def model(ctx: DispatchContext) -> Reply | str:
            if not ctx.tool_calls:
                return Reply(calls=[Call(call.id, call.name, call.args) for call in calls])
            answers.update({record.id: str(record.results) for record in ctx.tool_calls})
            return "done"

        await TurnRunner(executor_callback=model, tools=wrapped).run()
        return answers

    return run


def text_of(result: Ok | Err) -> str:
    return result.value if isinstance(result, Ok) else result.error


if __name__ == "__main__":
    report(setup, library="spindle", driven="Executor.execute_parallel", turn=turn)
