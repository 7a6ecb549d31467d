"""`tool.executor(ctx)` on a context of an executor: its promises hold, and the value comes back as it is."""

import os
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import anyio
import pytest

from spindle import (
    Backends,
    Call,
    CallOutcome,
    Capabilities,
    DispatchContext,
    DispatchRunner,
    Err,
    Events,
    Executor,
    Journal,
    Ok,
    Tool,
    ToolContext,
    ToolFilter,
    ToolRegistry,
    TurnRunner,
    tool,
)
from spindle.errors import (
    ApprovalDeniedError,
    ApprovalRequiredError,
    CapabilityError,
    ExecutorCallbackError,
    InvalidToolArgsError,
    ToolDownstreamError,
    ToolNotAvailableError,
    ToolTimeoutError,
)

pytestmark = pytest.mark.anyio

Body = Callable[[Any], Awaitable[object]]


async def approve_all(_request: object) -> bool:
    return True


def call_with(tool: Tool, args: Any, ctx: object) -> Awaitable[object]:
    return tool.executor(ctx)(args)


class Thing:
    """A value that is neither text nor JSON."""


THING = Thing()


async def in_a_call(
    body: Body, *, ctx: ToolContext | None = None, filter: ToolFilter | None = None, **settings: Any
) -> Any:
    """Run `body` with the context of a running call, and return or raise what it does."""
    found: list[Any] = []
    raised: list[Exception] = []

    @tool
    async def outer(ctx: ToolContext) -> str:
        """Run the body."""
        try:
            found.append(await body(ctx))
        except Exception as error:
            raised.append(error)
            raise
        return "done"

    executor = Executor(ToolRegistry([outer]), **settings)
    outcomes = await executor.execute_parallel([Call("c1", "outer")], ctx or ToolContext("s"), filter)
    if raised:
        raise raised[0]
    assert outcomes[0].ok, outcomes[0]
    return found[0]


async def in_a_callback(
    body: Body, *, ctx: DispatchContext | None = None, filter: ToolFilter | None = None, **settings: Any
) -> Any:
    """Run `body` with the context of an executor callback, and return or raise what it does."""
    found: list[Any] = []

    async def callback(ctx: DispatchContext) -> str:
        ctx.filter = filter
        found.append(await body(ctx))
        return "done"

    dispatch = ctx or DispatchContext()
    executor = Executor(dispatch.tools, **settings)
    try:
        await DispatchRunner.dispatch(raw=dispatch, executor_callback=callback, executor=executor)
    except ExecutorCallbackError as error:  # around an exception that is not of Spindle's tree
        raise error.__cause__ or error from None
    return found[0]


class Place(Protocol):
    """A place with a context of an executor."""

    def __call__(
        self, body: Body, *, ctx: Any = None, filter: ToolFilter | None = None, **settings: Any
    ) -> Awaitable[Any]: ...


everywhere = pytest.mark.parametrize("place", [in_a_call, in_a_callback])


@everywhere
@pytest.mark.parametrize("options", [{}, {"timeout_seconds": 30.0}, {"requires_approval": True}])
async def test_value_of_the_handler_comes_back_untouched(place: Place, options: Any) -> None:
    @tool(**options)
    async def give() -> Any:
        """Give a thing."""
        return THING

    assert await place(lambda ctx: give.executor(ctx)({}), approve=approve_all) is THING


@everywhere
async def test_a_journal_does_not_touch_the_value(place: Place) -> None:
    left = iter([1, 2])

    @tool
    async def give() -> Any:
        """Give an iterator."""
        return left

    assert await place(lambda ctx: give.executor(ctx)({}), journal=Journal.memory()) is left
    assert list(left) == [1, 2]


@everywhere
async def test_a_returned_err_is_a_value(place: Place) -> None:
    failed = Err("stale_write", "changed")

    @tool(timeout_seconds=30)
    async def give() -> Err:
        """Give an Err."""
        return failed

    assert await place(lambda ctx: give.executor(ctx)({})) is failed


