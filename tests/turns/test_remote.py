"""Turns that run on an engine, without a server: one iteration at a time, each with a runner that knows no other."""

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest

from spindle import Call, DispatchContext, Journal, Spool, ToolContext, TurnContext, TurnRunner, tool
from spindle.errors import (
    EngineUnavailableError,
    InvalidAnswersError,
    InvalidTurnRunnerConfigError,
    LimitError,
    TurnFailedError,
    UnsavableTurnError,
)
from spindle.testing import ScriptedModel
from tests.journal.conftest import Place, place
from tests.turns.local_engine import EngineShop, LocalEngine
from tests.turns.suspended_scene import KEY, LOOK, PAY, Shop, results, waits

pytestmark = pytest.mark.anyio
__all__ = ["place"]

ASK = Call("c3", "confirm", {"question": "sure"})


async def test_a_turn_runs_one_iteration_at_a_time(place: Place) -> None:
    shop = EngineShop(place.journal(), [LOOK], [Call("c4", "look", {"what": "cup"})], "done")
    report = await shop.run(stash={"known": 1}, system_prompt="Be kind.", session_id="s1", caller={"id": "ann"})
    assert (report.status, report.text, report.iterations) == ("ok", "done", 3)
    assert results(report) == [("c2", "saw tea"), ("c4", "saw cup")]
    assert shop.ran == ["look tea", "look cup"]
    assert shop.asked == [0, 1, 2]
    (run,) = shop.engine.runs.values()
    assert run.steps == ["running", "running", "ended"]
    assert report.ended_at >= report.started_at
    assert [name for name, _ in shop.engine.log] == ["start"]


async def test_a_second_start_with_the_same_turn_id_returns_the_same_report(place: Place) -> None:
    shop = EngineShop(place.journal(), [LOOK], "done")
    first = await shop.run(turn_id="t1")
    again = await shop.run(turn_id="t1")
    assert again == first
    assert (shop.asked, shop.ran) == ([0, 1], ["look tea"])


async def test_a_start_while_the_turn_runs_follows_it(place: Place) -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    async def hold(_: DispatchContext) -> str:
        reached.set()
        await go_on.wait()
        return "held"

    shop, reports = EngineShop(place.journal(), hold), list[Any]()

    async def run() -> None:
        reports.append(await shop.run(turn_id="t1"))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await reached.wait()
            tasks.start_soon(run)
            while len(shop.engine.log) < 2:  # noqa: ASYNC110 - the engine has a list, not an event
                await anyio.sleep(0.01)
            go_on.set()
    assert [report.text for report in reports] == ["held", "held"]
    assert shop.asked == [0]


async def test_a_turn_whose_caller_died_before_the_start_is_started_by_the_next_one(place: Place) -> None:
    shop = EngineShop(place.journal(), "done")
    shop.engine.is_down = True
    failed = await shop.run(turn_id="t1")
    assert (failed.status, type(failed.error)) == ("error", EngineUnavailableError)
    shop.engine.is_down = False
    assert (await shop.run(turn_id="t1")).text == "done"


async def test_an_approval_lets_the_turn_go_on_in_the_same_run(place: Place) -> None:
    shop = EngineShop(place.journal(), [PAY, LOOK], [ASK], "done")
    report = await shop.run()
    (ticket,) = waits(report)
    assert shop.ran == ["look tea"]
    report = await shop.resume(report.state, {ticket: True})
    assert waits(report) == ["confirm sure"]
    ended = await shop.resume(report.state, {"confirm sure": True})
    assert (ended.status, ended.text) == ("ok", "done")
    assert results(ended) == [("c1", "paid 5"), ("c2", "saw tea"), ("c3", "sure: True")]
    (run,) = shop.engine.runs.values()
    assert run.steps == ["suspended", "running", "suspended", "running", "ended"]
    again = await shop.resume(report.state, {"confirm sure": True})
    assert again == ended
    assert shop.ran.count("pay 5") == 1


async def test_answers_are_checked_before_the_turn_goes_on(place: Place) -> None:
    shop = EngineShop(place.journal(), [PAY], "done")
    report = await shop.run()
    with pytest.raises(InvalidAnswersError) as caught:
        await shop.resume(report.state, {"another": True})
    assert caught.value.ids == ("another",)
    (ticket,) = waits(report)
    assert (await shop.resume(report.state, {ticket: False})).text == "done"
    assert shop.ran == []


async def test_answers_that_were_saved_by_a_dead_process_are_used(place: Place) -> None:
    shop = EngineShop(place.journal(), [PAY], "done")
    report = await shop.run(turn_id="t1")
    (ticket,) = waits(report)
    shop.engine.is_down = True
    with pytest.raises(EngineUnavailableError):
        await shop.resume(report.state, {ticket: True})
    shop.engine.is_down = False
    assert (await shop.resume(report.state)).text == "done"
    assert shop.ran == ["pay 5"]


