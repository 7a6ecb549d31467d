"""The model loop: what it asks, runs, records and forges, and how it ends."""

import json
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import anyio
import pytest

from spindle import (
    Artifact,
    Call,
    DispatchContext,
    DispatchRunner,
    Events,
    Gate,
    JsonArtifact,
    Reply,
    ToolRegistry,
    TurnContext,
    TurnRunner,
    tool,
)
from spindle.artifacts import ReaderTool
from spindle.errors import (
    ExecutorCallbackError,
    GateAbortedError,
    InvalidDispatchContextError,
    InvalidDispatchInputError,
    InvalidTurnRunnerConfigError,
    LimitError,
    ModelUnavailableError,
    NackError,
    PipelineShortCircuitedError,
)
from spindle.testing import ScriptedModel
from spindle.tools import checksum
from spindle.turns import Message, Retrievable
from tests.bounds import counted_calls

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


async def test_plain_text_acks_the_dispatch_and_is_its_answer() -> None:
    report, ctx = await dispatch("hello")

    assert (report.status, report.text, report.iterations) == ("ack", "hello", 1)
    assert ctx.is_acked
    assert [Message.of(message).content for message in ctx.messages] == ["hello"]


async def test_calls_are_run_and_recorded_before_the_model_is_called_again() -> None:
    report, ctx = await dispatch([Call("c1", "echo", '{"text": "hi"}'), Call("c2", "nope")], "done")

    assert report.iterations == 2
    assert [(call.id, call.tool, call.is_error) for call in ctx.tool_calls] == [
        ("c1", "echo", False),
        ("c2", "nope", True),
    ]
    assert ctx.tool_call_count(ctx.tool_calls[0].checksum) == 1


async def test_reply_may_have_text_calls_and_usage() -> None:
    first = Reply("thinking", [Call("c1", "echo", {"text": "a"})], usage={"input_tokens": 5})
    report, ctx = await dispatch(first, Reply("done", usage={"input_tokens": 7}))

    assert report.usage["input_tokens"] == 12
    assert [Message.of(message).content for message in ctx.messages] == ["thinking", "done"]


async def test_callback_that_returns_none_continues_the_loop() -> None:
    def by_hand(ctx: DispatchContext) -> None:
        if ctx.iteration == 1:
            ctx.ack()

    report, _ = await dispatch(lambda ctx: None, by_hand)  # pyright: ignore[reportUnknownLambdaType]

    assert (report.status, report.iterations) == ("ack", 2)


async def test_callback_with_one_argument_gets_no_helpers() -> None:
    async def callback(ctx: DispatchContext) -> str:
        return f"turn {ctx.iteration}"

    report = await DispatchRunner.dispatch(raw=DispatchContext(), executor_callback=callback)

    assert report.text == "turn 0"


async def test_callback_may_be_sync() -> None:
    def callback(ctx: DispatchContext) -> object:
        return "done" if ctx.tool_calls else [Call("c1", "echo", {"text": "a"})]

    ctx = DispatchContext(tools=[echo])
    report = await DispatchRunner.dispatch(raw=ctx, executor_callback=callback)

    assert (report.text, [record.results for record in ctx.tool_calls]) == ("done", ["a"])


def _yield_text(_ctx: DispatchContext) -> Iterator[str]:
    yield "done"


async def _yield_text_async(_ctx: DispatchContext) -> AsyncIterator[str]:
    yield "done"


@pytest.mark.parametrize("wrong", [None, "text", ScriptedModel, _yield_text, _yield_text_async])
def test_callback_or_middleware_that_would_never_run_is_refused_at_wiring(wrong: Any) -> None:
    with pytest.raises(InvalidTurnRunnerConfigError) as caught:
        TurnRunner(executor_callback=wrong)
    with pytest.raises(InvalidTurnRunnerConfigError) as caught_later:
        TurnRunner(executor_callback=ScriptedModel("done"), dispatch_input_pipeline=[wrong])

    assert (caught.value.field, caught_later.value.field) == ("executor_callback", "dispatch_input_pipeline")


