"""openai-agents: its runner, with a model that replies from a script."""
# pyright: basic, reportMissingImports=false
# The library lives in another environment than the type checker's.

from collections.abc import Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Tool, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.peers.adapters.driving import Clock, Function, RawCall, Run, report

DONE = ResponseOutputMessage(
    id="m", role="assistant", status="completed", type="message",
    content=[ResponseOutputText(text="done", type="output_text", annotations=[])],
)  # fmt: skip


class Scripted(Model):
    """Requests the calls, then records the results it receives."""

    def __init__(self, calls: Sequence[RawCall], clock: Clock) -> None:
        self.calls, self.clock, self.answers = calls, clock, {}

    async def get_response(self, *, input: Any, **_rest: Any) -> ModelResponse:
        results = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if results:
            self.clock.stop()
            self.answers = {item["call_id"]: str(item["output"]) for item in results}
            return ModelResponse(output=[DONE], usage=Usage(), response_id=None)
        asked = [
            ResponseFunctionToolCall(call_id=call.id, name=call.name, arguments=call.args, type="function_call")
            for call in self.calls
        ]
        self.clock.start()
        return ModelResponse(output=list(asked), usage=Usage(), response_id=None)

    def stream_response(self, *_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("this model answers whole, and is never asked to stream")


def setup(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:
    # It refuses a deadline for a sync tool when the tool is made.
    wrapped: list[Tool] = [
        function_tool(function, timeout=deadline_seconds if iscoroutinefunction(function) else None)
        for function in tools
    ]

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        model = Scripted(calls, clock)
        await Runner.run(Agent(name="a", model=model, tools=wrapped), "go", run_config=RunConfig(tracing_disabled=True))
        return model.answers

    return run


if __name__ == "__main__":
    report(
        setup,
        library="openai-agents",
        driven="Runner.run with a scripted model, from reply to next request",
        turn=setup,
    )