async def test_a_start_of_a_suspended_turn_returns_its_state(place: Place) -> None:
    shop = EngineShop(place.journal(), [PAY], "done")
    report = await shop.run(turn_id="t1")
    assert (await shop.run(turn_id="t1")).state == report.state


async def test_the_cancel_event_aborts_the_turn_on_the_engine(place: Place) -> None:
    reached, cancel = anyio.Event(), anyio.Event()

    async def hold(_: DispatchContext) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    shop, reports = EngineShop(place.journal(), hold, abort_grace_seconds=0), list[Any]()

    async def run() -> None:
        reports.append(await shop.run(cancel=cancel, turn_id="t1"))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await reached.wait()
            cancel.set()
    assert reports[0].status == "aborted"
    assert (await shop.run(turn_id="t1")).status == "aborted"


async def test_a_caller_that_is_cancelled_cancels_the_turn(place: Place) -> None:
    reached = anyio.Event()

    async def hold(_: DispatchContext) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    shop = EngineShop(place.journal(), hold, abort_grace_seconds=0)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: shop.run(turn_id="t1"))
            await reached.wait()
            tasks.cancel_scope.cancel()
        assert (await shop.run(turn_id="t1")).status == "aborted"


async def test_a_suspended_turn_can_be_cancelled(place: Place) -> None:
    shop, cancel = EngineShop(place.journal(), [PAY], "done"), anyio.Event()
    report = await shop.run(turn_id="t1")
    (run_id,) = shop.engine.runs
    await shop.engine.cancel(run_id)
    with anyio.fail_after(30):
        assert await shop.engine.wait(run_id, after=report.state["step"] if report.state else 0) == "ended"
    assert (await shop.runner().resume(report.state, cancel=cancel)).status == "aborted"
    assert shop.ran == []


async def test_a_failed_turn_is_reported_and_can_be_resumed_by_its_id(place: Place) -> None:
    shop = EngineShop(place.journal(), [LOOK], ValueError("no model"), "unused")
    report = await shop.run(turn_id="t1")
    assert report.status == "error"
    assert isinstance(report.error, TurnFailedError)
    assert report.error.class_name == "ExecutorCallbackError"
    again = await shop.run(turn_id="t1")
    assert replace(again, error=None) == replace(report, error=None)
    assert shop.asked == [0, 1]
    shop.script = ([LOOK], "done")
    ended = await shop.runner().resume(turn_id="t1")
    assert (ended.status, ended.text, shop.ran) == ("ok", "done", ["look tea"])
    assert len(shop.engine.runs) == 2


async def test_limits_hold_across_iterations(place: Place) -> None:
    shop = EngineShop(place.journal(), [LOOK], [Call("c4", "look", {"what": "cup"})], max_iterations=2)
    report = await shop.run()
    assert (report.status, type(report.error), report.iterations) == ("limit", LimitError, 2)


@pytest.mark.slow
async def test_an_iteration_that_kills_its_workers_fails_the_turn(place: Place) -> None:
    class Killed(BaseException):
        """Ends a worker before it saves anything."""

    async def die(_: DispatchContext) -> str:
        raise Killed

    shop = EngineShop(place.journal(), "unused")
    shop.engine.start = _refuse  # type: ignore[method-assign] - the workers are run by hand
    with anyio.move_on_after(0.5):
        await shop.run(turn_id="t1")
    shop.script = (die,)
    for _ in range(5):
        with pytest.raises(Killed):
            await shop.build_worker().advance("t1")
    assert (await shop.build_worker().advance("t1")).status == "ended"
    report = await shop.run(turn_id="t1")
    assert (report.status, type(report.error)) == ("error", TurnFailedError)


async def _refuse(run_id: str, turn_id: str) -> None:
    await anyio.sleep_forever()


async def test_a_turn_that_the_engine_lost_is_reported_and_can_be_resumed(place: Place) -> None:
    reached = anyio.Event()

    async def hold(_: DispatchContext) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    shop, reports = EngineShop(place.journal(), hold), list[Any]()

    async def run() -> None:
        reports.append(await shop.run(turn_id="t1"))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await reached.wait()
            shop.engine.lose(next(iter(shop.engine.runs)))
    assert (reports[0].status, type(reports[0].error)) == ("error", TurnFailedError)
    shop.script = ("done",)
    assert (await shop.runner().resume(turn_id="t1")).text == "done"


