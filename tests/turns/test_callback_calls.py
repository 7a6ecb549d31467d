"""Calls that a callback or middleware runs itself: `ctx.execute`, and the contexts that belong to a loop."""

from typing import Any

import anyio
import pytest

from spindle import (
    Artifact,
    Call,
    CallOutcome,
    DispatchContext,
    DispatchRunner,
    Ok,
    Reply,
    ToolContext,
    ToolFilter,
    TurnContext,
    TurnRunner,
    tool,
)
from spindle.errors import ApprovalRequiredError, InvalidContextError, LimitError, UsageError

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Echo a text."""
    return text


@tool
async def price() -> Ok:
    """Cost something."""
    return Ok("bought", cost_usd=0.5)


@tool(requires_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


async def test_execute_runs_calls_and_stores_a_record_of_each() -> None:
    seen: list[CallOutcome] = []

    async def callback(ctx: DispatchContext) -> str:
        calls = [Call("1", "echo", {"text": "a"}), {"id": "2", "name": "echo", "arguments": "{"}, Call("3", "price")]
        seen.extend(await ctx.execute(calls))
        assert [record.id for record in ctx.tool_calls] == ["1", "2", "3"]
        return "done"

    report = await TurnRunner(executor_callback=callback, tools=[echo, price]).run()

    assert report.status == "ok"
    assert [outcome.ok for outcome in seen] == [True, False, True]
    assert [(record.results, record.code) for record in report.tool_calls if record.id != "2"] == [
        ("a", None),
        ("bought", None),
    ]
    assert report.tool_calls[1].code == "input_invalid"
    assert report.usage["tool_cost_usd"] == 0.5
    assert report.iterations == 1


async def test_execute_keeps_the_settings_of_the_dispatch() -> None:
    async def callback(ctx: DispatchContext) -> str:
        ctx.filter = ToolFilter(exclude_tools=["price"])
        refused, _ = await ctx.execute([Call("1", "price"), Call("2", "echo", {"text": "a"})])
        assert not refused.ok
        ctx.dry_run = True
        (planned,) = await ctx.execute([Call("3", "echo", {"text": "b"})])
        assert isinstance(planned.result, Ok)
        return planned.result.value

    report = await TurnRunner(executor_callback=callback, tools=[echo, price]).run()

    assert report.text.startswith("[dry-run]")


async def test_readers_of_an_executed_call_can_be_called_at_once() -> None:
    @tool
    def verses() -> Artifact:
        """Recite."""
        return Artifact.from_text("one\ntwo\nthree")

    async def callback(ctx: DispatchContext) -> str:
        await ctx.execute([Call("c1", "verses")])
        (read,) = await ctx.execute([Call("c2", "artifact_head", {"call_id": "c1", "n": 1})])
        assert isinstance(read.result, Ok), read
        assert ctx.tool_calls[1].from_artifact_tool
        return read.result.value

    report = await TurnRunner(executor_callback=callback, tools=[verses]).run()

    assert report.error is None
    assert "one" in report.text


async def test_execute_counts_repeated_calls() -> None:
    async def callback(ctx: DispatchContext) -> str:
        for number in range(9):
            await ctx.execute([Call(str(number), "echo", {"text": "again"})])
        return "done"

    report = await TurnRunner(executor_callback=callback, tools=[echo], max_repeats=3).run()

    assert report.status == "limit"
    assert isinstance(report.error, LimitError)
    assert len(report.tool_calls) == 3


async def test_execute_is_cancelled_by_an_abort() -> None:
    started = anyio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        started.set()
        await anyio.sleep_forever()

    async def callback(ctx: DispatchContext) -> str:
        async with anyio.create_task_group() as group:

            async def abort() -> None:
                await started.wait()
                ctx.abort()

            group.start_soon(abort)
            assert [outcome.ok for outcome in await ctx.execute([Call("1", "hang")])] == [False]
        return "late"

    with anyio.fail_after(30):
        report = await TurnRunner(executor_callback=callback, tools=[hang], abort_grace_seconds=600).run()

    assert [record.code for record in report.tool_calls] == ["cancelled"]


async def test_middleware_of_the_turn_and_of_the_dispatch_can_execute_calls() -> None:
    async def before(ctx: Any, proceed: Any) -> None:
        await ctx.execute([Call(type(ctx).__name__, "echo", {"text": "before"})])
        await proceed()

    async def after(ctx: Any, proceed: Any) -> None:
        await proceed()
        await ctx.execute([Call(f"{type(ctx).__name__} after", "echo", {"text": "after"})])

    async def callback(_ctx: DispatchContext) -> str:
        return "done"

    report = await TurnRunner(
        executor_callback=callback,
        tools=[echo],
        turn_input_pipeline=[before],
        dispatch_input_pipeline=[before],
        dispatch_output_pipeline=[after],
        turn_output_pipeline=[after],
    ).run()

    assert report.error is None
    assert [record.id for record in report.tool_calls] == [
        "TurnContext",
        "DispatchContext",
        "DispatchContext after",
        "TurnContext after",
    ]


async def test_execute_without_a_loop_is_refused() -> None:
    for ctx in (DispatchContext(tools=[echo]), TurnContext(tools=[echo])):
        with pytest.raises(InvalidContextError):
            await ctx.execute([Call("1", "echo", {"text": "a"})])


async def test_contexts_belong_to_the_executor_only_while_the_loop_runs() -> None:
    async def callback(ctx: DispatchContext) -> str:
        for own in (ctx, ctx.turn, ctx.tool_context()):
            with pytest.raises(ApprovalRequiredError):
                await pay.executor(own)({})
        return "done"

    ctx = DispatchContext(tools=[pay])
    await DispatchRunner.dispatch(raw=ctx, executor_callback=callback)

    for left in (ctx, ctx.turn, ctx.tool_context()):
        with pytest.raises(UsageError):
            pay.executor(left)


async def test_a_dispatch_inside_a_turn_does_not_end_the_calls_of_the_outer_one() -> None:
    async def inner(ctx: DispatchContext) -> str:
        await ctx.execute([Call("inner", "echo", {"text": "a"})])
        return "inner"

    async def outer(ctx: DispatchContext) -> str:
        await DispatchRunner.dispatch(source=ctx.turn, executor_callback=inner)
        await ctx.execute([Call("outer", "echo", {"text": "b"})])
        await ctx.turn.execute([Call("turn", "echo", {"text": "c"})])
        return "outer"

    report = await TurnRunner(executor_callback=outer, tools=[echo]).run()

    assert report.error is None
    assert [record.id for record in report.tool_calls] == ["inner", "outer", "turn"]


async def test_handler_of_a_turn_uses_the_approver_of_the_loop() -> None:
    @tool
    async def shop(ctx: ToolContext) -> str:
        """Pay for something."""
        return await pay.executor(ctx)({})

    async def approve(request: Any) -> bool:
        return request.tool is pay

    async def callback(ctx: DispatchContext) -> Any:
        return "done" if ctx.tool_calls else [Call("1", "shop")]

    report = await TurnRunner(executor_callback=callback, tools=[shop, pay], approve=approve).run()

    assert [record.results for record in report.tool_calls] == ["paid"]


@pytest.mark.parametrize("as_reply", [False, True])
async def test_callback_may_return_calls_as_mappings(*, as_reply: bool) -> None:
    nested = {"id": "2", "type": "function", "function": {"name": "echo", "arguments": '{"text": "b"}'}}

    async def callback(ctx: DispatchContext) -> object:
        flat = {"id": "1", "name": "echo", "args": {"text": "a"}}
        calls: Any = [flat, nested, Call("3", "echo", {"text": "c"})]
        return "done" if ctx.tool_calls else Reply(calls=calls) if as_reply else calls

    report = await TurnRunner(executor_callback=callback, tools=[echo]).run()

    assert report.status == "ok"
    assert [(record.id, record.results) for record in report.tool_calls] == [("1", "a"), ("2", "b"), ("3", "c")]


async def test_call_without_a_name_has_a_record_and_does_not_end_the_turn() -> None:
    untyped: Any = None

    async def callback(ctx: DispatchContext) -> object:
        if ctx.iteration == 0:
            outcomes = await ctx.execute([{"id": "1"}, untyped, Call("3", "echo", {"text": "c"})])
            assert [outcome.ok for outcome in outcomes] == [False, False, True]
            return [Call("4", "")]
        return "done"

    report = await TurnRunner(executor_callback=callback, tools=[echo]).run()

    assert report.status == "ok"
    codes = ["input_invalid", "input_invalid", None, "not_available"]
    assert [record.code for record in report.tool_calls] == codes
    assert [record.id for record in report.tool_calls if record.code != "input_invalid"] == ["3", "4"]
