"""The arguments of `TurnRunner.run` and `stream`, and settings that middleware changes during a turn."""

import inspect
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import (
    Backends,
    Call,
    Capabilities,
    DispatchContext,
    Executor,
    Journal,
    Media,
    Ok,
    ToolContext,
    ToolFilter,
    ToolRegistry,
    TurnContext,
    TurnReport,
    TurnRunner,
    tool,
)
from spindle.capabilities import AttachmentsBackend
from spindle.errors import InvalidTurnContextError
from spindle.testing import ScriptedModel
from spindle.turns import Message

pytestmark = pytest.mark.anyio

WITH_ATTACHMENTS = Backends(attachments=AttachmentsBackend())


@tool
def where(*, ctx: ToolContext) -> str:
    """Return the working folder."""
    return str(ctx.working_dir)


@tool
def other() -> str:
    """Return a word."""
    return "other"


@tool(capabilities=Capabilities(attachments=["*"]))
async def attached(*, ctx: ToolContext) -> str:
    """List the attachments."""
    return " ".join([media.filename for media in await ctx.attachments.list()])


@tool(isolation="process")
def isolated(*, ctx: ToolContext) -> str:
    """Return the user that asks."""
    assert ctx.caller is not None
    return str(ctx.caller["user"])


def photo(name: str, id: str | None = None) -> Media:
    return Media.user_attachment(b"...", kind="image", mime_type="image/png", filename=name, id=id)


async def run(runner: TurnRunner, how: str, **arguments: Any) -> TurnReport:
    """Run one turn with `run`, or with `stream` to its report."""
    with anyio.fail_after(30):
        if how == "run":
            return await runner.run(**arguments)
        async with aclosing(runner.stream(**arguments)) as stream:
            return [event async for event in stream][-1].payload


both = pytest.mark.parametrize("how", ["run", "stream"])


def results(report: TurnReport) -> list[Any]:
    return [call.results for call in report.tool_calls]


def test_run_and_stream_take_the_same_parameters() -> None:
    assert inspect.signature(TurnRunner.run).parameters == inspect.signature(TurnRunner.stream).parameters


@both
async def test_dry_run_of_a_turn_describes_its_calls(how: str) -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "other"), "done"), tools=[other])

    report = await run(runner, how, dry_run=True)

    assert "[dry-run]" in results(report)[0]


@both
async def test_working_dir_of_a_turn_reaches_its_calls(how: str, tmp_path: Path) -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "where"), "done"), tools=[where])

    report = await run(runner, how, working_dir=tmp_path)

    assert results(report) == [str(tmp_path)]


@both
async def test_filter_of_a_turn_holds_for_shown_and_for_runnable_tools(how: str) -> None:
    model = ScriptedModel([Call("c1", "where"), Call("c2", "other")], "done")
    runner = TurnRunner(executor_callback=model, tools=[where, other])

    report = await run(runner, how, filter=ToolFilter(allowed_tools=["other"]))

    assert [call.code for call in report.tool_calls] == ["not_available", None]
    assert model.seen[0] == ["other"]


@both
async def test_attachments_of_a_turn_and_of_its_user_reach_the_tools(how: str) -> None:
    model = ScriptedModel(Call("c1", "attached"), "done")
    runner = TurnRunner(executor_callback=model, tools=[attached], backends=WITH_ATTACHMENTS)
    messages = [
        Message.user("look", attachments=(photo("user.png"),)),
        Message.assistant("I drew this", attachments=(photo("model.png"),)),
        {"role": "user", "content": "and this", "attachments": [photo("mapping.png")]},
        "a plain text",
    ]

    report = await run(runner, how, messages=messages, attachments=[photo("given.png")])

    assert results(report) == ["given.png user.png mapping.png"]


async def test_an_attachment_passed_twice_is_listed_once() -> None:
    media = photo("cat.png", id="cat")
    runner = TurnRunner(
        executor_callback=ScriptedModel(Call("c1", "attached"), "done"), tools=[attached], backends=WITH_ATTACHMENTS
    )

    report = await runner.run(messages=[Message.user("look", attachments=(media,))], attachments=[media])

    assert results(report) == ["cat.png"]