@everywhere
async def test_call_that_needs_approval_raises_without_an_approver_and_does_not_run(place: Place) -> None:
    ran: list[str] = []

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    with pytest.raises(ApprovalRequiredError) as caught:
        await place(lambda ctx: pay.executor(ctx)({}))

    assert caught.value.tool == "pay"
    assert not ran


@everywhere
async def test_denied_call_raises_with_the_reason_and_does_not_run(place: Place) -> None:
    ran: list[str] = []

    @tool(requires_approval=True)
    async def pay(cents: int) -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    asked: list[Any] = []

    async def approve(request: Any) -> str:
        asked.append(request.args)
        return "too much"

    with pytest.raises(ApprovalDeniedError, match="too much") as caught:
        await place(lambda ctx: pay.executor(ctx)({"cents": "5"}), approve=approve)

    assert caught.value.tool == "pay"
    assert asked == [{"cents": 5}]
    assert not ran


@everywhere
async def test_deadline_of_the_tool_raises_a_timeout(place: Place) -> None:
    @tool(timeout_seconds=0.05)
    async def hang() -> None:
        """Hang."""
        await anyio.sleep_forever()

    with anyio.fail_after(30), pytest.raises(ToolTimeoutError) as caught:
        await place(lambda ctx: hang.executor(ctx)({}))

    assert (caught.value.tool, caught.value.timeout_seconds) == ("hang", 0.05)


async def test_deadline_of_the_executor_holds_for_a_tool_without_one() -> None:
    @tool
    async def hang() -> None:
        """Hang."""
        await anyio.sleep_forever()

    with anyio.fail_after(30), pytest.raises(ToolTimeoutError):
        await in_a_callback(lambda ctx: hang.executor(ctx)({}), timeout_seconds=0.05)


@pytest.mark.slow
@everywhere
async def test_handler_that_swallows_its_cancellation_does_not_hold_its_caller(place: Place) -> None:
    release = anyio.Event()

    @tool(timeout_seconds=0.05)
    async def shield() -> None:
        """Ignore cancellation."""
        with anyio.CancelScope(shield=True):
            await release.wait()

    with anyio.fail_after(30), pytest.raises(ToolTimeoutError):
        await place(lambda ctx: shield.executor(ctx)({}))
    release.set()


@everywhere
async def test_sync_handler_runs_in_a_thread(place: Place) -> None:
    @tool
    def where() -> int:
        """Tell the thread."""
        return threading.get_ident()

    assert await place(lambda ctx: where.executor(ctx)({})) != threading.get_ident()


@pytest.mark.slow
@everywhere
async def test_process_isolation_holds(place: Place) -> None:
    @tool(isolation="process")
    def where() -> dict[str, int]:
        """Tell the process."""
        return {"pid": os.getpid()}

    answer = await place(lambda ctx: where.executor(ctx)({}))

    assert isinstance(answer["pid"], int)
    assert answer["pid"] != os.getpid()


@everywhere
async def test_capabilities_are_opened_for_the_tool(place: Place) -> None:
    @tool(capabilities=Capabilities(secrets=["KEY"]))
    async def reveal(ctx: ToolContext) -> str:
        """Reveal the key."""
        return (await ctx.secrets.get("KEY")).reveal()

    backends = Backends.local(".", secrets={"KEY": "s3cr3t-value"})

    assert await place(lambda ctx: reveal.executor(ctx)({}), backends=backends) == "s3cr3t-value"


@everywhere
async def test_capability_without_a_backend_is_refused(place: Place) -> None:
    @tool(capabilities=Capabilities(secrets=["KEY"]))
    async def reveal(ctx: ToolContext) -> str:
        """Reveal the key."""
        return (await ctx.secrets.get("KEY")).reveal()

    with pytest.raises(CapabilityError):
        await place(lambda ctx: reveal.executor(ctx)({}))