@pytest.mark.parametrize("wrong", [5, {"text": "x"}, ["text"], object()])
async def test_callback_that_returns_an_invalid_value_raises(wrong: Any) -> None:
    async def callback(ctx: DispatchContext) -> Any:
        return wrong

    with pytest.raises(ExecutorCallbackError):
        await DispatchRunner.dispatch(raw=DispatchContext(), executor_callback=callback)


async def test_exception_of_the_callback_is_wrapped() -> None:
    original = LookupError("no model")

    with pytest.raises(ExecutorCallbackError) as caught:
        await dispatch(original)

    assert caught.value.__cause__ is original
    assert caught.value.code == "E_LLM_EXECUTION_EXECUTOR_ERROR"


async def test_nack_raises_its_error() -> None:
    with pytest.raises(ValueError, match="not today"):
        await dispatch(lambda ctx: ctx.nack(ValueError("not today")))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]


async def test_ack_in_the_callback_still_runs_output_pipeline_and_iteration_end() -> None:
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


async def test_readers_are_forged_before_each_iteration_and_unregistered_on_ack() -> None:
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


async def test_reader_definitions_stay_the_same_when_results_are_added() -> None:
    shown: list[dict[str, Any]] = []

    def definitions(ctx: DispatchContext) -> dict[str, Any]:
        return {each["name"]: each for each in ctx.tools.to_definitions() if each["name"].startswith("artifact_")}

    async def callback(ctx: DispatchContext) -> str | list[Call]:
        shown.append(definitions(ctx))
        return "done" if ctx.iteration == 3 else [Call(f"c{ctx.iteration}", "verses", {"count": 9000 + ctx.iteration})]

    await DispatchRunner.dispatch(raw=DispatchContext(tools=[verses]), executor_callback=callback)

    assert shown[0] == {}
    assert "artifact_grep" in shown[1]
    assert shown[1] == shown[2] == shown[3]


@pytest.mark.slow
@pytest.mark.one_loop
async def test_work_of_an_iteration_does_not_grow_with_the_calls_before_it() -> None:
    begun: list[int] = []

    @tool(artifact_constructor=Artifact)
    async def write(number: int) -> str:
        """Write."""
        return f"a line\nand line {number}"

    async def callback(ctx: DispatchContext) -> Reply:
        begun.append(calls.count)
        at = ctx.iteration
        reads = Call(f"r{at}", "artifact_grep", {"call_id": "c0", "pattern": f"line|{at}"})
        writes = Call(f"c{at}", "write", {"number": at})
        return Reply("done") if at == 60 else Reply("Wait.", [writes] if at == 0 else [writes, reads])

    with counted_calls() as calls:
        ctx = DispatchContext(tools=[write])
        await DispatchRunner.dispatch(raw=ctx, executor_callback=callback, max_iterations=None)

    assert not any(call.is_error for call in ctx.tool_calls)
    work = [after - before for before, after in pairwise(begun)]
    assert max(work[-10:]) <= 1.1 * max(work[5:15])


async def test_readers_for_text_can_be_shown_from_the_first_iteration_on() -> None:
    shown: list[list[bytes]] = []

    @tool(artifact_constructor=JsonArtifact)
    async def table() -> str:
        """Return a table."""
        return "[1, 2]"

    async def callback(ctx: DispatchContext) -> str | list[Call]:
        shown.append([json.dumps(each).encode() for each in ctx.tools.to_definitions()])
        script = [
            [Call("r", "artifact_head", {"call_id": "c"})],
            [Call("c", "verses", {"count": 9000})],
            [Call("t", "table")],
        ]
        return "done" if ctx.iteration == 3 else script[ctx.iteration]

    report = await TurnRunner(executor_callback=callback, tools=[verses, table], readers="always").run()

    assert report.ok
    assert [call.is_error for call in report.tool_calls] == [True, False, False]
    assert b"artifact_head" in b"".join(shown[0])
    assert b"artifact_json" not in b"".join(shown[0])
    assert shown[0] == shown[1] == shown[2] == shown[3][: len(shown[0])]
    assert b"artifact_json" in b"".join(shown[3])


