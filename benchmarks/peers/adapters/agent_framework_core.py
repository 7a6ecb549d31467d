"""agent-framework: its function invocation layer, round a chat client that replies from a script."""
# pyright: basic, reportMissingImports=false
# The library lives in another environment than the type checker's.

from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool

from benchmarks.peers.adapters.driving import Clock, Function, RawCall, Run, report


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Requests the calls, then records the results it receives."""

    def __init__(self, calls: Sequence[RawCall], clock: Clock) -> None:
        super().__init__()
        self.calls, self.clock, self.answers = calls, clock, {}

    async def _inner_get_response(self, *, messages: Sequence[Message], **_options: Any) -> ChatResponse:
        results = [part for message in messages for part in message.contents if part.type == "function_result"]
        if results:
            self.clock.stop()
            self.answers = {part.call_id: str(part.result) for part in results}
            return ChatResponse(messages=[Message("assistant", ["done"])])
        asked = [Content.from_function_call(call.id, call.name, arguments=call.args) for call in self.calls]
        self.clock.start()
        return ChatResponse(messages=[Message("assistant", asked)])


def setup(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:  # noqa: ARG001 - it has no deadlines
    # It has no deadline for a tool; its `max_duration_seconds` is looked at between batches.
    wrapped = [tool(function) for function in tools]

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        client = Scripted(calls, clock)
        await client.get_response([Message("user", ["go"])], options={"tools": wrapped})
        return client.answers

    return run


def turn(tools: Sequence[Function], deadline_seconds: float | None = None) -> Run:  # noqa: ARG001 - as above
    wrapped = [tool(function) for function in tools]

    async def run(calls: Sequence[RawCall], clock: Clock) -> Mapping[str, str]:
        client = Scripted(calls, clock)
        await Agent(client, tools=wrapped).run("go")
        return client.answers

    return run


if __name__ == "__main__":
    report(
        setup,
        library="agent-framework-core",
        driven="its FunctionInvocationLayer round a scripted chat client",
        has_deadline=False,
        turn=turn,
    )
