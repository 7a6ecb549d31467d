"""A registry as an MCP server, through the SDK's own client, on both protocol revisions."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from spindle import Executor, Gate, Journal, Tool, ToolContext, ToolFilter, ToolRegistry, tool
from spindle.bridges import mcp as dialect
from spindle.mcp.server.serve import propagate_changes
from spindle.mcp.server.tool_server import Caller, ToolServer

pytestmark = pytest.mark.anyio

LEGACY, MODERN = "legacy", "2026-07-28"
both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def lines(count: int) -> str:
    """Give many lines."""
    return "\n".join(f"line {n}" for n in range(count))


@tool(requires_approval=True)
def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


@tool
async def ask(*, ctx: ToolContext) -> str:
    """Ask the user for a colour."""
    schema = {"type": "string", "enum": ["red", "blue"]}
    return await ctx.wait_for(Gate("colour", {"question": "Which colour?"}, schema=schema, timeout_seconds=60))


@asynccontextmanager
async def connected(
    *tools: Tool, mode: str, answer: types.ElicitResult | None = None, **options: Any
) -> AsyncGenerator[tuple[Client, ToolServer, list[str]]]:
    asked: list[str] = []

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        assert answer is not None
        return answer

    registry = ToolRegistry(tools)
    server = ToolServer(Executor(registry, journal=options.pop("journal", None)), registry, **options)
    callback = None if answer is None else elicit
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=mode, elicitation_callback=callback) as client:
            yield client, server, asked


def text_of(result: Any) -> str:
    assert isinstance(result, types.CallToolResult)
    first = result.content[0]
    assert isinstance(first, types.TextContent)
    return first.text


def accepting(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


@both_revisions
async def test_a_call_is_validated_run_and_fenced(mode: str) -> None:
    async with connected(add, mode=mode) as (client, _, _):
        good = await client.call_tool("add", {"a": 2, "b": "3"})
        bad = await client.call_tool("add", {"a": 2})
        unknown = await client.call_tool("subtract", {})

    assert "\n5\n" in text_of(good)
    assert text_of(good).startswith("<untrusted_content_")
    assert (good.is_error, bad.is_error, unknown.is_error) == (False, True, True)
    assert "b: missing" in text_of(bad)


@both_revisions
async def test_a_large_result_is_shown_in_part_and_read_back(mode: str) -> None:
    async with connected(lines, mode=mode) as (client, _, _):
        shown = text_of(await client.call_tool("lines", {"count": 50_000}))
        call_id = shown.split('call_id "')[1].split('"')[0]
        tail = await client.call_tool("artifact_tail", {"call_id": call_id, "n": 1})
        length = await client.call_tool("artifact_line_count", {"call_id": call_id})

    assert len(shown) < 90_000
    assert "line 49999" in text_of(tail)
    assert "50000" in text_of(length)


@both_revisions
async def test_readers_are_listed_from_the_start_and_more_of_them_once_there_is_something_to_read(mode: str) -> None:
    async with connected(lines, mode=mode) as (client, _, _):
        before = {each.name for each in (await client.list_tools()).tools}
        await client.call_tool("lines", {"count": 50_000})
        after = {each.name for each in (await client.list_tools(cache_mode="refresh")).tools}

    assert {"artifact_head", "artifact_tail", "artifact_grep", "artifact_cat"} <= before
    assert "artifact_line_count" in after - before


@both_revisions
async def test_a_session_cannot_read_results_of_another_session(mode: str) -> None:
    who = "first"

    def identify(_ctx: Any) -> Caller:
        return Caller(key=who)

    async with connected(lines, mode=mode, identify=identify) as (client, _, _):
        shown = text_of(await client.call_tool("lines", {"count": 50_000}))
        call_id = shown.split('call_id "')[1].split('"')[0]
        who = "second"
        stolen = await client.call_tool("artifact_head", {"call_id": call_id})
        who = "first"
        own = await client.call_tool("artifact_head", {"call_id": call_id})

    assert stolen.is_error
    assert "line 0" not in text_of(stolen)
    assert "line 0" in text_of(own)


async def test_a_client_without_a_session_reads_by_its_secret_id_and_nothing_lists_it() -> None:
    def identify(_ctx: Any) -> Caller:
        return Caller(key="everybody", has_session=False)

    async with connected(lines, mode=MODERN, identify=identify) as (client, _, _):
        shown = text_of(await client.call_tool("lines", {"count": 50_000}))
        call_id = shown.split('call_id "')[1].split('"')[0]
        listed = (await client.list_tools(cache_mode="refresh")).tools
        wrong = await client.call_tool("artifact_head", {"call_id": "c_0000000000000000"})
        right = await client.call_tool("artifact_head", {"call_id": call_id})

    assert call_id not in str(listed)
    assert wrong.is_error
    assert call_id not in text_of(wrong)
    assert "line 0" in text_of(right)


@both_revisions
@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        (accepting(approve=True), True),
        (accepting(approve=False), False),
        (types.ElicitResult(action="decline"), False),
        (types.ElicitResult(action="cancel"), False),
    ],
    ids=["approved", "not approved", "declined", "closed"],
)
async def test_the_clients_user_approves_a_call(mode: str, answer: types.ElicitResult, ran: bool) -> None:
    async with connected(erase, mode=mode, answer=answer) as (client, _, asked):
        result = await client.call_tool("erase", {"path": "/x"})

    assert asked == ['Run erase with {"path": "/x"}?']
    assert ("erased /x" in text_of(result)) is ran
    assert result.is_error is not ran


@both_revisions
async def test_a_call_needs_approval_when_no_user_can_be_asked(mode: str) -> None:
    async with connected(erase, mode=mode) as (client, _, _):
        result = await client.call_tool("erase", {"path": "/x"})

    assert result.is_error
    assert (result.meta or {}).get("spindle/code") == "needs_approval"


@both_revisions
async def test_a_tool_asks_the_clients_user_and_goes_on_with_the_answer(mode: str) -> None:
    async with connected(ask, mode=mode, answer=accepting(answer="blue")) as (client, _, asked):
        result = await client.call_tool("ask", {})

    assert asked == ["Which colour?"]
    assert "blue" in text_of(result)


@both_revisions
async def test_an_answer_that_does_not_fit_is_the_tools_failure_and_not_a_hang(mode: str) -> None:
    async with connected(ask, mode=mode, answer=accepting(answer="green")) as (client, _, _):
        result = await client.call_tool("ask", {})

    assert result.is_error


async def test_a_parked_call_runs_once_however_often_its_client_comes_back() -> None:
    started = 0

    @tool
    async def twice(*, ctx: ToolContext) -> str:
        """Ask twice."""
        nonlocal started
        started += 1
        first = await ctx.wait_for(Gate("one", timeout_seconds=60))
        second = await ctx.wait_for(Gate("two", timeout_seconds=60))
        return f"{first} {second}"

    async with connected(twice, mode=MODERN, answer=accepting(answer="yes")) as (client, _, asked):
        result = await client.call_tool("twice", {})

    assert (started, asked) == (1, ["one", "two"])
    assert "yes yes" in text_of(result)


@both_revisions
async def test_a_profile_sees_and_runs_only_its_tools(mode: str) -> None:
    def filter_of(_profile: str | None) -> ToolFilter:
        return ToolFilter(allowed_tools=["add"])

    async with connected(add, lines, mode=mode, filter_of=filter_of) as (client, _, _):
        listed = [each.name for each in (await client.list_tools()).tools]
        refused = await client.call_tool("lines", {"count": 1})

    assert "add" in listed
    assert "lines" not in listed
    assert refused.is_error


@both_revisions
async def test_a_long_list_comes_in_pages(mode: str) -> None:
    many = [
        Tool(name=f"t{n:03}", description="d", input_schema={"type": "object"}, handler=lambda *_: "")
        for n in range(450)
    ]
    names: list[str] = []
    async with connected(*many, mode=mode) as (client, _, _):
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [each.name for each in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        with pytest.raises(MCPError):
            await client.list_tools(cursor="junk")

    assert names[:450] == [each.name for each in many]
    assert len(names) == len(set(names))


async def test_progress_reaches_the_client_and_only_grows() -> None:
    @tool
    async def work(*, ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("begun")
        ctx.progress("half", percent=50)
        ctx.progress("still half", percent=50)
        return "done"

    seen: list[tuple[float, str | None]] = []

    async def reported(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with connected(work, mode=LEGACY) as (client, _, _):
        await client.call_tool("work", {}, progress_callback=reported)
        while len(seen) < 3:
            await anyio.lowlevel.checkpoint()

    assert [message for _, message in seen] == ["begun", "half", "still half"]
    assert sorted({value for value, _ in seen}) == [value for value, _ in seen]


async def test_clients_are_notified_when_tools_change() -> None:
    reported = anyio.Event()

    async def received(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            reported.set()

    registry = ToolRegistry([add])
    server = ToolServer(Executor(registry), registry)
    listeners: list[Callable[[], Any]] = []

    def on_change(listener: Callable[[], Any]) -> Callable[[], None]:
        listeners.append(listener)
        return listeners.clear

    with anyio.fail_after(30):
        async with (
            propagate_changes(server, on_change),
            Client(server.sdk, mode=LEGACY, message_handler=received) as client,
        ):
            before = [each.name for each in (await client.list_tools()).tools]
            registry.register(lines)
            listeners[0]()
            await reported.wait()
            after = [each.name for each in (await client.list_tools(cache_mode="refresh")).tools]

    assert "lines" not in before
    assert "lines" in after
    assert not listeners


@both_revisions
async def test_tool_registered_after_a_call_can_be_called_before_clients_are_notified(mode: str) -> None:
    async def handler(_args: object, _ctx: ToolContext, _meta: object) -> str:
        return "late"

    registry = ToolRegistry([add])
    server = ToolServer(Executor(registry), registry, is_fenced=False)
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=mode) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            for name in ("plain", "altered name"):  # the second has another name on the wire
                registry.register(Tool(name=name, description="d", input_schema={"type": "object"}, handler=handler))
            [altered] = [
                each["name"] for each in dialect.definitions(registry).tools if each["name"].startswith("altered")
            ]
            answers = [await client.call_tool(name, {}) for name in ("plain", altered)]

    assert [text_of(answer) for answer in answers] == ["late", "late"]


@both_revisions
async def test_a_cancelled_call_is_recorded(mode: str) -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    async with Journal.memory() as journal, connected(hang, mode=mode, journal=journal) as (client, _, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "hang")
            await started.wait()
            tasks.cancel_scope.cancel()
        await ended.wait()
        while not (entries := await journal.list(state="finished")):
            await anyio.lowlevel.checkpoint()

    assert [each.code for each in entries] == ["cancelled"]


async def test_a_stopping_server_lets_calls_end_and_takes_no_more() -> None:
    started, go_on = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> str:
        """Take a while."""
        started.set()
        await go_on.wait()
        return "done"

    outcome: list[Any] = []

    late: Any = None
    async with connected(slow, add, mode=LEGACY) as (client, server, _), anyio.create_task_group() as tasks:

        async def call() -> None:
            outcome.append(await client.call_tool("slow", {}))

        async def drain() -> None:
            outcome.append(await server.drain(5))

        tasks.start_soon(call)
        await started.wait()
        tasks.start_soon(drain)
        await anyio.wait_all_tasks_blocked()
        late = await client.call_tool("add", {"a": 1, "b": 1})
        go_on.set()

    assert late.is_error
    assert 0 in outcome
    assert "done" in text_of(next(each for each in outcome if each != 0))