async def test_readers_that_are_always_shown_are_unregistered_on_ack() -> None:
    ctx, model = DispatchContext(tools=[echo]), ScriptedModel("done")
    await DispatchRunner.dispatch(raw=ctx, executor_callback=model, readers="always")

    assert "artifact_grep" in model.seen[0]
    assert [each.name for each in ctx.tools] == ["echo"]


async def test_reader_rejects_an_unknown_id_and_names_the_newest_ones() -> None:
    stored = [Call(f"c{n}", "verses", {"count": 9000 + n}) for n in range(30)]
    _, ctx = await dispatch(stored, [Call("r", "artifact_head", {"call_id": "elsewhere"})], "done")

    refused = ctx.tool_calls[-1]
    assert refused.is_error
    assert "'c29', 'c28'" in str(refused.results)
    assert "10 others" in str(refused.results)


async def test_reader_stays_registered_after_its_retrievable_is_deleted() -> None:
    async def forget(ctx: DispatchContext, proceed: Any) -> None:
        await ctx.delete_retrievable("r1")
        await proceed()

    model = ScriptedModel(Call("c1", "echo", {"text": "x"}), "done")
    found = Retrievable(id="r1", content="a text", trust_tier="first-party")
    ctx = DispatchContext(tools=[echo], retrievables=[found])
    await DispatchRunner.dispatch(raw=ctx, executor_callback=model, dispatch_output_pipeline=[forget])

    assert ctx.retrievables == ()
    assert "artifact_head" in model.seen[0]
    assert model.seen[0] == model.seen[1]


async def test_readers_stay_registered_after_a_nack() -> None:
    ctx = DispatchContext(tools=[verses])
    model = ScriptedModel(Call("c1", "verses", {"count": 9000}), lambda ctx: ctx.nack())  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]

    with pytest.raises(NackError):
        await DispatchRunner.dispatch(raw=ctx, executor_callback=model)

    assert any(isinstance(each, ReaderTool) for each in ctx.tools)


async def test_loop_does_not_unregister_ephemeral_tools_of_the_user() -> None:
    @tool(ephemeral=True)
    def mine() -> str:
        """Be mine."""
        return "mine"

    _, ctx = await dispatch([Call("c1", "mine")], "done", tools=[mine])

    assert ctx.tools.has("mine")
    assert not ctx.tool_calls[0].is_error


async def test_user_tool_with_the_name_of_a_reader_is_kept() -> None:
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
    assert Message.of(ctx.messages[-1]).content == "42"


async def test_iterations_are_limited() -> None:
    with pytest.raises(LimitError) as caught:
        await dispatch(*[lambda ctx: None] * 9, max_iterations=3)  # pyright: ignore[reportUnknownLambdaType]

    assert caught.value.field == "max_iterations"


async def test_repeated_call_causes_a_warning_and_then_a_limit_error() -> None:
    events, seen = recording("warning")
    script = [[Call(f"c{i}", "echo", {"text": "again"})] for i in range(9)]

    with pytest.raises(LimitError) as caught:
        await dispatch(*script, context={"events": events}, max_repeats=3)

    assert caught.value.field == "max_repeats"
    assert seen == ["warning"]


async def test_abort_cancels_running_calls_and_each_has_an_outcome() -> None:
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


async def test_callback_that_ignores_an_abort_is_cancelled_after_the_grace_period() -> None:
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


async def test_dispatch_requires_exactly_one_of_source_and_raw() -> None:
    neither: dict[str, Any] = {}
    both: dict[str, Any] = {"source": TurnContext(), "raw": DispatchContext()}
    for given in (neither, both):
        with pytest.raises(InvalidDispatchInputError):
            await DispatchRunner.dispatch(executor_callback=ScriptedModel("x"), **given)


