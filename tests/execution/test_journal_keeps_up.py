"""When a batch writes to its journal: soon, in groups, without delaying calls, and also during cancellation."""

from functools import partial
from typing import Any

import anyio
import pytest

from spindle import CallOutcome, Err, Executor, Journal, ToolContext, ToolRegistry
from spindle.execution import Retries
from tests.execution.calling import call, counting, err, execute, giving, make, ok, raising
from tests.execution.journals import WatchedStore
from tests.journal.conftest import Place, place

pytestmark = pytest.mark.anyio

__all__ = ["place"]


async def states_of(journal: Journal) -> dict[str, tuple[str, str | None, int]]:
    return {each.tool_call_id: (each.state, each.code, each.attempts) for each in await journal.list()}


async def test_quick_calls_are_written_together() -> None:
    store = WatchedStore()

    await execute([giving("quick")], [call("give", {}, f"c{n}") for n in range(50)], journal=store.journal)

    assert (store.begun, sum(store.finished)) == ([50], 50)
    assert len(store.finished) < 25


async def test_a_finished_call_is_written_while_a_slow_sibling_still_runs() -> None:
    store = WatchedStore()

    async def slow(_args: Any, _ctx: Any, _meta: Any) -> str:
        await store.wait_for(2)
        return ", ".join(sorted(each.tool_call_id for each in await store.journal.list("finished")))

    tools = [make("slow", slow), giving("quick"), raising(ValueError())]
    calls = [call("slow"), call("give", {}, "good"), call("fail", {}, "bad")]
    with anyio.fail_after(30):
        outcomes = await execute(tools, calls, journal=store.journal)

    assert ok(outcomes[0]).value == "bad, good"
    assert (sum(store.finished), store.finished[-1]) == (3, 1)


async def test_an_answer_that_may_be_cut_waits_for_its_siblings_and_is_written_as_it_is_shown() -> None:
    store = WatchedStore()

    async def slow(_args: Any, _ctx: Any, _meta: Any) -> str:
        await store.wait_for(1)
        return "y" * 60_000

    tools = [
        make("slow", slow),
        giving("x" * 60_000),
        giving("quick", "short"),
        giving("abc" * 9, "capped", max_result_chars=5),
    ]
    calls = [call("slow"), call("give", {}, "long"), call("short", {}, "short"), call("capped", {}, "capped")]
    with anyio.fail_after(30):
        outcomes = await execute(tools, calls, journal=store.journal)
    entries = {each.tool_call_id: each for each in await store.journal.list()}

    assert store.finished == [1, 3]
    for outcome in outcomes:
        assert (entries[outcome.tool_call_id].result or {})["value"] == ok(outcome).value


