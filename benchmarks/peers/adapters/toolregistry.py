"""toolregistry: its own batch door."""
# pyright: basic, reportMissingImports=false, reportCallIssue=false, reportAttributeAccessIssue=false
# The library lives in another environment than the type checker's, which takes this very file for it.

from collections.abc import Mapping, Sequence

from toolregistry import Tool, ToolRegistry
from toolregistry.llm.tool_calls import ToolCall
from toolregistry.tool import ToolMetadata

from benchmarks.peers.adapters.driving import Clock, Function, RawCall, Run, report


def setup(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:
    registry = ToolRegistry()
    registry.set_default_execution_mode("thread")
    for function in tools:
        registry.register(Tool.from_function(function, metadata=ToolMetadata(timeout=deadline_seconds)))

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        asked = [ToolCall(id=call.id, name=call.name, arguments=call.args) for call in calls]
        clock.start()
        results = await registry.aexecute_tool_calls(asked)
        clock.stop()
        return {result.id: str(getattr(result, "result", result)) for result in results}

    return run


if __name__ == "__main__":
    report(setup, library="toolregistry", driven="ToolRegistry.aexecute_tool_calls on threads (default: processes)")
