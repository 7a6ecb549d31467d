"""With a journal nothing is done twice: what was asked before, or was cut off by a crash, is not simply run again."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from spindle import (
    Artifact,
    Budget,
    Call,
    CallOutcome,
    Err,
    Executor,
    Journal,
    Ok,
    ReducerRegistry,
    Spool,
    Tool,
    ToolContext,
    ToolRegistry,
)
from tests.execution.calling import artifact_of, call, counting, err, execute, giving, hearing, make, ok
from tests.journal.conftest import Place, place

pytestmark = pytest.mark.anyio

__all__ = ["place"]


def at(turn_id: str) -> ToolContext:
    return ToolContext("s1", turn_id=turn_id)


async def ask(journal: Journal, tool: Tool, *calls: Call, **settings: Any) -> list[CallOutcome]:
    with anyio.fail_after(30):
        return await execute([tool], calls or [call(tool.name)], journal=journal, ctx=at("t1"), **settings)


async def crash(place: Place, *calls: Call, name: str = "count") -> None:
    """Have calls begun by a process that then is gone."""
    journal = place.journal()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        started.append(1)
        if len(started) == len(calls):
            scope.cancel()
        await anyio.sleep_forever()

    started: list[int] = []
    # What a cancelled batch would still write is what a dead process cannot.
    journal.finish = _nothing  # type: ignore[method-assign]
    with anyio.CancelScope() as scope:
        await ask(journal, make(name, hang), *calls)
    await journal.aclose()


async def _nothing(_outcomes: Any) -> None:
    return None


async def test_asked_again_a_call_is_answered_from_the_record(place: Place) -> None:
    runs: list[int] = []

    async def pay(_args: Any, _ctx: Any, _meta: Any) -> Ok:
        runs.append(1)
        return Ok("paid", structured={"id": 7}, cost_usd=0.5)

    tool = make("pay", pay, trusted=True)
    async with place.journal() as journal:
        (first,) = await ask(journal, tool)
        (second,) = await ask(journal, tool)
    async with place.restarted() as journal:
        (third,) = await ask(journal, tool)

    assert first.result == second.result == third.result == Ok("paid", {"id": 7}, cost_usd=0.5, trusted=True)
    assert (len(runs), first.attempts, second.attempts, third.attempts) == (1, 1, 0, 0)
    assert first.checksum == second.checksum


async def test_a_failure_is_answered_from_the_record_too(place: Place) -> None:
    tool, failure = giving(Err("stale_write", "changed", field="path", retryable=True)), []
    async with place.journal() as journal:
        failure = [err((await ask(journal, tool))[0]) for _ in range(2)]

    assert failure[0] == failure[1] == Err("stale_write", "changed", field="path", retryable=True)


async def test_a_read_only_call_runs_each_time(place: Place) -> None:
    tool, runs = counting(read_only=True)
    async with place.journal() as journal:
        await ask(journal, tool)
        await ask(journal, tool)
        (entry,) = await journal.list()

    assert (len(runs), entry.state, entry.attempts) == (2, "finished", 2)


async def test_another_turn_another_id_and_other_arguments_are_other_calls(place: Place) -> None:
    tool, runs = counting()
    async with place.journal() as journal:
        await ask(journal, tool, call("count"))
        await ask(journal, tool, call("count", {}, "c2"), call("count", {"n": 1}))
        await execute([tool], [call("count")], journal=journal, ctx=at("t2"))
        await execute([tool], [call("count")], journal=journal, ctx=ToolContext("s2", turn_id="t1"))

    assert len(runs) == 5


async def test_a_cut_result_is_given_again_as_it_was_shown_and_its_whole_is_still_there(place: Place) -> None:
    spool, tool = Spool.memory(), giving(["x" * 40] * 40)
    settings: dict[str, Any] = {"spool": spool, "budget": Budget(200)}
    async with place.journal() as journal:
        (first,) = await ask(journal, tool, **settings)
        (second,) = await ask(journal, tool, **settings)
        (third,) = await ask(journal, tool, spool=None, budget=Budget(10))

    assert ok(first).value == ok(second).value
    assert ok(third).value.startswith(ok(first).value)
    assert "was not kept" in ok(third).value.removeprefix(ok(first).value)
    assert "truncated" in ok(first).value
    assert type(ok(first).artifact) is type(ok(second).artifact)
    assert await artifact_of(ok(second), Artifact).as_text() == await artifact_of(ok(first), Artifact).as_text()
    assert len(await artifact_of(ok(second), Artifact).as_text()) > 1600
    assert ok(third).artifact is None


async def test_a_reduced_result_is_not_reduced_again(place: Place) -> None:
    class Shorter:
        tool_name = "give"

        def reduce(self, result: Ok | Err, info: Any) -> Ok | Err:
            return Ok(result.value[:-1]) if isinstance(result, Ok) else result

    reducers = ReducerRegistry()
    reducers.register(Shorter())
    async with place.journal() as journal:
        shown = [ok((await ask(journal, giving("abcdef"), reducers=reducers))[0]).value for _ in range(3)]

    assert shown == ["abcde"] * 3


async def test_the_same_call_twice_in_a_batch_runs_once_and_both_are_answered(place: Place) -> None:
    tool, runs = counting()
    async with place.journal() as journal:
        outcomes = await ask(journal, tool, call("count"), call("count", {"n": 1}), Call("c1", "count", b"{ }"))
        entries = await journal.list()

    assert [ok(each).value for each in outcomes] == ["ran"] * 3
    assert (len(runs), len(entries)) == (2, 2)


async def test_a_person_is_asked_once_for_the_same_call(place: Place) -> None:
    asked: list[str] = []

    async def approve(request: Any) -> bool:
        asked.append(request.checksum)
        return True

    tool, runs = counting(requires_approval=True)
    async with place.journal() as journal:
        outcomes = await ask(journal, tool, call("count"), call("count"), approve=approve)

    assert ([each.ok for each in outcomes], len(asked), len(runs)) == ([True, True], 1, 1)


async def test_a_call_that_is_answered_from_the_record_holds_no_resource(place: Place) -> None:
    tool, runs = counting(resources=lambda _args: ["the file"])  # pyright: ignore[reportUnknownLambdaType]
    async with place.journal() as journal:
        await ask(journal, tool)
        outcomes = await ask(journal, tool, call("count"), call("count"), call("count", {}, "c2"), call("count"))

    assert ([each.ok for each in outcomes], len(runs)) == ([True] * 4, 2)


async def test_a_call_that_still_runs_is_not_started_beside_itself(place: Place) -> None:
    entered, leave, runs, second = anyio.Event(), anyio.Event(), list[int](), list[CallOutcome]()

    async def slow(_args: Any, _ctx: Any, _meta: Any) -> str:
        runs.append(1)
        entered.set()
        await leave.wait()
        return "slow"

    async with place.journal() as journal:
        first: list[CallOutcome] = []

        async def ask_first() -> None:
            first.extend(await ask(journal, make("slow", slow)))

        async with anyio.create_task_group() as group:
            group.start_soon(ask_first)
            with anyio.fail_after(30):
                await entered.wait()
            second.extend(await ask(journal, make("slow", slow)))
            leave.set()

    assert (err(second[0]).code, err(second[0]).retryable) == ("not_available", True)
    assert (ok(first[0]).value, len(runs)) == ("slow", 1)


async def test_an_interrupted_call_is_answered_as_such_and_stays_so(place: Place) -> None:
    await crash(place, call("count"))
    tool, runs = counting()
    async with place.restarted() as journal:
        lost = await journal.interrupted()
        answers = [err((await ask(journal, tool))[0]).code for _ in range(2)]
        still = await journal.interrupted()

    assert ([each.tool_call_id for each in lost], still) == (["c1"], lost)
    assert (answers, runs) == (["interrupted", "interrupted"], [])


@pytest.mark.parametrize("read_only", [True, False])
async def test_an_interrupted_call_that_does_no_harm_runs_again(place: Place, read_only: bool) -> None:
    await crash(place, call("count"))
    tool, runs = counting(read_only=read_only, idempotent=not read_only)
    async with place.restarted() as journal:
        (outcome,) = await ask(journal, tool)
        (entry,) = await journal.list()

    assert (ok(outcome).value, len(runs)) == ("ran", 1)
    assert (entry.state, entry.code, entry.attempts) == ("finished", None, 2)


def _async(value: Any) -> Callable[..., Any]:
    async def reconcile(_key: str, _ctx: Any) -> Any:
        return value

    return reconcile


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("found", [Ok("it was sent"), Err("execution_failed", "it bounced"), None])
async def test_a_tool_may_find_out_what_became_of_an_interrupted_call(place: Place, found: Any, is_async: bool) -> None:
    await crash(place, call("count"))
    asked: list[tuple[str, str | None]] = []

    def reconcile(key: str, ctx: ToolContext) -> Any:
        asked.append((key, ctx.idempotency_key))
        return _async(found)(key, ctx) if is_async else found

    tool, runs = counting(reconcile=reconcile)
    async with place.restarted() as journal:
        (lost,) = await journal.interrupted()
        (outcome,) = await ask(journal, tool)
        (again,) = await ask(journal, tool)
        (entry,) = await journal.list()

    assert asked[0] == (lost.idempotency_key, lost.idempotency_key)
    assert (runs, outcome.result == again.result) == ([], True)
    if found is None:
        assert (err(outcome).code, entry.state, len(asked)) == ("interrupted", "interrupted", 2)
    else:
        assert (outcome.result, len(asked)) == (found, 1)
        assert (entry.state, entry.code, entry.attempts) == ("finished", getattr(found, "code", None), 1)


async def raising(_key: str, _ctx: Any) -> Any:
    raise SystemExit("no idea")


async def hanging(_key: str, _ctx: Any) -> Any:
    await anyio.sleep_forever()


@pytest.mark.slow
@pytest.mark.parametrize("reconcile", [raising, hanging, _async("sent"), _async(True)])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_failing_reconcile_is_reported_and_delays_no_other_call(
    place: Place, reconcile: Any, idempotent: bool
) -> None:
    await crash(place, call("count"))
    # Enough for a call, also on a busy machine, and soon over where the question has no end.
    seconds = 0.5 if reconcile is hanging else 60
    tool, runs = counting(reconcile=reconcile, idempotent=idempotent, timeout_seconds=seconds)
    other, other_runs = counting("other")
    ctx, warnings = hearing()
    ctx.turn_id = "t1"
    async with place.restarted() as journal:
        executor = Executor(ToolRegistry([tool, other]), journal=journal)
        with anyio.fail_after(30):
            outcomes = await executor.execute_parallel([call("count"), call("other", {}, "c2")], ctx)

    assert [each.source for each in warnings] == ["reconcile"]
    assert (len(runs), outcomes[0].ok, len(other_runs)) == (int(idempotent), idempotent, 1)
    assert idempotent or err(outcomes[0]).code == "interrupted"


async def test_a_reconciled_answer_is_no_more_trusted_than_its_tool(place: Place) -> None:
    await crash(place, call("count"))
    tool, _ = counting(reconcile=_async(Ok("believe me", trusted=True)))
    async with place.restarted() as journal:
        (outcome,) = await ask(journal, tool)

    assert ok(outcome).trusted is False