async def test_attachments_of_a_message_that_middleware_stores_reach_the_tools() -> None:
    async def attach(ctx: DispatchContext, next: Any) -> None:
        if ctx.iteration == 1:
            await ctx.turn.records.message.store(Message.user("more", attachments=(photo("late.png"),)))
        await next()

    runner = TurnRunner(
        executor_callback=ScriptedModel(Call("c1", "attached"), Call("c2", "attached"), "done"),
        tools=[attached],
        backends=WITH_ATTACHMENTS,
        dispatch_input_pipeline=[attach],
    )

    assert results(await runner.run()) == ["", "late.png"]


@both
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dry_run", "no"),
        ("working_dir", 3),
        ("filter", ["other"]),
        ("attachments", ["cat.png"]),
        ("attachments", 3),
        ("cancel", 3),
        ("cancel", threading.Event()),
        ("session_id", 3),
        ("system_prompt", 3),
        ("messages", "Hello"),
        ("messages", {"role": "user", "content": "Hello"}),
        ("messages", 3),
    ],
)
async def test_invalid_argument_of_a_turn_is_refused_before_it_starts(how: str, field: str, value: object) -> None:
    runner = TurnRunner(executor_callback=ScriptedModel("done"))
    started: list[Any] = []
    runner.on("turn_start", started.append)

    with pytest.raises(InvalidTurnContextError) as raised:
        await run(runner, how, **{field: value})

    assert raised.value.field == field
    assert started == []


async def test_two_attachments_with_one_id_are_refused() -> None:
    with pytest.raises(InvalidTurnContextError):
        await TurnRunner(executor_callback=ScriptedModel("done")).run(
            attachments=[photo("a.png", id="x"), photo("b.png", id="x")]
        )


@both
async def test_cancel_aborts_a_running_turn(how: str) -> None:
    cancel = anyio.Event()

    async def callback(ctx: DispatchContext) -> None:
        cancel.set()
        await anyio.sleep_forever()

    runner = TurnRunner(executor_callback=callback, abort_grace_seconds=0)

    report = await run(runner, how, cancel=cancel)

    assert report.status == "aborted"


@both
async def test_cancel_releases_a_running_tool(how: str) -> None:
    cancel = anyio.Event()

    @tool
    async def hang() -> str:
        """Never return."""
        cancel.set()
        await anyio.sleep_forever()
        return ""

    runner = TurnRunner(executor_callback=ScriptedModel(Call("c1", "hang"), "done"), tools=[hang])

    report = await run(runner, how, cancel=cancel)

    assert report.status == "aborted"
    assert [call.code for call in report.tool_calls] == ["cancelled"]


@both
async def test_turn_that_is_cancelled_before_it_starts_never_asks_the_model(how: str) -> None:
    cancel, model = anyio.Event(), ScriptedModel("done")
    cancel.set()

    report = await run(TurnRunner(executor_callback=model), how, cancel=cancel)

    assert (report.status, model.seen) == ("aborted", [])


async def test_any_object_with_an_async_wait_cancels_a_turn() -> None:
    class Signal:
        async def wait(self) -> int:
            await anyio.lowlevel.checkpoint()
            return 7

    async def forever(ctx: DispatchContext) -> None:
        await anyio.sleep_forever()

    report = await run(TurnRunner(executor_callback=forever, abort_grace_seconds=0), "run", cancel=Signal())

    assert report.status == "aborted"


async def test_cancel_signal_that_fails_aborts_the_turn_with_a_warning() -> None:
    class Broken:
        async def wait(self) -> None:
            raise OSError("gone")

    async def forever(ctx: DispatchContext) -> None:
        await anyio.sleep_forever()

    runner, warnings = TurnRunner(executor_callback=forever, abort_grace_seconds=0), list[Any]()
    runner.on("warning", warnings.append)

    report = await run(runner, "run", cancel=Broken())

    assert report.status == "aborted"
    assert [(each.source, type(each.error)) for each in warnings] == [("cancel", OSError)]