async def test_the_input_pipeline_runs_once_and_the_output_pipeline_at_the_end(place: Place) -> None:
    ran: list[str] = []

    async def begin(ctx: TurnContext, call_next: Any) -> None:
        ran.append("input")
        ctx.stash.set("language", "en")
        await call_next()

    async def end(ctx: TurnContext, call_next: Any) -> None:
        ran.append(f"output {ctx.stash.get('language')}")
        await call_next()

    pipelines: dict[str, Any] = {"turn_input_pipeline": [begin], "turn_output_pipeline": [end]}
    shop = EngineShop(place.journal(), [LOOK], "done", **pipelines)
    assert (await shop.run()).status == "ok"
    assert ran == ["input", "output en"]


async def test_events_of_the_turn_are_emitted_on_the_worker(place: Place) -> None:
    heard: list[str] = []
    shop = EngineShop(place.journal(), [LOOK], "done")
    build = shop.build_worker

    def build_heard() -> TurnRunner:
        worker = build()
        for name in ("turn_start", "turn_end", "iteration_start"):
            worker.on(name, lambda _, name=name: heard.append(name))
        return worker

    shop.engine = LocalEngine(build_heard)
    assert (await shop.run()).status == "ok"
    assert heard == ["turn_start", "iteration_start", "iteration_start", "turn_end"]


async def test_a_turn_that_is_not_json_is_not_started(place: Place) -> None:
    shop = EngineShop(place.journal(), "done")
    report = await shop.run(stash={"bad": object()})
    assert (report.status, type(report.error), shop.asked) == ("error", UnsavableTurnError, [])
    assert not shop.engine.runs


async def test_a_turn_that_is_not_json_later_fails(place: Place) -> None:
    async def spoil(ctx: DispatchContext) -> list[Call]:
        ctx.stash.set("bad", object())
        return [LOOK]

    shop = EngineShop(place.journal(), spoil, "done")
    report = await shop.run()
    assert report.status == "error"
    assert isinstance(report.error, TurnFailedError)
    assert report.error.class_name == "UnsavableTurnError"
    assert shop.ran == []


async def test_secret_arguments_are_not_in_what_the_engine_knows(place: Place) -> None:
    shop = EngineShop(place.journal(), [Call("c1", "pay", {"amount": 5, "card": "4111-secret"})], "done")
    report = await shop.run()
    assert "4111-secret" not in json.dumps(report.state)
    (ticket,) = waits(report)
    await shop.resume(report.state, {ticket: {"approved": True, "args": {"amount": 6, "card": "5222-secret"}}})
    assert shop.ran == ["pay 6"]
    assert "secret" not in repr(shop.engine.log)


async def test_a_dry_run_stays_in_this_process(place: Place) -> None:
    shop = EngineShop(place.journal(), [LOOK], "done")
    assert (await shop.run(dry_run=True)).status == "ok"
    assert (shop.engine.runs, shop.ran) == ({}, [])


async def test_a_stream_of_a_turn_on_an_engine_ends_with_its_report(place: Place) -> None:
    shop = EngineShop(place.journal(), [LOOK], "done")
    events = [event async for event in shop.runner().stream(messages=["go"])]
    assert [event.name for event in events] == ["report"]
    assert events[0].payload.text == "done"


async def test_artifacts_of_earlier_iterations_are_readable(tmp_path: Any) -> None:
    @tool
    async def dump() -> str:
        """Return a long text."""
        return "\n".join(f"line {number}" for number in range(20_000))

    @tool
    async def count(*, ctx: ToolContext) -> str:
        """Count the calls of the stash."""
        ctx.stash.set("n", ctx.stash.get("n", 0) + 1)
        return str(ctx.stash.get("n"))

    read = [Call("c2", "artifact_tail", {"call_id": "c1", "n": 2}), Call("c3", "count", {})]
    journal = Journal.sqlite(tmp_path / "journal.db")
    shop = EngineShop(journal, [Call("c1", "dump", {})], read, "done", spool=Spool.files(tmp_path / "spool"))
    shop.tools = [dump, count]
    report = await shop.run()
    assert report.status == "ok", report.error
    assert report.tool_calls[2].results == "1"
    assert not report.tool_calls[1].is_error, report.tool_calls[1]
    assert "line 19998" in str(report.tool_calls[1].shown or report.tool_calls[1].results)


@pytest.mark.parametrize("missing", ["journal", "state_key", "spool"])
def test_an_engine_needs_what_callers_and_workers_share(missing: str) -> None:
    facts: dict[str, Any] = {"journal": Journal.memory(), "state_key": KEY, "spool": Spool.memory()}
    facts.pop(missing)
    with pytest.raises(InvalidTurnRunnerConfigError) as caught:
        TurnRunner(executor_callback=ScriptedModel(), engine=LocalEngine(Shop(Journal.memory()).runner), **facts)
    assert caught.value.field == "engine"


def test_an_invalid_engine_is_refused() -> None:
    with pytest.raises(InvalidTurnRunnerConfigError):
        TurnRunner(executor_callback=ScriptedModel(), engine="temporal://")  # type: ignore[arg-type]
