"""The model loop: what it asks, runs, records and forges, and how it ends."""

from typing import Any

import anyio
import pytest

from spindle import Artifact, Call, DispatchContext, DispatchRunner, Events, Reply, ToolRegistry, TurnContext, tool
from spindle.artifacts import ReaderTool
from spindle.errors import (
    ExecutorCallbackError,
    InvalidDispatchContextError,
    InvalidDispatchInputError,
    LimitError,
    NackError,
    PipelineShortCircuitedError,
)
from spindle.testing import ScriptedModel
from spindle.tools import checksum

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Echo a text."""
    return text


@tool
def verses(count: int) -> str:
    """Recite."""
    return "a line of verse\n" * count


@tool(return_direct=True)
def answer() -> str:
    """Answer."""
    return "42"


def recording(*names: str) -> tuple[Events, list[str]]:
    events, seen = Events(), list[str]()
    for name in names:
        events.on(name, lambda payload, name=name: seen.append(name))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return events, seen


async def dispatch(*script: Any, tools: Any = (echo, verses, answer), **options: Any) -> tuple[Any, DispatchContext]:
    ctx = DispatchContext(tools=tools, **options.pop("context", {}))
    model = ScriptedModel(*script)
    report = await DispatchRunner.dispatch(raw=ctx, executor_callback=model, **options)
    return report, ctx


async def test_a_plain_text_is_the_answer_and_acks() -> None:
    report, ctx = await dispatch("hello")

    assert (report.status, report.text, report.iterations) == ("ack", "hello", 1)
    assert ctx.is_acked
    assert [message.content for message in ctx.messages] == ["hello"]


async def test_calls_are_run_recorded_and_the_model_is_asked_again() -> None:
    report, ctx = await dispatch([Call("c1", "echo", '{"text": "hi"}'), Call("c2", "nope")], "done")

    assert report.iterations == 2
    assert [(call.id, call.tool, call.is_error) for call in ctx.tool_calls] == [
        ("c1", "echo", False),
        ("c2", "nope", True),
    ]
    assert ctx.tool_call_count(ctx.tool_calls[0].checksum) == 1


async def test_a_reply_may_hold_text_calls_and_usage() -> None:
    first = Reply("thinking", [Call("c1", "echo", {"text": "a"})], usage={"input_tokens": 5})
    report, ctx = await dispatch(first, Reply("done", usage={"input_tokens": 7}))

    assert report.usage["input_tokens"] == 12
    assert [message.content for message in ctx.messages] == ["thinking", "done"]


async def test_none_means_the_callback_did_everything_itself() -> None:
    def by_hand(ctx: DispatchContext) -> None:
        if ctx.iteration == 1:
            ctx.ack()

    report, _ = await dispatch(lambda ctx: None, by_hand)  # pyright: ignore[reportUnknownLambdaType]

    assert (report.status, report.iterations) == ("ack", 2)


async def test_a_callback_of_one_argument_works_too() -> None:
    async def callback(ctx: DispatchContext) -> str:
        return f"turn {ctx.iteration}"

    report = await DispatchRunner.dispatch(raw=DispatchContext(), executor_callback=callback)

    assert report.text == "turn 0"


@pytest.mark.parametrize("wrong", [5, {"text": "x"}, ["text"], object()])
async def test_an_answer_that_is_none_is_refused(wrong: Any) -> None:
    async def callback(ctx: DispatchContext) -> Any:
        return wrong

    with pytest.raises(ExecutorCallbackError):
        await DispatchRunner.dispatch(raw=DispatchContext(), executor_callback=callback)


async def test_what_the_callback_raises_is_wrapped() -> None:
    original = LookupError("no model")

    with pytest.raises(ExecutorCallbackError) as caught:
        await dispatch(original)

    assert caught.value.__cause__ is original
    assert caught.value.code == "E_LLM_EXECUTION_EXECUTOR_ERROR"


async def test_a_nack_raises_its_error() -> None:
    with pytest.raises(ValueError, match="not today"):
        await dispatch(lambda ctx: ctx.nack(ValueError("not today")))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]


async def test_an_ack_in_the_callback_skips_neither_output_pipeline_nor_iteration_end() -> None:
    events, seen = recording("iteration_start", "iteration_end", "dispatch_start", "dispatch_end")

    async def output(ctx: DispatchContext, next: Any) -> None:
        seen.append("output")
        await next()

    report, _ = await dispatch(
        lambda ctx: ctx.ack(),  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
        context={"events": events},
        dispatch_output_pipeline=[output],
    )

    assert seen == ["dispatch_start", "iteration_start", "output", "iteration_end", "dispatch_end"]
    assert report.iterations == 1


async def test_readers_are_forged_before_each_iteration_and_gone_after_the_ack() -> None:
    ctx = DispatchContext(tools=[echo, verses])
    model = ScriptedModel(
        Call("c1", "verses", {"count": 9000}),
        Call("c2", "artifact_tail", {"call_id": "c1", "n": 2}),
        "done",
    )
    await DispatchRunner.dispatch(raw=ctx, executor_callback=model)

    assert "artifact_tail" not in model.seen[0]
    assert "artifact_tail" in model.seen[1]
    large, tail = ctx.tool_calls
    assert isinstance(large.results, Artifact)
    assert tail.from_artifact_tool
    assert not tail.is_error
    assert "a line of verse" in str(tail.results)
    assert [each.name for each in ctx.tools] == ["echo", "verses"]


async def test_on_nack_the_readers_stay_for_inspection() -> None:
    ctx = DispatchContext(tools=[verses])
    model = ScriptedModel(Call("c1", "verses", {"count": 9000}), lambda ctx: ctx.nack())  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]

    with pytest.raises(NackError):
        await DispatchRunner.dispatch(raw=ctx, executor_callback=model)

    assert any(isinstance(each, ReaderTool) for each in ctx.tools)


async def test_the_users_own_ephemeral_tools_are_left_alone_by_the_loop() -> None:
    @tool(ephemeral=True)
    def mine() -> str:
        """Be mine."""
        return "mine"

    _, ctx = await dispatch([Call("c1", "mine")], "done", tools=[mine])

    assert ctx.tools.has("mine")
    assert not ctx.tool_calls[0].is_error


async def test_a_tool_of_the_users_with_a_readers_name_stays() -> None:
    events, seen = recording("warning")

    @tool
    def artifact_head() -> str:
        """Be the user's own."""
        return "mine"

    _, ctx = await dispatch(
        [Call("c1", "verses", {"count": 9000})],
        [Call("c2", "artifact_head")],
        "done",
        tools=[verses, artifact_head],
        context={"events": events},
    )

    assert ctx.tool_calls[1].results == "mine"
    assert "warning" in seen