async def test_no_call_waits_for_the_writing_of_another() -> None:
    store = WatchedStore()
    store.may_finish = anyio.Event()
    ran: list[str] = []

    async def next_one(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        if ran:
            await store.is_finishing.wait()
        ran.append(ctx.tool_call_id or "")
        if len(ran) == 4 and store.may_finish is not None:
            store.may_finish.set()

    with anyio.fail_after(30):
        await execute(
            [make("next", next_one)],
            [call("next", {}, f"c{n}") for n in range(4)],
            journal=store.journal,
            concurrency=1,
        )

    assert ran == ["c0", "c1", "c2", "c3"]
    assert sum(store.finished) == 4


async def test_outcomes_that_failed_to_be_written_are_written_at_the_end() -> None:
    store = WatchedStore()
    store.fails_on = {"finish"}

    async def slow(_args: Any, _ctx: Any, _meta: Any) -> None:
        await store.is_finishing.wait()
        await anyio.lowlevel.checkpoint()
        store.fails_on = set()

    with anyio.fail_after(30):
        await execute(
            [make("slow", slow), giving("quick")], [call("slow"), call("give", {}, "c2")], journal=store.journal
        )

    assert await states_of(store.journal) == {"c1": ("finished", None, 1), "c2": ("finished", None, 1)}


async def test_a_cancelled_batch_ends_every_call_that_was_begun(place: Place) -> None:
    entered, waiting = anyio.Event(), anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        entered.set()
        await anyio.sleep_forever()

    async def approve(_request: Any) -> bool:
        waiting.set()
        await anyio.sleep_forever()
        return True

    tools = [giving("quick"), make("hang", hang), make("later", hang), make("asked", hang, requires_approval=True)]
    calls = [call(name, {}, name) for name in ("give", "hang", "asked", "later")]
    async with place.journal() as journal:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:

                async def run() -> None:
                    await execute(tools, calls, journal=journal, concurrency=1, approve=approve)

                group.start_soon(run)
                await entered.wait()
                await waiting.wait()
                group.cancel_scope.cancel()
        states = await states_of(journal)
    async with place.restarted() as journal:
        lost = await journal.interrupted()

    assert states == {
        "give": ("finished", None, 1),
        "hang": ("finished", "cancelled", 1),
        "later": ("finished", "cancelled", 0),
        "asked": ("finished", "cancelled", 0),
    }
    assert lost == []


async def test_a_call_cancelled_before_it_ran_may_be_asked_again(place: Place) -> None:
    entered = anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        entered.set()
        await anyio.sleep_forever()

    tool, runs = counting()
    calls = [call("hang", {}, "hang"), call("count")]
    async with place.journal() as journal:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:

                async def run() -> None:
                    await execute([make("hang", hang), tool], calls, journal=journal, concurrency=1)

                group.start_soon(run)
                await entered.wait()
                group.cancel_scope.cancel()
        outcomes = await execute([make("hang", hang), tool], calls, journal=journal)

    assert (err(outcomes[0]).code, ok(outcomes[1]).value, len(runs)) == ("cancelled", "ran", 1)


async def test_answers_that_are_being_written_when_the_caller_leaves_are_written_all_the_same() -> None:
    store = WatchedStore()
    store.may_finish = anyio.Event()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def run() -> None:
                await execute([giving("done")], [call("give")], journal=store.journal)

            group.start_soon(run)
            await store.is_finishing.wait()
            group.cancel_scope.cancel()
            store.may_finish.set()

    assert await states_of(store.journal) == {"c1": ("finished", None, 1)}


@pytest.mark.slow
@pytest.mark.one_loop  # waits for the deadlines
async def test_a_call_that_took_too_long_is_finished_as_such(place: Place) -> None:
    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        await anyio.sleep_forever()

    outcomes: list[CallOutcome] = []
    async with place.journal() as journal:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(execute, journal=journal), [make("hang", hang, timeout_seconds=1)], [call("hang")])
            outcomes = await execute(
                [make("late", hang, idempotent=True)],
                [call("late", {}, "c2"), call("late", {"n": 1}, "c3")],
                journal=journal,
                batch_timeout_seconds=1,
                concurrency=1,
                retries=Retries(times=1),
            )
        states = await states_of(journal)

    assert [err(each).code for each in outcomes] == ["timed_out"] * 2
    assert states == {
        "c1": ("finished", "timed_out", 1),
        "c2": ("finished", "timed_out", 1),
        "c3": ("finished", "timed_out", 0),
    }


async def test_a_call_with_an_answer_of_its_own_code_keeps_it() -> None:
    store = WatchedStore()

    await execute([giving(Err("cancelled", "by the user"))], [call("give")], journal=store.journal)

    assert await states_of(store.journal) == {"c1": ("finished", "cancelled", 1)}


@pytest.mark.slow
async def test_a_result_is_given_at_its_deadline_while_the_disk_still_writes_it_down() -> None:
    store = WatchedStore()
    warnings: list[Any] = []
    store.may_finish = anyio.Event()
    ctx = ToolContext("s1")
    ctx.events.on("warning", warnings.append)
    tool = giving("there in time", timeout_seconds=0.5)
    executor = Executor(ToolRegistry([tool]), journal=store.journal)

    with anyio.fail_after(30):
        (outcome,) = await executor.execute_parallel([call("give")], ctx)
        assert ok(outcome).value == "there in time"
        assert [each.source for each in warnings] == ["journal"]
        store.may_finish.set()
        await store.wait_for(1)


async def test_a_call_that_the_journal_refuses_is_reported() -> None:
    store = WatchedStore()
    warnings: list[Any] = []
    store.fails_on.add("begin")
    ctx = ToolContext("s1")
    ctx.events.on("warning", warnings.append)

    (outcome,) = await Executor(ToolRegistry([giving("x")]), journal=store.journal).execute_parallel(
        [call("give")], ctx
    )

    assert not outcome.ok
    assert "journal" in [each.source for each in warnings]
