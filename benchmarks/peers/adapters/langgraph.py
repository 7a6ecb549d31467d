"""langgraph: its ToolNode in a graph of that one node; langchain-core parses the model's reply."""
# pyright: basic, reportMissingImports=false
# The library lives in another environment than the type checker's.

from collections.abc import Mapping, Sequence
from functools import partial

from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from benchmarks.peers.adapters.driving import Clock, Function, RawCall, Run, report


def setup(tools: Sequence[Function], deadline_seconds: float | None = None, *, message: type = AIMessage) -> Run:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools), timeout=deadline_seconds)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    compiled = graph.compile()

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        asked = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args}}
            for call in calls
        ]
        clock.start()
        reply = message("", additional_kwargs={"tool_calls": asked})
        done = await compiled.ainvoke({"messages": [reply]})
        clock.stop()
        return {message.tool_call_id: str(message.content) for message in done["messages"][1:]}

    return run


if __name__ == "__main__":
    report(
        setup,
        library="langgraph",
        driven="ToolNode in a graph of one node, on an AIMessage (streamed: AIMessageChunk) with the raw tool calls",
        streamed=partial(setup, message=AIMessageChunk),
    )
