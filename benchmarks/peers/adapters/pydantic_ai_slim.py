"""pydantic-ai: its agent loop, with its own offline model."""
# pyright: basic, reportMissingImports=false
# The library lives in another environment than the type checker's.

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RequestUsage

from benchmarks.peers.adapters.driving import Clock, Function, RawCall, Run, report

USAGE = RequestUsage(input_tokens=1, output_tokens=1)  # or the offline model counts words, on our clock


def setup(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:
    toolset = FunctionToolset(list(tools), timeout=deadline_seconds)

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        answers: dict[str, str] = {}

        def model(messages: Any, _info: Any) -> ModelResponse:
            if len(messages) > 1:
                clock.stop()
                answers.update({part.tool_call_id: text_of(part) for part in messages[-1].parts})
                return ModelResponse(parts=[TextPart("done")], usage=USAGE)
            clock.start()
            return ModelResponse(parts=[ToolCallPart(call.name, call.args, call.id) for call in calls], usage=USAGE)

        await Agent(FunctionModel(model), toolsets=[toolset]).run("go")
        return answers

    return run


def text_of(part: Any) -> str:
    if isinstance(part, RetryPromptPart):
        return part.model_response()
    return part.model_response_str() if isinstance(part, ToolReturnPart) else str(part)


if __name__ == "__main__":
    report(
        setup,
        library="pydantic-ai-slim",
        driven="Agent.run with its FunctionModel, from reply to next request",
        turn=setup,
    )