async def test_return_direct_ends_the_turn_with_its_value() -> None:
    report, ctx = await dispatch([Call("c1", "answer")])

    assert (report.status, report.text) == ("ack", "42")
    assert ctx.messages[-1].content == "42"


async def test_iterations_are_limited() -> None:
    with pytest.raises(LimitError) as caught:
        await dispatch(*[lambda ctx: None] * 9, max_iterations=3)  # pyright: ignore[reportUnknownLambdaType]

    assert caught.value.field == "max_iterations"


async def test_the_same_call_again_and_again_is_warned_about_and_then_stopped() -> None:
    events, seen = recording("warning")
    script = [[Call(f"c{i}", "echo", {"text": "again"})] for i in range(9)]

    with pytest.raises(LimitError) as caught:
        await dispatch(*script, context={"events": events}, max_repeats=3)

    assert caught.value.field == "max_repeats"
    assert seen == ["warning"]


async def test_an_abort_cancels_running_calls_and_every_call_is_answered() -> None:
    started = anyio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        started.set()
        await anyio.sleep_forever()

    ctx = DispatchContext(tools=[hang])
    reports: list[Any] = []

    async def run() -> None:
        model = ScriptedModel([Call("c1", "hang"), Call("c2", "hang")])
        reports.append(await DispatchRunner.dispatch(raw=ctx, executor_callback=model))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await started.wait()
            ctx.abort()

    assert reports[0].status == "aborted"
    assert [(call.id, call.is_error) for call in ctx.tool_calls] == [("c1", True), ("c2", True)]