async def test_cancel_signal_is_no_longer_awaited_after_the_turn() -> None:
    left = anyio.Event()

    class Signal:
        async def wait(self) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                left.set()

    async def callback(ctx: DispatchContext) -> str:
        await anyio.lowlevel.checkpoint()
        return "done"

    report = await run(TurnRunner(executor_callback=callback), "run", cancel=Signal())
    with anyio.fail_after(30):
        await left.wait()

    assert report.status == "ok"


@pytest.mark.parametrize("of", ["dispatch", "turn"])
async def test_settings_of_dispatch_middleware_hold_from_the_next_batch_on(of: str, tmp_path: Path) -> None:
    async def change(ctx: DispatchContext, next: Any) -> None:
        settings = ctx if of == "dispatch" else ctx.turn
        settings.working_dir = tmp_path / str(ctx.iteration)
        settings.dry_run = ctx.iteration == 2
        await next()

    runner = TurnRunner(
        executor_callback=ScriptedModel(Call("a", "where"), Call("b", "where"), Call("c", "where"), "done"),
        tools=[where],
        dispatch_input_pipeline=[change],
        max_repeats=None,
    )

    report = await runner.run()

    assert results(report)[:2] == [str(tmp_path / "0"), str(tmp_path / "1")]
    assert "[dry-run]" in results(report)[2]


async def test_settings_of_turn_middleware_hold_for_the_turn(tmp_path: Path) -> None:
    async def change(ctx: TurnContext, next: Any) -> None:
        ctx.working_dir, ctx.filter = tmp_path, ToolFilter(allowed_tools=["where"])
        await next()

    model = ScriptedModel([Call("a", "where"), Call("b", "other")], "done")
    runner = TurnRunner(executor_callback=model, tools=[where, other], turn_input_pipeline=[change])

    report = await runner.run()

    assert results(report)[0] == str(tmp_path)
    assert report.tool_calls[1].code == "not_available"


async def test_a_running_batch_keeps_the_settings_it_started_with(tmp_path: Path) -> None:
    started, changed = anyio.Event(), anyio.Event()

    @tool
    async def slow(*, ctx: ToolContext) -> str:
        """Return the working folder after a change."""
        started.set()
        await changed.wait()
        return f"{ctx.working_dir} {ctx.dry_run}"

    ctx = DispatchContext(tools=[slow], working_dir=tmp_path)
    outcomes: list[Any] = []

    async def execute() -> None:
        outcomes.extend(await Executor(ctx.tools).execute_parallel([Call("c1", "slow")], ctx))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(execute)
            await started.wait()
            ctx.working_dir, ctx.dry_run = "elsewhere", True
            ctx.tool_context()
            changed.set()

    assert outcomes[0].result.value == f"{tmp_path} False"


@pytest.mark.parametrize("of", ["dispatch", "turn"])
async def test_tools_assigned_in_dispatch_middleware_are_shown_and_runnable(of: str) -> None:
    async def replace(ctx: DispatchContext, next: Any) -> None:
        if ctx.iteration == 1:
            (ctx if of == "dispatch" else ctx.turn).tools = ToolRegistry([other])
        await next()

    model = ScriptedModel([Call("a", "where"), Call("b", "other")], [Call("c", "where"), Call("d", "other")], "done")
    runner = TurnRunner(executor_callback=model, tools=[where], dispatch_input_pipeline=[replace])

    report = await runner.run()

    assert [call.code for call in report.tool_calls] == [None, "not_available", "not_available", None]
    assert model.seen[:2] == [["where"], ["other"]]


async def test_tools_merged_inside_a_callback_are_runnable_in_that_iteration() -> None:
    async def callback(ctx: DispatchContext) -> Any:
        if ctx.iteration:
            return "done"
        ctx.tools = ToolRegistry.merge([ctx.tools, ToolRegistry([other])])
        return [Call("a", "where"), Call("b", "other")]

    report = await TurnRunner(executor_callback=callback, tools=[where]).run()

    assert [call.code for call in report.tool_calls] == [None, None]


