"""Turns that are suspended where a person must answer, and continued by another runner; over every journal."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle import (
    Artifact,
    Budget,
    Call,
    DispatchContext,
    Err,
    Executor,
    Gate,
    Journal,
    Media,
    Ok,
    Reply,
    Spool,
    ToolContext,
    ToolFilter,
    ToolRegistry,
    TurnContext,
    TurnRunner,
    blocking,
    tool,
)
from spindle.errors import InvalidTurnRunnerConfigError, LimitError, TurnSuspendedError, UnsavableTurnError
from spindle.execution import ApprovalRequest
from spindle.testing import ScriptedModel
from spindle.turns import Message, Retrievable, Thought
from tests.journal.conftest import Place, place
from tests.turns.suspended_scene import KEY, LOOK, PAY, Shop, results, waits

pytestmark = pytest.mark.anyio
__all__ = ["place"]


async def test_a_call_that_needs_approval_suspends_the_turn_after_its_siblings(place: Place) -> None:
    shop = Shop(place.journal(), [PAY, LOOK], "done")

    report = await shop.run()

    assert shop.ran == ["look tea"]
    assert report.status == "suspended"
    assert (report.text, report.error, report.iterations) == ("", None, 0)
    assert results(report) == [("c2", "saw tea")]
    assert report.state is not None
    [asked] = report.state["pending"]
    assert (asked["kind"], asked["tool"], asked["tool_call_id"], asked["args"]) == ("approval", "pay", "c1", PAY.args)
    with pytest.raises(TurnSuspendedError):
        report.raise_for_error()


async def test_an_approved_turn_continues_in_another_runner(place: Place) -> None:
    shop = Shop(
        place.journal(), Reply("let me see", [PAY, LOOK], usage={"tokens": 3}), Reply("done", usage={"tokens": 4})
    )
    report = await shop.run()
    [ticket] = waits(report)

    ended = await shop.resume(report.state, {ticket: True})

    assert (ended.status, ended.text, ended.turn_id, ended.iterations) == ("ok", "done", report.turn_id, 2)
    assert results(ended) == [("c1", "paid 5"), ("c2", "saw tea")]
    assert ended.usage == {"tokens": 7}
    assert [Message.of(each).content for each in ended.messages] == ["go", "let me see", "done"]
    assert shop.ran == ["look tea", "pay 5"]


async def test_the_model_sees_the_denial_of_a_call(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()

    ended = await shop.resume(report.state, {waits(report)[0]: False})

    assert [(record.code, record.is_error) for record in ended.tool_calls] == [("denied", True)]
    assert (ended.status, shop.ran) == ("ok", [])


async def test_edited_arguments_are_what_runs_and_what_is_recorded(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()
    answer = {"approved": True, "args": {"amount": 3}, "by": "ann"}

    ended = await shop.resume(report.state, {waits(report)[0]: answer})

    assert shop.ran == ["pay 3"]
    assert [record.args for record in ended.tool_calls] == [{"amount": 3}]


async def test_invalid_edited_arguments_leave_the_turn_suspended(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()
    [ticket] = waits(report)

    again = await shop.resume(report.state, {ticket: {"approved": True, "args": {"amount": "much"}}})

    assert waits(again) == [ticket]
    assert again.state is not None
    assert "amount" in again.state["pending"][0]["problem"]
    assert (await shop.resume(again.state, {ticket: True})).text == "done"


async def test_some_of_the_answers_give_a_new_state(place: Place) -> None:
    calls = [Call(f"c{number}", "pay", {"amount": number}) for number in range(3)]
    shop = Shop(place.journal(), calls, "done")
    report = await shop.run()
    first, second, third = waits(report)

    partial = await shop.resume(report.state, {second: True})
    assert waits(partial) == [first, third]
    assert results(partial) == [("c1", "paid 1")]
    ended = await shop.resume(partial.state, {first: False, third: True})

    assert (ended.status, shop.ran) == ("ok", ["pay 1", "pay 2"])
    assert [(record.id, record.is_error) for record in ended.tool_calls] == [("c0", True), ("c1", False), ("c2", False)]


async def test_a_ticket_that_was_answered_elsewhere_needs_no_answer(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()
    elsewhere = Executor(ToolRegistry(shop.tools), journal=place.journal(), state_key=KEY)
    await elsewhere.resume(waits(report)[0], by="ann")

    ended = await shop.resume(report.state)

    assert (ended.status, results(ended), shop.ran) == ("ok", [("c1", "paid 5")], ["pay 5"])


async def test_an_answer_that_contradicts_the_recorded_one_is_not_used(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")
    report = await shop.run()
    [ticket] = waits(report)
    await Executor(ToolRegistry(shop.tools), journal=place.journal(), state_key=KEY).resume(ticket, approved=False)

    ended = await shop.resume(report.state, {ticket: True})

    assert ([record.code for record in ended.tool_calls], shop.ran) == (["denied"], [])


async def test_an_expired_ticket_is_replaced_by_a_new_one(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done", ticket_ttl_seconds=0.01)
    report = await shop.run()
    await anyio.sleep(0.02)
    shop.settings["ticket_ttl_seconds"] = 60

    again = await shop.resume(report.state, {waits(report)[0]: True})

    assert waits(again) != waits(report)
    assert (await shop.resume(again.state, {waits(again)[0]: True})).status == "ok"
    assert shop.ran == ["pay 5"]


async def test_a_tool_that_has_changed_is_not_run(place: Place) -> None:
    shop = Shop(place.journal(), [PAY, Call("c2", "confirm", {"question": "sure"})], "done")
    report = await shop.run()
    ticket, gate = waits(report)
    shop.tools = shop.build_tools(about="Another one.")

    ended = await shop.resume(report.state, {ticket: True, gate: True})

    assert [record.code for record in ended.tool_calls] == ["denied", "denied"]
    assert shop.ran == ["confirm sure"]


async def test_a_gate_restarts_its_handler_with_the_answer(place: Place) -> None:
    shop = Shop(place.journal(), [Call("c1", "ask", {"question": "tea"}), LOOK], "done")
    report = await shop.run()
    assert waits(report) == ["size"]
    assert report.state is not None
    asked = report.state["pending"][0]
    assert (asked["kind"], asked["reason"], asked["payload"]) == ("gate", "size?", {"of": "tea"})

    second = await shop.resume(report.state, {"size": 4})
    assert waits(second) == ["name"]
    ended = await shop.resume(second.state, {"name": "Ann"})

    assert results(ended) == [("c1", "tea: 4 Ann"), ("c2", "saw tea")]
    assert shop.ran == ["ask tea", "look tea", "ask tea", "ask tea"]


async def test_an_invalid_answer_keeps_the_gate_waiting(place: Place) -> None:
    shop = Shop(place.journal(), [Call("c1", "ask", {"question": "tea"})], "done")
    report = await shop.run()

    again = await shop.resume(report.state, {"size": "large"})

    assert waits(again) == ["size"]
    assert again.state is not None
    assert again.state["pending"][0]["problem"]
    assert waits(await shop.resume(again.state, {"size": 1})) == ["name"]


async def test_an_approved_call_may_wait_at_a_gate(place: Place) -> None:
    ran: list[int] = []

    @tool(requires_approval=True, idempotent=True)
    async def order(amount: int, *, ctx: ToolContext) -> str:
        """Order."""
        ran.append(amount)
        return f"{amount} {await ctx.wait_for(Gate('colour?', timeout_seconds=60, id='colour'))}"

    shop = Shop(place.journal(), [Call("c1", "order", {"amount": 5})], "done")
    shop.tools = [order]
    report = await shop.run()

    second = await shop.resume(report.state, {waits(report)[0]: {"approved": True, "args": {"amount": 2}}})
    assert waits(second) == ["colour"]
    ended = await shop.resume(second.state, {"colour": "red"})

    assert (results(ended), ran) == ([("c1", "2 red")], [2, 2])


async def test_equal_calls_wait_at_one_gate(place: Place) -> None:
    calls = [Call(call_id, "confirm", {"question": "sure"}) for call_id in ("c1", "c2")]
    shop = Shop(place.journal(), calls, "done")
    report = await shop.run()
    assert set(waits(report)) == {"confirm sure"}

    ended = await shop.resume(report.state, {"confirm sure": True})

    assert results(ended) == [("c1", "sure: True"), ("c2", "sure: True")]


@pytest.mark.parametrize("options", [{"idempotent": False}, {"idempotent": True, "id": None}])
async def test_a_gate_that_cannot_be_opened_again_waits(options: dict[str, Any]) -> None:
    gate_id = options.get("id", "colour")

    @tool(idempotent=options["idempotent"])
    async def choose(*, ctx: ToolContext) -> str:
        """Choose."""
        return await ctx.wait_for(Gate("colour?", timeout_seconds=60, id=gate_id))

    shop = Shop(Journal.memory(), [Call("c1", "choose")], "done")
    shop.tools = [choose]
    runner = shop.runner()
    runner.on("turn_gate_open", lambda gate: runner.gates.resolve(gate.id, "red"))

    report = await runner.run()

    assert (report.status, results(report)) == ("ok", [("c1", "red")])


async def test_a_gate_that_an_observer_answers_does_not_suspend() -> None:
    shop = Shop(Journal.memory(), [Call("c1", "confirm", {"question": "sure"})], "done")
    runner = shop.runner()
    closed: list[str] = []

    async def answer(gate: Any) -> None:
        await anyio.lowlevel.checkpoint()
        runner.gates.resolve(gate.id, value=True)

    runner.on("turn_gate_open", answer)
    runner.on("turn_gate_closed", lambda gate: closed.append(gate.result))

    report = await runner.run()

    assert (report.status, results(report), closed) == ("ok", [("c1", "sure: True")], ["resolved"])
    assert shop.ran == ["confirm sure"]


async def test_a_gate_inside_another_tool_waits(place: Place) -> None:
    @tool(idempotent=True)
    async def inner(*, ctx: ToolContext) -> str:
        """Wait."""
        return await ctx.wait_for(Gate("colour?", timeout_seconds=60, id="colour"))

    @tool
    async def outer(*, ctx: ToolContext) -> str:
        """Call the other one."""
        return str(await inner.executor(ctx)({}))

    shop = Shop(place.journal(), [Call("c1", "outer")], "done")
    shop.tools = [inner, outer]
    runner = shop.runner()
    runner.on("turn_gate_open", lambda gate: runner.gates.resolve(gate.id, "red"))

    assert results(await runner.run()) == [("c1", "red")]


async def test_a_gate_in_a_task_group_or_a_sync_handler_suspends(place: Place) -> None:
    @tool(idempotent=True)
    async def grouped(*, ctx: ToolContext) -> str:
        """Wait in a task group."""
        found: list[str] = []

        async def wait() -> None:
            found.append(await ctx.wait_for(Gate("colour?", timeout_seconds=60, id="colour")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(anyio.sleep, 0)
        return found[0]

    @tool(idempotent=True)
    def threaded(*, ctx: ToolContext) -> str:
        """Wait in a thread."""
        return blocking.run(ctx.wait_for, Gate("size?", timeout_seconds=60, id="size"))

    shop = Shop(place.journal(), [Call("c1", "grouped"), Call("c2", "threaded")], "done")
    shop.tools = [grouped, threaded]
    report = await shop.run()
    assert waits(report) == ["colour", "size"]

    ended = await shop.resume(report.state, {"colour": "red", "size": "L"})

    assert results(ended) == [("c1", "red"), ("c2", "L")]


async def test_every_run_of_a_turn_has_its_own_start_and_end_events(place: Place) -> None:
    shop = Shop(place.journal(), [PAY, Call("c2", "confirm", {"question": "sure"})], "done")
    seen: list[tuple[str, str | None]] = []

    def watched() -> TurnRunner:
        runner = shop.runner()
        names = ("turn_start", "dispatch_start", "iteration_start", "iteration_end", "dispatch_end", "turn_end")
        for name in (*names, "turn_gate_open", "turn_gate_closed"):
            runner.on(name, lambda event, name=name: seen.append((name, getattr(event, "status", None))))
        return runner

    report = await watched().run()
    assert seen == [
        ("turn_start", None),
        ("dispatch_start", None),
        ("iteration_start", None),
        ("turn_gate_open", None),
        ("turn_gate_closed", None),
        ("dispatch_end", "suspended"),
        ("turn_end", "suspended"),
    ]
    seen.clear()
    await watched().resume(report.state, dict.fromkeys(waits(report), True))

    assert seen == [
        ("turn_start", None),
        ("dispatch_start", None),
        ("iteration_start", None),
        ("iteration_end", None),
        ("iteration_start", None),
        ("iteration_end", None),
        ("dispatch_end", "ack"),
        ("turn_end", "ok"),
    ]


async def test_settings_stash_and_records_of_the_turn_are_kept(place: Place) -> None:
    seen: list[Any] = []

    def observe(ctx: DispatchContext) -> str:
        records = ctx.turn.records
        seen.append((ctx.stash.all(), ctx.working_dir, ctx.filter, ctx.caller, ctx.session_id, ctx.system_prompt))
        seen.append(([each.content for each in records.thought], [each.id for each in ctx.retrievables]))
        return "done"

    shop = Shop(place.journal(), [PAY, LOOK], observe)
    allowed = ToolFilter(allowed_tools=["pay", "look"], exclude_tools=["ask"], allowed_mcp_tools={"a": ["b"]})

    async def prepare(ctx: TurnContext, next: Any) -> None:
        seen.append("input")
        await ctx.records.thought.store(Thought(content="hm"))
        await ctx.store_retrievable(Retrievable(id="r1", content="a page", trust_tier="first-party"))
        await next()

    async def conclude(_ctx: TurnContext, next: Any) -> None:
        seen.append("output")
        await next()

    shop.settings |= {"turn_input_pipeline": [prepare], "turn_output_pipeline": [conclude]}
    report = await shop.run(
        stash={"a": {"b": [1, 2.5, None]}},
        working_dir="w",
        filter=allowed,
        caller={"u": 1},
        session_id="s",
        system_prompt="p",
    )
    assert seen == ["input"]
    ended = await shop.resume(report.state, {waits(report)[0]: True})

    assert ended.status == "ok"
    stash = {"a": {"b": [1, 2.5, None]}, "seen": {"tea": "c2"}}
    assert seen[1:] == [(stash, "w", allowed, {"u": 1}, "s", "p"), (["hm"], ["r1"]), "output"]


async def test_artifacts_and_media_are_read_from_the_spool_again(place: Place) -> None:
    @tool
    async def poem() -> str:
        """Recite."""
        return "\n".join(f"line {number}" for number in range(5_000))

    @tool
    async def draw() -> list[Media]:
        """Draw."""
        facts: dict[str, Any] = {"kind": "image", "mime_type": "image/png", "filename": "a.png"}
        return [Media.tool_generated(b"PNG", **facts), Media.tool_generated(b"PNG2", **facts)]

    @tool
    async def own() -> Artifact:
        """Return an artifact."""
        return Artifact.from_text("own\ntext")

    first = [Call("a1", "poem"), Call("a2", "draw"), Call("a3", "own")]
    script = (first, [PAY], Call("a4", "artifact_tail", {"call_id": "a1", "n": 1}), "done")
    shop = Shop(place.journal(), *script, spool=Spool.memory(), budget=Budget(chars=1_000))
    shop.tools += [poem, draw, own]
    attached = Media.user_attachment(b"PDF", kind="document", mime_type="application/pdf", filename="a.pdf")
    report = await shop.run(messages=[Message.user("see", attachments=(attached,)), {"role": "user", "content": "m"}])

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    records = {record.id: record.results for record in ended.tool_calls}
    assert await records["a1"].line_count() == 5_000
    assert [await each.as_bytes() for each in records["a2"]] == [b"PNG", b"PNG2"]
    assert await records["a3"].as_text() == "own\ntext"
    assert "line 4999" in records["a4"]
    message = ended.messages[0]
    assert isinstance(message, Message)
    assert await message.attachments[0].as_bytes() == b"PDF"
    assert ended.messages[1] == {"role": "user", "content": "m"}


async def test_content_that_the_spool_has_lost_is_named_in_a_warning(place: Place) -> None:
    @tool
    async def poem() -> str:
        """Recite."""
        return "line\n" * 5_000

    shop = Shop(place.journal(), Call("c1", "poem"), [PAY], "done", budget=Budget(chars=1_000))
    shop.tools.append(poem)
    report = await shop.run()
    runner, warnings = shop.runner(spool=Spool.memory()), list[str]()
    runner.on("warning", lambda event: warnings.append(event.message))

    ended = await runner.resume(report.state, {waits(report)[0]: True})

    assert ended.status == "ok"
    assert any("spool" in each for each in warnings)
    assert ended.tool_calls[0].shown is not None


async def test_a_turn_whose_stash_is_not_json_cannot_be_suspended(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done")

    report = await shop.run(stash={"thing": (1, 2)})

    assert report.status == "error"
    assert isinstance(report.error, UnsavableTurnError)
    assert report.error.field == "stash"
    assert report.state is None


async def test_the_result_of_a_return_direct_tool_ends_a_resumed_turn(place: Place) -> None:
    @tool(requires_approval=True, return_direct=True)
    async def final() -> str:
        """Answer."""
        return "the end"

    shop = Shop(place.journal(), [Call("c1", "final")])
    shop.tools = [final]
    report = await shop.run()

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    assert (ended.status, ended.text) == ("ok", "the end")


async def test_iterations_before_the_suspension_count(place: Place) -> None:
    shop = Shop(place.journal(), [LOOK], [PAY], "done", max_iterations=2)
    report = await shop.run()

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    assert ended.status == "limit"
    assert isinstance(ended.error, LimitError)


async def test_the_cost_of_a_call_is_counted_once(place: Place) -> None:
    @tool
    async def costly() -> Ok:
        """Cost something."""
        return Ok("ok", cost_usd=0.5)

    shop = Shop(place.journal(), [PAY, Call("c2", "costly")], "done")
    shop.tools.append(costly)
    report = await shop.run()

    ended = await shop.resume(report.state, {waits(report)[0]: True})

    assert (report.usage, ended.usage) == ({"tool_cost_usd": 0.5}, {"tool_cost_usd": 0.5})


def approve(_request: ApprovalRequest) -> bool:
    return True


async def test_an_approver_is_asked_and_nothing_is_suspended() -> None:
    shop = Shop(Journal.memory(), [PAY], "done", approve=approve)

    assert results(await shop.run()) == [("c1", "paid 5")]


async def test_calls_that_a_callback_runs_itself_do_not_suspend(place: Place) -> None:
    async def plan(ctx: DispatchContext) -> str:
        [outcome] = await ctx.execute([PAY])
        assert isinstance(outcome.result, Err)
        return f"{outcome.result.code} {outcome.result.ticket is not None}"

    shop = Shop(place.journal(), executor_callback=plan)

    assert (await shop.run()).text == "needs_approval True"


async def test_an_aborted_turn_is_not_suspended(place: Place) -> None:
    shop = Shop(place.journal(), [PAY, Call("c2", "stop")], "done")

    @tool
    async def stop(*, ctx: ToolContext) -> str:
        """Abort the turn."""
        turns[0].abort()
        return "stopped"

    turns: list[TurnContext] = []

    async def keep(ctx: TurnContext, next: Any) -> None:
        turns.append(ctx)
        await next()

    shop.tools.append(stop)
    shop.settings["turn_input_pipeline"] = [keep]

    report = await shop.run()

    assert (report.status, report.state) == ("aborted", None)
    assert len(report.tool_calls) == 2


async def test_suspending_needs_a_journal() -> None:
    with pytest.raises(InvalidTurnRunnerConfigError) as caught:
        TurnRunner(executor_callback=ScriptedModel("done"), on_wait="suspend")

    assert caught.value.field == "on_wait"


async def test_without_a_state_key_a_turn_is_resumed_in_the_same_process(place: Place) -> None:
    shop = Shop(place.journal(), [PAY], "done", state_key=None)
    report = await shop.run()

    assert (await shop.resume(report.state, {waits(report)[0]: True})).status == "ok"


def test_the_sync_runner_resumes() -> None:
    shop = Shop(Journal.memory(), [PAY], "done")
    facts: dict[str, Any] = {"tools": shop.tools, "journal": shop.journal, **shop.settings}
    runner = blocking.TurnRunner(executor_callback=ScriptedModel([PAY], "done"), **facts)
    report = runner.run(messages=["go"], turn_id="t1")

    ended = runner.resume(report.state, {waits(report)[0]: True})

    assert (ended.status, ended.turn_id, shop.ran) == ("ok", "t1", ["pay 5"])