async def test_a_callback_that_ignores_the_abort_is_cancelled_after_its_grace() -> None:
    ctx = DispatchContext()
    started = anyio.Event()

    async def stubborn(ctx: DispatchContext) -> None:
        started.set()
        await anyio.sleep_forever()

    async def run() -> None:
        report = await DispatchRunner.dispatch(raw=ctx, executor_callback=stubborn, abort_grace_seconds=0.01)
        assert report.status == "aborted"

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await started.wait()
            ctx.abort()


async def test_exactly_one_of_source_and_raw_is_needed() -> None:
    neither: dict[str, Any] = {}
    both: dict[str, Any] = {"source": TurnContext(), "raw": DispatchContext()}
    for given in (neither, both):
        with pytest.raises(InvalidDispatchInputError):
            await DispatchRunner.dispatch(executor_callback=ScriptedModel("x"), **given)


async def test_a_dispatch_shares_the_turns_registry_and_stash() -> None:
    turn = TurnContext(tools=ToolRegistry([echo]), stash={"a": 1})

    def look(ctx: DispatchContext) -> str:
        ctx.stash.set("b", 2)
        ctx.tools.register(verses)
        return f"{ctx.stash.get('a')} {ctx.turn_id == turn.id}"

    report = await DispatchRunner.dispatch(source=turn, executor_callback=ScriptedModel(look))

    assert report.text == "1 True"
    assert turn.stash.get("b") == 2
    assert turn.tools.has("verses")


async def test_an_abort_loses_no_answer_of_a_call_that_had_ended() -> None:
    started, sent = anyio.Event(), list[str]()

    @tool
    async def send() -> str:
        """Send."""
        sent.append("mail")
        return "sent"

    @tool
    async def hang() -> None:
        """Hang."""
        started.set()
        await anyio.sleep_forever()

    ctx = DispatchContext(tools=[send, hang])

    async def run() -> None:
        model = ScriptedModel([Call("c1", "send"), Call("c2", "hang")])
        await DispatchRunner.dispatch(raw=ctx, executor_callback=model)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await started.wait()
            await anyio.wait_all_tasks_blocked()
            ctx.abort()

    assert sent == ["mail"]
    assert [(call.id, call.is_error) for call in ctx.tool_calls] == [("c1", False), ("c2", True)]
    assert ctx.tool_calls[0].results == "sent"


async def test_output_middleware_that_forgets_next_is_found_after_a_final_answer_too() -> None:
    async def forget(_ctx: Any, _next: Any) -> None: ...

    with pytest.raises(PipelineShortCircuitedError) as caught:
        await dispatch("done", dispatch_output_pipeline=[forget])

    assert caught.value.field == "dispatch-output"


async def test_secret_fields_are_masked_in_what_is_told_of_a_call() -> None:
    @tool(secret_fields=["password"])
    async def login(user: str, password: str) -> str:
        """Log in."""
        return f"{user}{len(password)}"

    events, told = Events(), list[Any]()
    events.on("tool_call", told.append)
    secret = {"user": "ada", "password": "correct horse"}

    async def callback(_ctx: Any, helpers: Any) -> str:
        helpers.report_tool_call("c1", tool="login", args='{"user": "ada", "password": "corr')
        helpers.report_tool_call("c1", args=secret)
        return "done"

    await DispatchRunner.dispatch(raw={"tools": [login], "events": events}, executor_callback=callback)

    assert [delta.args for delta in told] == ["***", {"user": "ada", "password": "***"}]
    assert told[1].checksum == checksum("login", secret)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("max_iterations", {"max_iterations": 0}),
        ("max_repeats", {"max_repeats": "x"}),
        ("executor_callback", {"executor_callback": 5}),
        ("executor", {"executor": 5}),
        ("raw", {"raw": 5}),
        ("source", {"raw": None, "source": 5}),
    ],
)
async def test_a_dispatch_names_a_bad_setting(field: str, settings: dict[str, Any]) -> None:
    given: dict[str, Any] = {"raw": {}, "executor_callback": ScriptedModel("x")}

    with pytest.raises(InvalidDispatchInputError) as caught:
        await DispatchRunner.dispatch(**(given | settings))

    assert caught.value.field == field


@pytest.mark.parametrize("values", [{"system_prompt": 5}, {"turn_id": 5}, {"tool_calls": [5]}])
def test_a_context_names_a_bad_value(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidDispatchContextError) as caught:
        DispatchContext(**values)

    assert caught.value.field in values
