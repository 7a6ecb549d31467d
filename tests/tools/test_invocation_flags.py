"""`tool.executor(ctx)` on a context made by hand: it keeps the timeout and refuses what only an executor can keep."""

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from spindle import Capabilities, DispatchContext, Events, ToolContext, tool
from spindle.errors import ToolDownstreamError, ToolTimeoutError, UsageError

pytestmark = pytest.mark.anyio

BARE = [ToolContext, DispatchContext]


@pytest.mark.parametrize("make", BARE)
@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("requires_approval", {"requires_approval": True}),
        ("capabilities", {"capabilities": Capabilities(secrets=["KEY"])}),
        ("isolation", {"isolation": "process"}),
    ],
)
async def test_flag_that_a_bare_context_cannot_keep_is_refused(make: Any, field: str, options: Any) -> None:
    @tool(**options)
    def act() -> str:
        """Act."""
        raise AssertionError("it ran")

    with pytest.raises(UsageError) as caught:
        await act.executor(make())({})

    assert (caught.value.tool, caught.value.field) == ("act", field)


async def test_capabilities_are_kept_by_handles_given_by_hand() -> None:
    @tool(capabilities=Capabilities(storage="tool"))
    async def look(ctx: ToolContext) -> object:
        """Return the handle."""
        return ctx.storage

    handles: Any = {"storage": "a handle"}

    assert await look.executor(ToolContext(handles=handles))({}) == "a handle"


async def test_timeout_of_an_async_tool_is_kept() -> None:
    cancelled = anyio.Event()

    @tool(timeout_seconds=0.05)
    async def hang() -> None:
        """Hang."""
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(30):
        with pytest.raises(ToolTimeoutError) as caught:
            await hang.executor(ToolContext())({})
        await cancelled.wait()

    assert (caught.value.tool, caught.value.timeout_seconds) == ("hang", 0.05)


async def test_timeout_holds_for_a_handler_that_ignores_its_cancellation() -> None:
    release = anyio.Event()

    @tool(timeout_seconds=0.05)
    async def shield() -> None:
        """Ignore cancellation."""
        with anyio.CancelScope(shield=True):
            await release.wait()

    with anyio.fail_after(30), pytest.raises(ToolTimeoutError):
        await shield.executor(ToolContext())({})
    release.set()


async def test_timeout_of_a_sync_tool_is_kept_and_the_handler_sees_it() -> None:
    release, ended, seen = threading.Event(), threading.Event(), list[bool]()

    @tool(timeout_seconds=0.05)
    def block(ctx: ToolContext) -> None:
        """Block."""
        release.wait(30)
        seen.append(ctx.cancelled)
        ended.set()

    ctx = ToolContext()
    with anyio.fail_after(30):
        with pytest.raises(ToolTimeoutError):
            await block.executor(ctx)({})
        release.set()
        await anyio.to_thread.run_sync(ended.wait, 30)

    assert seen == [True]
    assert not ctx.cancelled


async def test_tool_with_a_timeout_returns_its_value_and_raises_its_errors() -> None:
    thing = object()

    @tool(timeout_seconds=30)
    async def give(ctx: ToolContext, fail: bool = False) -> Any:
        """Give."""
        assert ctx.seconds_left is not None
        if fail:
            raise KeyError("no")
        return thing

    @tool(timeout_seconds=30)
    def give_sync(ctx: ToolContext) -> Any:
        """Give."""
        ctx.progress("half")
        return thing

    events, seen = Events(), list[str]()

    def note(payload: Any) -> None:
        seen.append(payload.message)

    events.on("tool_progress", note)
    ctx = ToolContext(events=events)

    assert await give.executor(ctx)({}) is thing
    assert await give_sync.executor(ctx)({}) is thing
    with pytest.raises(ToolDownstreamError) as caught:
        await give.executor(ctx)({"fail": True})
    assert isinstance(caught.value.__cause__, KeyError)
    assert seen == ["half"]
    assert ctx.deadline is None


async def test_timeout_that_a_handler_raises_itself_is_its_own_failure() -> None:
    @tool(timeout_seconds=30)
    async def fail() -> None:
        """Fail."""
        raise ToolTimeoutError("of another tool", tool="other")

    with pytest.raises(ToolDownstreamError) as caught:
        await fail.executor(ToolContext())({})

    assert isinstance(caught.value.__cause__, ToolTimeoutError)


async def test_a_cancelled_caller_cancels_a_tool_with_a_timeout() -> None:
    started, cancelled = anyio.Event(), anyio.Event()

    @tool(timeout_seconds=600)
    async def hang() -> None:
        """Hang."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(hang.executor(ToolContext()), "{}")
            await started.wait()
            group.cancel_scope.cancel()
        await cancelled.wait()
