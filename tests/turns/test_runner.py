"""A whole turn: its stages, its events, its report."""

import gc
import tracemalloc
import weakref
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import anyio
import pytest

from spindle import Call, DispatchContext, Gate, Reply, ToolContext, TurnContext, TurnReport, TurnRunner, tool
from spindle.errors import (
    GateAbortedError,
    InputPipelineError,
    InvalidTurnContextError,
    InvalidTurnRunnerConfigError,
    LimitError,
    NackError,
    OutputPipelineError,
    ToolAlreadyRegisteredError,
    TurnAbortedError,
)
from spindle.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Echo a text."""
    return text


def listen(runner: TurnRunner, *names: str) -> list[tuple[str, Any]]:
    seen: list[tuple[str, Any]] = []
    for name in names:
        runner.on(name, lambda payload, name=name: seen.append((name, payload)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return seen


async def test_turn_returns_a_report() -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "echo", {"text": "a"}), "done"), tools=[echo])

    report = await runner.run(system_prompt="Be brief.", messages=[], stash={"k": 1})

    assert isinstance(report, TurnReport)
    assert (report.status, report.text, report.iterations, report.error) == ("ok", "done", 2, None)
    assert [call.id for call in report.tool_calls] == ["c1"]
    assert report.started_at <= report.ended_at
    assert report.duration_ms >= 0
    assert report.raise_for_error() is report


async def test_stages_and_events_come_in_order_and_carry_one_turn_id() -> None:
    order: list[str] = []

    def layer(name: str) -> Any:
        async def middleware(ctx: Any, next: Any) -> None:
            order.append(name)
            await next()

        return middleware

    runner = TurnRunner(
        executor_callback=ScriptedModel(Call("c1", "echo", {"text": "a"}), "done"),
        tools=[echo],
        turn_input_pipeline=[layer("turn in")],
        turn_output_pipeline=[layer("turn out")],
        dispatch_input_pipeline=[layer("in")],
        dispatch_output_pipeline=[layer("out")],
    )
    names = ["turn_start", "dispatch_start", "iteration_start", "tool_execution_start", "tool_execution_end"]
    names += ["iteration_end", "dispatch_end", "turn_end"]
    seen = listen(runner, *names)
    report = await runner.run()

    assert order == ["turn in", "in", "out", "in", "out", "turn out"]
    assert [name for name, _ in seen] == [
        "turn_start",
        "dispatch_start",
        "iteration_start",
        "tool_execution_start",
        "tool_execution_end",
        "iteration_end",
        "iteration_start",
        "iteration_end",
        "dispatch_end",
        "turn_end",
    ]
    assert {payload.turn_id for _, payload in seen} == {report.turn_id}


@pytest.mark.parametrize(
    ("settings", "status", "kind"),
    [
        ({"turn_input_pipeline": True}, "error", InputPipelineError),
        ({"turn_output_pipeline": True}, "error", OutputPipelineError),
    ],
)
async def test_failing_middleware_ends_in_a_report(settings: Any, status: str, kind: type[Exception]) -> None:
    async def broken(ctx: Any, next: Any) -> None:
        raise LookupError("mine")

    pipelines: Any = {name: [broken] for name in settings}
    runner = TurnRunner(executor_callback=ScriptedModel("done"), **pipelines)
    seen = listen(runner, "error", "turn_end")
    report = await runner.run()

    assert report.status == status
    assert isinstance(report.error, kind)
    assert isinstance(report.error.__cause__, LookupError)
    assert [name for name, _ in seen] == ["error", "turn_end"]
    with pytest.raises(kind):
        report.raise_for_error()


async def test_nack_is_reported_as_status_and_skips_the_output_pipeline() -> None:
    skipped: list[str] = []

    async def output(ctx: Any, next: Any) -> None:
        skipped.append("no")
        await next()

    error = ValueError("not today")
    runner = TurnRunner(
        executor_callback=ScriptedModel(lambda ctx: ctx.nack(error)),  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
        turn_output_pipeline=[output],
    )
    report = await runner.run()

    assert (report.status, report.error, skipped) == ("nack", error, [])


async def test_reached_limit_is_reported_as_status() -> None:
    nothing: list[Any] = [lambda ctx: None] * 9  # pyright: ignore[reportUnknownLambdaType]
    looping = TurnRunner(executor_callback=ScriptedModel(*nothing), max_iterations=2)
    assert (await looping.run()).status == "limit"

    async def forever(ctx: Any) -> None:
        await anyio.sleep_forever()

    slow = TurnRunner(executor_callback=forever, timeout_seconds=0.01)
    with anyio.fail_after(30):
        report = await slow.run()
    assert report.status == "limit"
    assert isinstance(report.error, LimitError)
    assert report.error.field == "timeout_seconds"


async def test_failed_turn_reports_iterations_and_usage() -> None:
    calls = [Call("c", "nobody")]
    replies = [Reply(calls=calls, usage={"input_tokens": 3}), Reply(calls=calls, usage={"input_tokens": 4})]
    limited = await TurnRunner(executor_callback=ScriptedModel(*replies), max_iterations=2).run()
    failed = await TurnRunner(executor_callback=ScriptedModel(*replies)).run()

    assert (limited.status, limited.iterations, limited.usage) == ("limit", 2, {"input_tokens": 7})
    assert (failed.status, failed.iterations, failed.usage) == ("error", 2, {"input_tokens": 7})


async def test_abort_ends_the_turn_without_an_error_and_one_turn_end() -> None:
    async def stop(ctx: TurnContext, next: Any) -> None:
        ctx.abort()
        await next()

    runner = TurnRunner(executor_callback=ScriptedModel("never"), turn_input_pipeline=[stop])
    seen = listen(runner, "turn_end", "error", "dispatch_start")
    report = await runner.run()

    assert (report.status, report.error) == ("aborted", None)
    assert [name for name, _ in seen] == ["turn_end"]
    with pytest.raises(TurnAbortedError):
        report.raise_for_error()


async def test_turn_end_is_emitted_when_the_caller_is_cancelled() -> None:
    started = anyio.Event()

    async def forever(ctx: Any) -> None:
        started.set()
        await anyio.sleep_forever()

    runner = TurnRunner(executor_callback=forever)
    seen = listen(runner, "turn_end")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(runner.run)
            await started.wait()
            group.cancel_scope.cancel()

    assert len(seen) == 1


async def test_changes_of_a_turn_do_not_reach_the_baseline_or_other_turns() -> None:
    def edit(ctx: Any) -> str:
        names = [each.name for each in ctx.tools]
        ctx.tools.unregister("echo")
        ctx.stash.set("seen", True)
        return f"{names} {ctx.stash.get('seen', False)}"

    def look(ctx: Any) -> str:
        return f"{[each.name for each in ctx.tools]} {ctx.stash.get('seen', False)}"

    assert (await TurnRunner(executor_callback=ScriptedModel(edit), tools=[echo]).run()).text == "['echo'] True"
    runner = TurnRunner(executor_callback=ScriptedModel(lambda ctx: (edit(ctx), look(ctx))[1]), tools=[echo])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert [(await runner.run()).text for _ in range(2)] == ["[] True", "[] True"]


def test_duplicate_tools_are_refused_when_the_runner_is_built() -> None:
    with pytest.raises(ToolAlreadyRegisteredError):
        TurnRunner(executor_callback=ScriptedModel("x"), tools=[echo, echo])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("executor_callback", "x"),
        ("turn_input_pipeline", 5),
        ("dispatch_output_pipeline", ["x"]),
        ("tools", [5]),
        ("max_iterations", 0),
        ("max_iterations", True),
        ("max_repeats", "many"),
        ("readers", "never"),
        ("readers", []),
        ("timeout_seconds", 0),
        ("abort_grace_seconds", float("inf")),
        ("spool", "folder"),
        ("journal", "file.db"),
        ("records", 5),
        ("executor", 5),
        ("concurrency", 0),
    ],
)
def test_invalid_settings_are_named(field: str, value: Any) -> None:
    settings: dict[str, Any] = {"executor_callback": ScriptedModel("x")}
    with pytest.raises(InvalidTurnRunnerConfigError) as caught:
        TurnRunner(**(settings | {field: value}))

    assert caught.value.field == field


async def test_middleware_waiting_in_an_aborted_turn_is_not_a_failure() -> None:
    async def wait(ctx: TurnContext, next: Any) -> None:
        ctx.abort()
        await ctx.wait_for(Gate("May I?", timeout_seconds=None))

    runner = TurnRunner(executor_callback=ScriptedModel("x"), turn_input_pipeline=[wait])
    seen = listen(runner, "error", "turn_end")

    report = await runner.run()

    assert (report.status, report.error) == ("aborted", None)
    assert [name for name, _ in seen] == ["turn_end"]


async def test_nack_with_a_text_ends_the_turn_with_that_reason() -> None:
    report = await TurnRunner(executor_callback=ScriptedModel(lambda ctx: ctx.nack("not today"))).run()  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]

    assert report.status == "nack"
    assert isinstance(report.error, NackError)
    assert str(report.error) == "not today"


async def test_turn_with_an_invalid_argument_is_not_started() -> None:
    runner = TurnRunner(executor_callback=ScriptedModel("x"))
    seen = listen(runner, "turn_start")

    for bad in ({"system_prompt": 5}, {"stash": [1]}):
        with pytest.raises(InvalidTurnContextError):
            await runner.run(**bad)  # type: ignore[arg-type]

    assert seen == []


async def test_handler_waits_for_a_gate_that_is_settled_by_id() -> None:
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask a person."""
        answer = await ctx.wait_for(Gate("may I?", {"what": "delete"}, schema=bool, timeout_seconds=60))
        return f"the person said {answer}"

    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "ask"), "done"), tools=[ask])
    closed = listen(runner, "turn_gate_closed")
    runner.on("turn_gate_open", lambda info: runner.gates.resolve(info.id, True))
    with anyio.fail_after(30):
        report = await runner.run()

    assert report.tool_calls[0].results == "the person said True"
    assert len(closed) == 1


