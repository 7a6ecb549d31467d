"""What reaches a handler of its surroundings, and what its outcome says besides the result."""

import threading
from typing import Any

import anyio
import pytest

from spindle import Artifact, Budget, Call, Events, Executor, Journal, Ok, Spool, Stash, ToolContext, ToolRegistry, tool
from spindle.errors import InvalidBudgetError
from spindle.events import ToolProgress
from tests.execution.calling import call, err, execute, execute_one, giving, make, ok

pytestmark = pytest.mark.anyio


def looking(seen: list[ToolContext], name: str = "look", **options: Any) -> Any:
    async def look(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        seen.append(ctx)
        return "seen"

    return make(name, look, **options)


async def test_everything_the_caller_gave_reaches_the_handler() -> None:
    seen: list[ToolContext] = []
    events, stash = Events(), Stash({"key": "value"})
    ctx = ToolContext("s7", turn_id="t7", working_dir="here", events=events, stash=stash, turn_count=4)

    (outcome,) = await execute([looking(seen)], [Call("c7", "look", '{"a": 1}')], ctx=ctx)

    (own,) = seen
    assert (own.session_id, own.turn_id, own.working_dir, own.turn_count) == ("s7", "t7", "here", 4)
    assert own.stash is stash
    assert own.events is events
    assert (own.tool_name, own.tool_call_id, own.checksum) == ("look", "c7", outcome.checksum)
    assert isinstance(own.idempotency_key, str)
    assert own.deadline is not None
    assert own is not ctx
    assert ctx.tool_call_id is None


async def test_each_call_has_its_own_context_and_its_share_of_the_budget() -> None:
    seen: list[ToolContext] = []
    tools = [looking(seen), looking(seen, "tight", max_result_chars=10)]
    calls = [
        call("look", call_id="1"),
        call("look", call_id="2"),
        call("tight", call_id="3"),
        call("gone", call_id="4"),
    ]

    await execute(tools, calls, budget=Budget(chars=103))

    shares = {str(own.tool_call_id): own.result_budget_chars for own in seen}
    assert shares == {"1": 25, "2": 25, "3": 10}
    assert len({id(own) for own in seen}) == 3


async def test_the_callers_budget_replaces_the_executors() -> None:
    seen: list[ToolContext] = []

    await execute([looking(seen)], [call("look"), call("look")], ctx=ToolContext("s1", result_budget_chars=50))

    assert [own.result_budget_chars for own in seen] == [25, 25]


async def test_the_idempotency_key_is_stable_and_unique_for_each_call() -> None:
    seen: list[ToolContext] = []
    one = [Call("c1", "look", {"a": 1, "b": 2})]

    async def key(calls: list[Call], **where: Any) -> str:
        given: dict[str, Any] = {"session_id": "s1", "turn_id": "t1"}
        await execute([looking(seen)], calls, ctx=ToolContext(**(given | where)))
        return str(seen[-1].idempotency_key)

    first = await key(one)

    assert await key([Call("c1", "look", '{"b":2,"a":1}')]) == first
    others = [
        await key([Call("c2", "look", {"a": 1, "b": 2})]),
        await key([Call("c1", "look", {"a": 1, "b": 3})]),
        await key(one, turn_id="t2"),
        await key(one, session_id="s2"),
    ]
    assert len({first, *others}) == 5


async def test_a_larger_context_gives_the_light_one() -> None:
    class Larger:
        def __init__(self) -> None:
            self.light = ToolContext("s9", stash={"shared": True})

        def tool_context(self) -> ToolContext:
            return self.light

    seen: list[ToolContext] = []
    larger = Larger()
    executor = Executor(ToolRegistry([looking(seen)]))

    (outcome,) = await executor.execute_parallel([call("look")], larger)

    assert outcome.ok
    assert seen[0].session_id == "s9"
    assert seen[0].stash is larger.light.stash


async def test_calls_of_a_batch_share_the_stash() -> None:
    async def put(args: Any, ctx: ToolContext, _meta: Any) -> str:
        ctx.stash.set(f"seen.{args['n']}", True)
        return "put"

    stash = Stash()
    await execute([make("put", put)], [call("put", {"n": n}) for n in "abc"], ctx=ToolContext("s1", stash=stash))

    assert stash.all() == {"seen": {"a": True, "b": True, "c": True}}


@pytest.mark.parametrize("is_async", [True, False])
async def test_progress_carries_the_id_of_its_call_and_is_emitted_completely(is_async: bool) -> None:
    reported: list[ToolProgress] = []
    slowly_reported: list[ToolProgress] = []
    events = Events()

    async def hear(progress: ToolProgress) -> None:
        await anyio.lowlevel.checkpoint()
        slowly_reported.append(progress)

    events.on("tool_progress", reported.append)
    events.on("tool_progress", hear)

    async def late(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        ctx.progress("half", 50, audience="user")
        ctx.progress("last words")

    def plain(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        ctx.progress("half", 50, audience="user")
        ctx.progress("last words")

    tool_ = make("work", late if is_async else plain)
    await execute([tool_], [call("work", call_id="a"), call("work", call_id="b")], ctx=ToolContext("s1", events=events))

    for call_id in ("a", "b"):
        mine = [each for each in reported if each.tool_call_id == call_id]
        assert [(each.message, each.percent, each.audience) for each in mine] == [
            ("half", 50, "user"),
            ("last words", None, "internal"),
        ]
    assert len(slowly_reported) == 4


async def test_the_meta_of_a_tool_reaches_its_handler() -> None:
    async def look(_args: Any, _ctx: Any, meta: Any) -> str:
        return meta.get("region.name")

    assert ok(await execute_one(make("look", look, meta={"region": {"name": "eu"}}))).value == "eu"


async def test_sync_handlers_run_on_other_threads_side_by_side() -> None:
    meeting = threading.Barrier(4, timeout=30)
    here = threading.get_ident()

    @tool
    def meet(n: int) -> bool:
        """Wait for the others."""
        meeting.wait()
        return threading.get_ident() != here

    outcomes = await execute([meet], [call("meet", {"n": n}) for n in range(4)])

    assert [ok(each).structured for each in outcomes] == [True] * 4


async def test_each_outcome_has_its_own_time() -> None:
    quick_ended = anyio.Event()

    async def quick(_args: Any, _ctx: Any, _meta: Any) -> str:
        quick_ended.set()
        return "quick"

    async def slow(_args: Any, _ctx: Any, _meta: Any) -> str:
        await quick_ended.wait()
        await anyio.sleep(0.05)
        return "slow"

    outcomes = await execute([make("quick", quick), make("slow", slow)], [call("slow"), call("quick"), call("gone")])

    assert outcomes[0].duration_ms >= 50
    assert outcomes[1].duration_ms < outcomes[0].duration_ms
    assert outcomes[2].duration_ms < outcomes[0].duration_ms


async def test_large_results_of_calls_with_one_id_are_all_kept() -> None:
    async def long(args: Any, _ctx: Any, _meta: Any) -> str:
        return str(args["n"]) * 500

    tool_ = make("long", long, max_result_chars=10)
    outcomes = await execute([tool_], [call("long", {"n": n}, "same") for n in range(3)], spool=Spool.memory())

    kept: list[str] = []
    for each in outcomes:
        artifact = ok(each).artifact
        assert isinstance(artifact, Artifact)
        kept.append(await artifact.as_text())
    assert kept == [str(n) * 500 for n in range(3)]


async def test_a_structure_that_is_not_json_does_not_disturb_the_journal() -> None:
    odd = Ok("said", structured={"when": object()})

    async with Journal.memory() as journal:
        outcomes = await execute([giving(odd), giving("fine", "other")], [call("give"), call("other")], journal=journal)

    assert ok(outcomes[0]).value == "said"
    assert ok(outcomes[1]).value == "fine"


@pytest.mark.parametrize("chars", [-1, True, "many", 2.5])
async def test_a_budget_that_is_none_is_the_developers_mistake(chars: Any) -> None:
    ctx = ToolContext("s1")
    ctx.result_budget_chars = chars

    with pytest.raises(InvalidBudgetError):
        await execute_one(giving("x"), ctx=ctx)


async def test_an_unknown_tool_has_a_time_and_a_checksum_too() -> None:
    (outcome,) = await execute([], [Call("c1", "gone", '{"a": 1}')])

    assert err(outcome).code == "not_available"
    assert outcome.duration_ms >= 0
    assert len(outcome.checksum) == 64