async def test_tools_assigned_as_a_list_become_the_registry_of_the_turn() -> None:
    async def replace(ctx: TurnContext, next: Any) -> None:
        ctx.tools = [other]
        await next()

    model = ScriptedModel(Call("a", "other"), "done")
    report = await TurnRunner(executor_callback=model, tools=[where], turn_input_pipeline=[replace]).run()

    assert results(report) == ["other"]


async def test_readers_stay_when_tools_are_replaced_and_never_enter_the_assigned_registry() -> None:
    @tool(max_result_chars=10)
    def long() -> str:
        """Return a long text."""
        return "line\n" * 100

    shared = ToolRegistry([other])
    shown: list[list[str]] = []

    async def callback(ctx: DispatchContext) -> Any:
        if ctx.iteration == 0:
            return [Call("a", "long")]
        if ctx.iteration == 1:
            ctx.tools = shared
            shown.append([each.name for each in ctx.tools])
            return [Call("b", "artifact_line_count", {"call_id": "a"}), Call("c", "long")]
        ctx.abort()
        return None

    report = await TurnRunner(executor_callback=callback, tools=[long]).run()

    assert [call.code for call in report.tool_calls] == [None, None, "not_available"]
    assert "artifact_line_count" in shown[0]
    assert [each.name for each in shared] == ["other"]


CALLER = {"user": "ada", "roles": ["admin"]}


@both
async def test_caller_reaches_contexts_events_journal_and_approvals(how: str) -> None:
    asked: list[Any] = []
    events: list[Any] = []

    @tool(requires_approval=True)
    def whoami(*, ctx: ToolContext) -> str:
        """Return the caller."""
        return str(ctx.caller)

    def approve(request: Any) -> bool:
        asked.append((request.caller, request.ctx.caller))
        return True

    async def note(ctx: Any, next: Any) -> None:
        events.append((type(ctx).__name__, ctx.caller))
        await next()

    journal = Journal.memory()
    runner = TurnRunner(
        executor_callback=ScriptedModel([Call("a", "whoami"), Call("b", "unknown")], "done"),
        tools=[whoami],
        approve=approve,
        journal=journal,
        turn_input_pipeline=[note],
        dispatch_output_pipeline=[note],
    )
    names = ["turn_start", "dispatch_start", "tool_execution_start", "tool_execution_end", "dispatch_end", "turn_end"]
    for name in names:
        runner.on(name, lambda payload, name=name: events.append((name, payload.caller)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    report = await run(runner, how, caller=CALLER)

    assert results(report)[0] == str({"roles": ["admin"], "user": "ada"})
    assert asked == [(CALLER, CALLER)]
    assert {name for name, _ in events} == {*names, "TurnContext", "DispatchContext"}
    assert all(caller == CALLER for _, caller in events)
    assert [(entry.tool, entry.caller) for entry in await journal.list()] == [("unknown", CALLER), ("whoami", CALLER)]


async def test_a_tool_cannot_change_the_caller_of_others() -> None:
    @tool
    def pretend(*, ctx: ToolContext) -> str:
        """Change the caller."""
        assert ctx.caller is not None
        ctx.caller["user"] = "root"
        return str(ctx.caller["user"])

    given = {"user": "ada"}

    async def callback(ctx: DispatchContext) -> Any:
        given["user"] = "root"
        return "done" if ctx.iteration else [Call("a", "pretend")]

    report = await TurnRunner(executor_callback=callback, tools=[pretend]).run(caller=given)

    assert results(report) == ["ada"]


async def test_caller_reaches_a_handler_in_a_process() -> None:
    executor = Executor(ToolRegistry([isolated]))

    [outcome] = await executor.execute_parallel([Call("a", "isolated")], ToolContext(caller=CALLER))

    assert outcome.result == Ok("ada")


@both
@pytest.mark.parametrize("caller", ["ada", ["ada"], {"user": object()}, {1: "ada"}, {"score": float("nan")}])
async def test_caller_that_is_not_a_json_mapping_is_refused(how: str, caller: object) -> None:
    with pytest.raises(InvalidTurnContextError) as raised:
        await run(TurnRunner(executor_callback=ScriptedModel("done")), how, caller=caller)

    assert raised.value.field == "caller"