async def test_tool_does_not_get_the_handles_of_the_call_that_runs_it() -> None:
    @tool
    async def snoop(ctx: ToolContext) -> str:
        """Use a capability that was not declared."""
        return (await ctx.secrets.get("KEY")).reveal()

    raised: list[BaseException | None] = []

    @tool(capabilities=Capabilities(secrets=["KEY"]))
    async def outer(ctx: ToolContext) -> str:
        """Run the other tool."""
        with pytest.raises(ToolDownstreamError) as caught:
            await snoop.executor(ctx)({})
        raised.append(caught.value.__cause__)
        return "done"

    executor = Executor(ToolRegistry([outer]), backends=Backends.local(".", secrets={"KEY": "s3cr3t-value"}))
    (outcome,) = await executor.execute_parallel([Call("c", "outer")], ToolContext())

    assert outcome.ok
    assert isinstance(raised[0], CapabilityError)


@everywhere
async def test_filter_holds(place: Place) -> None:
    @tool
    async def give() -> str:
        """Give."""
        return "given"

    with pytest.raises(ToolNotAvailableError) as caught:
        await place(lambda ctx: give.executor(ctx)({}), filter=ToolFilter(exclude_tools=["give"]))

    assert caught.value.tool == "give"


@everywhere
async def test_unavailable_tool_is_refused(place: Place) -> None:
    @tool(is_available=lambda: False)
    async def give() -> str:
        """Give."""
        return "given"

    with pytest.raises(ToolNotAvailableError):
        await place(lambda ctx: give.executor(ctx)({}))


@pytest.mark.parametrize("options", [{}, {"requires_approval": True}, {"isolation": "process"}])
async def test_dry_run_returns_its_text(options: Any) -> None:
    ran: list[str] = []

    @tool(**options)
    def pay(cents: int) -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    async def callback(ctx: DispatchContext) -> str:
        run = pay.executor(ctx)
        ctx.dry_run = True  # holds for an executor that was built before
        return await run({"cents": 5})

    report = await TurnRunner(executor_callback=callback, tools=[pay]).run()

    assert report.error is None
    assert report.text.startswith('[dry-run] pay would be called with: {"cents":5}')
    assert ("approve" in report.text) is bool(options.get("requires_approval"))
    assert not ran


@everywhere
async def test_journal_has_an_entry_for_each_direct_call(place: Place) -> None:
    seen: list[str] = []

    @tool
    async def note(text: str) -> str:
        """Note."""
        seen.append(text)
        return text

    async def body(ctx: Any) -> str:
        run = note.executor(ctx)
        await run({"text": "a"})
        with pytest.raises(ToolDownstreamError):
            await fail.executor(ctx)({})
        return await run({"text": "a"})

    @tool
    async def fail() -> str:
        """Fail."""
        raise RuntimeError("no")

    journal = Journal.memory()
    assert await place(body, journal=journal) == "a"

    entries = [entry for entry in await journal.list() if entry.tool != "outer"]
    assert seen == ["a", "a"]
    assert sorted((entry.tool, entry.state, entry.code) for entry in entries) == [
        ("fail", "finished", "execution_failed"),
        ("note", "finished", None),
        ("note", "finished", None),
    ]
    assert len({entry.tool_call_id for entry in entries}) == 3


@everywhere
async def test_exception_of_the_handler_is_the_cause(place: Place) -> None:
    error = ZeroDivisionError("no")

    @tool(timeout_seconds=30)
    async def fail() -> str:
        """Fail."""
        raise error

    with pytest.raises(ToolDownstreamError) as caught:
        await place(lambda ctx: fail.executor(ctx)({}))

    assert caught.value.__cause__ is error