async def test_dispatch_shares_registry_and_stash_with_its_turn() -> None:
    turn = TurnContext(tools=ToolRegistry([echo]), stash={"a": 1})

    def look(ctx: DispatchContext) -> str:
        ctx.stash.set("b", 2)
        ctx.tools.register(verses)
        return f"{ctx.stash.get('a')} {ctx.turn_id == turn.id}"

    report = await DispatchRunner.dispatch(source=turn, executor_callback=ScriptedModel(look))

    assert report.text == "1 True"
    assert turn.stash.get("b") == 2
    assert turn.tools.has("verses")


async def test_abort_keeps_the_outcomes_of_finished_calls() -> None:
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


async def test_output_middleware_without_next_raises_also_after_a_final_answer() -> None:
    async def forget(_ctx: Any, _next: Any) -> None: ...

    with pytest.raises(PipelineShortCircuitedError) as caught:
        await dispatch("done", dispatch_output_pipeline=[forget])

    assert caught.value.field == "dispatch-output"


async def test_secret_fields_are_masked_in_tool_call_events() -> None:
    @tool(secret_fields=["password"])
    async def login(user: str, password: str) -> str:
        """Log in."""
        return f"{user}{len(password)}"

    events, reported = Events(), list[Any]()
    events.on("tool_call", reported.append)
    secret = {"user": "ada", "password": "correct horse"}

    async def callback(_ctx: Any, helpers: Any) -> str:
        helpers.report_tool_call("c1", tool="login", args='{"user": "ada", "password": "corr')
        helpers.report_tool_call("c1", args=secret)
        return "done"

    await DispatchRunner.dispatch(raw={"tools": [login], "events": events}, executor_callback=callback)

    assert [delta.args for delta in reported] == ["***", {"user": "ada", "password": "***"}]
    assert reported[1].checksum == checksum("login", secret)


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
async def test_dispatch_names_the_invalid_setting(field: str, settings: dict[str, Any]) -> None:
    given: dict[str, Any] = {"raw": {}, "executor_callback": ScriptedModel("x")}

    with pytest.raises(InvalidDispatchInputError) as caught:
        await DispatchRunner.dispatch(**(given | settings))

    assert caught.value.field == field


@pytest.mark.parametrize("values", [{"system_prompt": 5}, {"turn_id": 5}, {"tool_calls": [5]}])
def test_context_names_the_invalid_argument(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidDispatchContextError) as caught:
        DispatchContext(**values)

    assert caught.value.field in values


async def test_error_of_our_own_tree_raised_in_a_callback_is_not_wrapped() -> None:
    original = ModelUnavailableError("no complete response", http_status=503, attempts=3)

    with pytest.raises(ModelUnavailableError) as caught:
        await dispatch(original)

    assert caught.value is original


async def test_abort_of_a_dispatch_releases_its_gates_at_once() -> None:
    errors: list[BaseException] = []
    ctx = DispatchContext()
    ctx.events.on("turn_gate_open", lambda _info: ctx.abort())

    async def callback(ctx: DispatchContext) -> str:
        try:
            return await ctx.wait_for(Gate("may I?", timeout_seconds=1000))
        except GateAbortedError as error:
            errors.append(error)
            raise

    with anyio.fail_after(30):
        report = await DispatchRunner.dispatch(raw=ctx, executor_callback=callback, abort_grace_seconds=1000)

    assert report.status == "aborted"
    assert len(errors) == 1


async def test_turn_may_open_gates_after_its_dispatch_was_aborted() -> None:
    answers: list[str] = []

    async def callback(ctx: DispatchContext) -> None:
        ctx.abort()

    async def ask(ctx: TurnContext, next: Any) -> None:
        await next()
        answers.append(await ctx.wait_for(Gate("after the end", id="g", timeout_seconds=1000)))

    runner = TurnRunner(executor_callback=callback, turn_output_pipeline=[ask])
    runner.on("turn_gate_open", lambda info: runner.gates.resolve(info.id, "yes"))
    with anyio.fail_after(30):
        await runner.run()

    assert answers == ["yes"]
