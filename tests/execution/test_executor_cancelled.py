"""Only the caller's own cancellation passes through the executor, and then every running tool is cancelled."""

import asyncio
import threading
from typing import Any

import anyio
import pytest

from spindle import CallOutcome, Executor, ToolContext, ToolRegistry
from tests.execution.calling import call, counting, err, execute, giving, make, ok

pytestmark = pytest.mark.anyio


def hanging(started: list[str], reported: list[str], everyone: anyio.Event, count: int) -> Any:
    async def hang(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        started.append(str(ctx.tool_call_id))
        if len(started) == count:
            everyone.set()
        try:
            await anyio.sleep_forever()
        finally:
            reported.append(str(ctx.tool_call_id))

    return make("hang", hang)


@pytest.mark.parametrize("count", [1, 5])
async def test_cancelling_the_caller_cancels_every_running_tool(count: int) -> None:
    started: list[str] = []
    reported: list[str] = []
    answers: list[Any] = []
    everyone = anyio.Event()
    tool = hanging(started, reported, everyone, count)

    async def ask() -> None:
        answers.append(await execute([tool], [call("hang", call_id=str(n)) for n in range(count)]))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await everyone.wait()
            group.cancel_scope.cancel()

    assert sorted(reported) == [str(n) for n in range(count)]
    assert answers == []


@pytest.mark.parametrize("count", [1, 3])
async def test_a_sync_tool_sees_the_cancellation_in_its_context(count: int) -> None:
    contexts: list[ToolContext] = []
    everyone, left = threading.Event(), threading.Event()

    def block(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        contexts.append(ctx)
        if len(contexts) == count:
            everyone.set()
        left.wait(30)
        return "too late"

    async def ask() -> None:
        await execute([make("block", block)], [call("block", call_id=str(n)) for n in range(count)])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not everyone.is_set():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    left.set()

    assert [ctx.cancelled for ctx in contexts] == [True] * count


async def test_calls_that_had_not_begun_never_begin() -> None:
    first = anyio.Event()
    counted, runs = counting()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        first.set()
        await anyio.sleep_forever()

    async def ask() -> None:
        await execute([make("hang", hang), counted], [call("hang"), call("count"), call("count")], concurrency=1)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await first.wait()
            group.cancel_scope.cancel()

    assert runs == []


async def test_an_executor_works_on_after_a_caller_left() -> None:
    started = anyio.Event()

    async def hang(args: Any, _ctx: Any, _meta: Any) -> str:
        if args:
            started.set()
            await anyio.sleep_forever()
        return "on"

    def resources(_args: Any) -> list[str]:
        return ["shared"]

    executor = Executor(ToolRegistry([make("hang", hang, resources=resources)]), concurrency=1)
    calls = [call("hang", {"for": "ever"}), call("hang"), call("hang")]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, calls, ToolContext("s1"))
            await started.wait()
            group.cancel_scope.cancel()
        outcomes = await executor.execute_parallel([call("hang"), call("hang")], ToolContext("s1"))

    assert [ok(each).value for each in outcomes] == ["on", "on"]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_tool_cannot_swallow_its_callers_cancellation(count: int) -> None:
    started, swallowed = anyio.Event(), anyio.Event()
    reached: list[Any] = []

    async def swallow(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        except BaseException:  # noqa: BLE001  what a careless tool does
            swallowed.set()
        return "never mind"

    async def ask() -> None:
        await execute([make("swallow", swallow)], [call("swallow", call_id=str(n)) for n in range(count)])
        await anyio.lowlevel.checkpoint()
        reached.append("here")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await started.wait()
            group.cancel_scope.cancel()

    assert swallowed.is_set()
    assert reached == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("reaction", ["raise", "swallow", "turn"])
async def test_asyncios_own_cancel_passes_through_whatever_the_tool_does(count: int, reaction: str) -> None:
    started = anyio.Event()
    reported: list[str] = []

    async def hang(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            reported.append(str(ctx.tool_call_id))
            if reaction == "raise":
                raise
            if reaction == "turn":
                raise ValueError("instead") from error
        return "never mind"

    async def ask() -> list[CallOutcome]:
        return await execute([make("hang", hang)], [call("hang", call_id=str(n)) for n in range(count)])

    with anyio.fail_after(30):
        task = asyncio.ensure_future(ask())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert len(reported) >= 1
    assert task.cancelled()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_timeout_of_the_caller_is_the_callers() -> None:
    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        for calls in ([call("hang")], [call("hang"), call("hang")]):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(execute([make("hang", hang)], calls), 0.01)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_survived_a_cancellation_may_still_execute() -> None:
    async def leave(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise ValueError("x")

    async def survivor() -> list[CallOutcome]:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            alone = await execute([giving("last words")], [call("give")])
            several = await execute([giving("last words"), make("leave", leave)], [call("give"), call("leave")])
            return [*alone, *several]
        return []

    task = asyncio.ensure_future(survivor())
    await anyio.lowlevel.checkpoint()
    task.cancel()
    with anyio.fail_after(30):
        outcomes = await task

    assert [each.ok for each in outcomes] == [True, True, False]
    assert err(outcomes[2]).code == "execution_failed"


async def test_a_deadline_that_passes_while_the_caller_leaves_is_not_an_answer() -> None:
    started = anyio.Event()
    answers: list[Any] = []

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        started.set()
        await anyio.sleep_forever()

    async def ask() -> None:
        answers.append(await execute([make("hang", hang, timeout_seconds=0.02)], [call("hang")]))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await started.wait()
            group.cancel_scope.cancel()

    assert answers == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_coroutine_that_is_thrown_away_goes_quietly() -> None:
    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        await Never()

    coroutine = execute([make("hang", hang)], [call("hang")], timeout_seconds=None)
    coroutine.send(None)
    coroutine.close()

    with pytest.raises(RuntimeError):
        coroutine.send(None)


class Never:
    """Something to wait for that no event loop knows."""

    def __await__(self) -> Any:
        yield None