async def test_aborting_the_turn_releases_its_gates() -> None:
    errors: list[BaseException] = []
    turns: list[Any] = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask a person."""
        try:
            return str(await ctx.wait_for(Gate("may I?", timeout_seconds=None)))
        except GateAbortedError as error:
            errors.append(error)
            raise

    async def remember(ctx: TurnContext, next: Any) -> None:
        turns.append(ctx)
        await next()

    runner = TurnRunner(
        executor_callback=ScriptedModel(Call("c1", "ask"), "done"), tools=[ask], turn_input_pipeline=[remember]
    )
    runner.on("turn_gate_open", lambda info: turns[0].abort())
    with anyio.fail_after(30):
        report = await runner.run()

    assert report.status == "aborted"


async def test_stream_yields_the_events_of_its_turn_and_the_report_last() -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "echo", {"text": "a"}), "done"), tools=[echo])
    received = listen(runner, "message")

    with anyio.fail_after(30):
        events = [event async for event in runner.stream()]

    names = [event.name for event in events]
    assert names[0] == "turn_start"
    assert names[-1] == "report"
    assert events[-1].payload.text == "done"
    assert "message" in names
    assert [payload.full for _, payload in received] == ["done"]


async def test_leaving_a_stream_early_aborts_its_turn() -> None:
    async def forever(ctx: Any) -> None:
        await anyio.sleep_forever()

    runner = TurnRunner(executor_callback=forever, abort_grace_seconds=0.01)
    ended = listen(runner, "turn_end")

    with anyio.fail_after(30):
        async with aclosing(runner.stream()) as stream:
            async for event in stream:
                if event.name == "iteration_start":
                    break

    assert [payload.status for _, payload in ended] == ["aborted"]


async def test_hundred_concurrent_turns_are_isolated() -> None:
    def script(ctx: Any) -> Any:
        number = ctx.stash.get("number")
        return [Call("c1", "echo", {"text": f"{number}"})]

    def finish(ctx: Any) -> str:
        (call,) = ctx.tool_calls
        return f"{ctx.stash.get('number')}={call.results}"

    runner = TurnRunner(executor_callback=ScriptedModel(script, finish), tools=[echo])
    reports: dict[int, TurnReport] = {}

    async def one(number: int) -> None:
        reports[number] = await runner.run(stash={"number": number})

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)

    assert {number: report.text for number, report in reports.items()} == {n: f"{n}={n}" for n in range(100)}
    assert len({report.turn_id for report in reports.values()}) == 100


async def test_finished_turn_is_freed_without_garbage_collection() -> None:
    turns: list[weakref.ref[TurnContext]] = []

    async def answer(ctx: DispatchContext) -> str:
        turns.append(weakref.ref(ctx.turn))
        return "done"

    runner = TurnRunner(executor_callback=answer)
    gc.disable()
    try:
        report = await runner.run()
        assert report.ok
        assert [turn() for turn in turns] == [None]
    finally:
        gc.enable()


def many_tools() -> list[Any]:
    def make(number: int) -> Any:
        @tool(name=f"tool_{number}")
        async def echo(text: str, ctx: ToolContext) -> str:
            """Echo."""
            return f"{text} {ctx.stash.get('number')}"

        return echo

    return [make(number) for number in range(200)]


def request_own_tool(ctx: Any) -> list[Call]:
    number = ctx.stash.get("number")
    ctx.tools.unregister(f"tool_{(number + 1) % 200}")
    return [Call("c1", f"tool_{number % 200}", {"text": f"{number}"})]


def report_result(ctx: Any) -> str:
    assert len(ctx.tools) == 199
    return str(ctx.tool_calls[0].results)


async def run_many(runner: TurnRunner, turns: int) -> dict[int, str]:
    texts: dict[int, str] = {}

    async def one(number: int) -> None:
        texts[number] = (await runner.run(stash={"number": number})).text

    with anyio.fail_after(50):
        async with anyio.create_task_group() as group:
            for number in range(turns):
                group.start_soon(one, number)
    return texts


@pytest.mark.one_loop
@pytest.mark.parametrize("turns", [100, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_concurrent_turns_share_only_the_baseline(turns: int) -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(request_own_tool, report_result), tools=many_tools())

    assert await run_many(runner, turns) == {number: f"{number} {number}" for number in range(turns)}


@pytest.mark.slow
async def test_finished_turns_leave_no_memory() -> None:
    model = ScriptedModel(request_own_tool, report_result)
    runner = TurnRunner(executor_callback=model, tools=many_tools())
    held: list[int] = []
    tracemalloc.start()
    try:
        for _ in range(6):
            await run_many(runner, 200)
            model.seen.clear()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    # Python's free lists grow for some rounds; what turns leave behind grows in every round.
    assert min(after - before for before, after in pairwise(held)) / 200 < 100, "each turn leaves something behind"