@everywhere
async def test_invalid_arguments_and_checks_raise_as_on_a_bare_context(place: Place) -> None:
    def positive(args: Any, ctx: object) -> None:
        if args["n"] == 0:
            raise KeyError("zero")
        if args["n"] < 0:
            raise ValueError("a number above 0")

    @tool(timeout_seconds=30, checks=[positive])
    async def root(n: int) -> int:
        """Return it."""
        return n

    assert await place(lambda ctx: root.executor(ctx)({"n": 2})) == 2
    for wrong in ({"n": "x"}, {"n": -1}, {"m": 1}, "{"):
        with pytest.raises(InvalidToolArgsError):
            await place(partial(call_with, root, wrong))
    with pytest.raises(KeyError):
        await place(lambda ctx: root.executor(ctx)({"n": 0}))


@everywhere
async def test_interceptors_see_a_direct_call_and_may_refuse_it(place: Place) -> None:
    names: list[str] = []

    async def guard(call: Call, ctx: ToolContext, proceed: Any) -> CallOutcome:
        names.append(call.name)
        if call.name == "forbidden":
            return CallOutcome(call.tool_call_id, call.name, "", Err("denied", "not here"))
        return await proceed()

    @tool
    async def give() -> Any:
        """Give."""
        return THING

    @tool
    async def forbidden() -> str:
        """Never run."""
        return "ran"

    assert await place(lambda ctx: give.executor(ctx)({}), interceptors=[guard]) is THING
    with pytest.raises(ApprovalDeniedError):
        await place(lambda ctx: forbidden.executor(ctx)({}), interceptors=[guard])
    assert names[-1] == "forbidden"


@everywhere
async def test_events_of_a_direct_call_are_emitted(place: Place) -> None:
    @tool(timeout_seconds=30)
    async def give() -> str:
        """Give."""
        return "given"

    events, seen = Events(), list[tuple[str, str]]()

    def note(payload: Any) -> None:
        seen.append((type(payload).__name__, payload.tool_name))

    events.on("tool_execution_start", note)
    events.on("tool_execution_end", note)
    ctx = ToolContext(events=events) if place is in_a_call else DispatchContext(events=events)

    await place(lambda ctx: give.executor(ctx)({}), ctx=ctx)

    assert [each for each in seen if each[1] == "give"] == [
        ("ToolExecutionStart", "give"),
        ("ToolExecutionEnd", "give"),
    ]


async def test_direct_calls_do_not_wait_for_the_slot_of_their_caller() -> None:
    @tool(timeout_seconds=30)
    async def inner() -> str:
        """Answer."""
        return "in"

    with anyio.fail_after(30):
        assert await in_a_call(lambda ctx: inner.executor(ctx)({}), concurrency=1) == "in"


async def test_a_cancelled_caller_cancels_its_direct_call() -> None:
    started, cancelled = anyio.Event(), anyio.Event()

    @tool(timeout_seconds=30)
    async def hang() -> None:
        """Hang."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async def leave(ctx: Any) -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(hang.executor(ctx), "{}")
            await started.wait()
            group.cancel_scope.cancel()
        return "left"

    with anyio.fail_after(30):
        assert await in_a_callback(leave) == "left"
        await cancelled.wait()


async def test_abort_of_the_turn_cancels_a_direct_call() -> None:
    started = anyio.Event()

    @tool(timeout_seconds=30)
    async def hang() -> None:
        """Hang."""
        started.set()
        await anyio.sleep_forever()

    async def callback(ctx: DispatchContext) -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(hang.executor(ctx), "{}")
            await started.wait()
            ctx.turn.abort()
        return "not reached"

    with anyio.fail_after(30):
        report = await TurnRunner(executor_callback=callback, abort_grace_seconds=600).run()

    assert report.status == "aborted"


async def test_tool_of_no_registry_may_be_used_by_a_handler() -> None:
    def handler(args: Any, ctx: ToolContext, meta: object) -> Ok:
        return Ok(args["text"])

    helper = Tool(
        name="helper",
        description="Help.",
        input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
        handler=handler,
    )

    assert await in_a_call(lambda ctx: helper.executor(ctx)({"text": "x"})) == Ok("x")
