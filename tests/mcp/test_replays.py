"""Repeated answers, and answers of other clients or to other calls: a call runs once, and only if approved."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from spindle import Executor, Gate, Journal, ToolContext, ToolRegistry, tool
from spindle.mcp.server import parked_calls
from spindle.mcp.server.tool_server import Caller, ToolServer

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
YES = types.ElicitResult(action="accept", content={"approve": True})
NO = types.ElicitResult(action="accept", content={"approve": False})


@dataclass
class Desk:
    """A server whose caller can be changed, and what its tools did."""

    client: Client
    who: list[Caller]
    erased: list[str] = field(default_factory=list[str])
    received: list[Any] = field(default_factory=list[Any])

    async def call(self, name: str, arguments: dict[str, Any], **resuming: Any) -> Any:
        return await self.client.session.call_tool(name, arguments, allow_input_required=True, **resuming)

    async def erase(self, path: str, **resuming: Any) -> Any:
        return await self.call("erase", {"path": path}, **resuming)


@asynccontextmanager
async def desk(journal: Journal | None = None) -> AsyncGenerator[Desk]:
    who = [Caller(key="alice")]
    made: list[Desk] = []

    @tool(requires_approval=True)
    def erase(path: str) -> str:
        """Erase a file."""
        made[0].erased.append(path)
        return f"erased {path}"

    @tool
    async def thrice(*, ctx: ToolContext) -> str:
        """Ask the same thing again and again."""
        for _ in range(3):
            made[0].received.append(await ctx.wait_for(Gate("sure", timeout_seconds=60)))
        return "asked"

    @tool
    async def hasty(*, ctx: ToolContext) -> str:
        """Ask, and do not wait long."""
        await ctx.wait_for(Gate("sure", timeout_seconds=0.01))
        return "answered"

    async def never(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        raise AssertionError("these tests answer by hand")

    registry = ToolRegistry([erase, thrice, hasty])
    server = ToolServer(Executor(registry, journal=journal), registry, identify=lambda _ctx: who[0])
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=MODERN, elicitation_callback=never) as client:
            made.append(Desk(client, who))
            yield made[0]


def is_refused(result: Any) -> bool:
    assert isinstance(result, types.CallToolResult)
    return result.is_error is True


async def test_an_answer_that_is_sent_again_does_not_run_the_call_again() -> None:
    async with Journal.memory() as journal, desk(journal) as at:
        asked = await at.erase("/a")
        state = asked.request_state
        done = await at.erase("/a", input_responses={"approval": YES}, request_state=state)
        again = await at.erase("/a", input_responses={"approval": YES}, request_state=state)
        entries = await journal.list()

    assert not is_refused(done)
    assert is_refused(again)
    assert at.erased == ["/a"]
    assert len(entries) == 1


async def test_two_answers_at_once_run_the_call_once() -> None:
    results: list[Any] = []
    async with desk() as at:
        state = (await at.erase("/a")).request_state

        async def answer() -> None:
            results.append(await at.erase("/a", input_responses={"approval": YES}, request_state=state))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(answer)

    assert at.erased == ["/a"]
    assert sorted(map(is_refused, results)) == [False] + [True] * 19


async def test_an_answer_without_a_question_approves_nothing() -> None:
    async with desk() as at:
        asked = await at.erase("/a", input_responses={"approval": YES})

    assert isinstance(asked, types.InputRequiredResult)
    assert at.erased == []


async def test_the_approval_of_one_call_is_none_for_another() -> None:
    async with desk() as at:
        state = (await at.erase("/harmless")).request_state
        with pytest.raises(MCPError):
            await at.erase("/etc", input_responses={"approval": YES}, request_state=state)
        with pytest.raises(MCPError):
            await at.call("thrice", {}, input_responses={"approval": YES}, request_state=state)

    assert at.erased == []


@pytest.mark.parametrize("forged", ["", "v1.", "v1.AAAA", "x" * 100_000, "\ud800", "null"], ids=range(6))
async def test_a_state_that_was_made_up_is_refused(forged: str) -> None:
    async with desk() as at:
        await at.erase("/a")
        with pytest.raises((MCPError, UnicodeError, ValueError)):
            await at.erase("/a", input_responses={"approval": YES}, request_state=forged)

    assert at.erased == []


async def test_a_question_is_answered_only_by_the_client_that_was_asked() -> None:
    async with desk() as at:
        state = (await at.erase("/a")).request_state
        at.who[0] = Caller(key="mallory")
        stolen = await at.erase("/a", input_responses={"approval": YES}, request_state=state)
        before = list(at.erased)
        at.who[0] = Caller(key="alice")
        own = await at.erase("/a", input_responses={"approval": YES}, request_state=state)

    assert is_refused(stolen)
    assert before == []
    assert not is_refused(own)
    assert at.erased == ["/a"]


async def test_a_no_stays_a_no() -> None:
    async with desk() as at:
        state = (await at.erase("/a")).request_state
        denied = await at.erase("/a", input_responses={"approval": NO}, request_state=state)
        later = await at.erase("/a", input_responses={"approval": YES}, request_state=state)

    assert is_refused(denied)
    assert is_refused(later)
    assert at.erased == []


@pytest.mark.parametrize(
    "content",
    [None, {}, {"approve": "yes"}, {"approve": 1}, {"approve": "true"}, {"approved": True}, {"approve": None}],
    ids=["nothing", "empty", "word", "one", "text", "other field", "null"],
)
async def test_only_a_plain_yes_is_a_yes(content: dict[str, Any] | None) -> None:
    async with desk() as at:
        state = (await at.erase("/a")).request_state
        answer = types.ElicitResult(action="accept", content=content)
        result = await at.erase("/a", input_responses={"approval": answer}, request_state=state)

    assert is_refused(result)
    assert at.erased == []


async def test_an_answer_counts_for_its_own_question_and_not_for_the_next_one() -> None:
    def said(text: str) -> dict[str, Any]:
        return {"sure": types.ElicitResult(action="accept", content={"answer": text})}

    async with desk() as at:
        first = (await at.call("thrice", {})).request_state
        second = (await at.call("thrice", {}, input_responses=said("one"), request_state=first)).request_state
        replayed = await at.call("thrice", {}, input_responses=said("one"), request_state=first)
        before = list(at.received)
        await at.call("thrice", {}, input_responses=said("two"), request_state=second)

    assert is_refused(replayed)
    assert before == ["one"]
    assert at.received == ["one", "two"]


async def test_coming_back_without_an_answer_asks_again() -> None:
    async with desk() as at:
        first = await at.erase("/a")
        other = {"something_else": YES}
        second = await at.erase("/a", input_responses=other, request_state=first.request_state)
        done = await at.erase("/a", input_responses={"approval": YES}, request_state=second.request_state)

    assert isinstance(second, types.InputRequiredResult)
    assert not is_refused(done)


async def test_a_late_answer_is_reported_as_late() -> None:
    async with desk() as at:
        asked = await at.call("hasty", {})
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.05)  # the question's own time
        answer = {"sure": types.ElicitResult(action="accept", content={"answer": "yes"})}
        late = await at.call("hasty", {}, input_responses=answer, request_state=asked.request_state)

    assert is_refused(late)


async def test_a_client_that_leaves_many_questions_open_gives_up_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked_calls, "MAX_PARKED_PER_CLIENT", 3)
    async with desk() as at:
        kept = (await at.erase("/alice")).request_state
        at.who[0] = Caller(key="mallory")
        states = [(await at.erase("/m")).request_state for _ in range(6)]
        oldest = await at.erase("/m", input_responses={"approval": YES}, request_state=states[0])
        newest = await at.erase("/m", input_responses={"approval": YES}, request_state=states[-1])
        at.who[0] = Caller(key="alice")
        own = await at.erase("/alice", input_responses={"approval": YES}, request_state=kept)

    assert [is_refused(each) for each in (oldest, newest, own)] == [True, False, False]
    assert at.erased == ["/m", "/alice"]


async def test_a_call_that_waits_for_approval_does_not_block_others() -> None:
    @tool(requires_approval=True)
    def erase() -> str:
        """Erase."""
        return "erased"

    @tool
    def plain() -> str:
        """Do something harmless."""
        return "plain"

    async def never(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        raise AssertionError("nobody is asked here")

    registry = ToolRegistry([erase, plain])
    server = ToolServer(Executor(registry, concurrency=2), registry)
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=MODERN, elicitation_callback=never) as client:
            for _ in range(5):
                await client.session.call_tool("erase", {}, allow_input_required=True)
            result = await client.call_tool("plain", {})

    assert not result.is_error
