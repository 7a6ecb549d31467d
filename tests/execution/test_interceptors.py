"""The user's own policies round each call: an onion that may answer, change or refuse, but not raise trust."""

from dataclasses import replace
from typing import Any

import anyio
import pytest

from spindle import Artifact, Call, CallOutcome, Err, Ok, ToolContext
from tests.execution.calling import call, counting, err, execute, execute_one, giving, hearing, make, ok, raising

pytestmark = pytest.mark.anyio


def answer(result: Any) -> CallOutcome:
    return CallOutcome(tool_call_id="another", name="another", checksum="0", result=result)


async def passing(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
    return await next()


async def test_interceptors_are_layers_the_first_one_outermost() -> None:
    order: list[str] = []

    def layer(name: str) -> Any:
        async def intercept(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
            order.append(f"{name} in")
            outcome = await next()
            order.append(f"{name} out")
            return outcome

        return intercept

    async def work(_args: Any, _ctx: Any, _meta: Any) -> str:
        order.append("work")
        return "done"

    outcome = await execute_one(make("work", work), interceptors=[layer("a"), layer("b")])

    assert ok(outcome).value == "done"
    assert order == ["a in", "b in", "work", "b out", "a out"]


async def test_an_interceptor_sees_the_call_its_context_and_its_outcome() -> None:
    seen: list[Any] = []

    async def look(call: Call, ctx: ToolContext, next: Any) -> CallOutcome:
        outcome = await next(call, ctx)
        seen.append((call, ctx.tool_call_id, ctx.checksum, outcome))
        return outcome

    (outcome,) = await execute([giving("x")], [Call("c7", "give", '{"a": 1}')], interceptors=[look])

    ((seen_call, call_id, checksum, seen_outcome),) = seen
    assert seen_call == Call("c7", "give", '{"a": 1}')
    assert (call_id, checksum) == ("c7", outcome.checksum)
    assert seen_outcome.result == outcome.result
    assert seen_outcome.tool_call_id == "c7"


async def test_an_interceptor_may_answer_by_itself_and_the_layers_outside_see_it() -> None:
    seen: list[Any] = []

    async def outer(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        outcome = await next()
        seen.append(outcome.result)
        return outcome

    async def short(_call: Call, _ctx: ToolContext, _next: Any) -> CallOutcome:
        return answer(Ok("from the layer"))

    async def never(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        seen.append("never")
        return await next()

    tool, runs = counting()
    outcome = await execute_one(tool, interceptors=[outer, short, never])

    assert ok(outcome).value == "from the layer"
    assert (outcome.tool_call_id, outcome.name, outcome.attempts) == ("c1", "count", 0)
    assert seen == [Ok("from the layer")]
    assert runs == []


async def test_an_interceptor_may_refuse_with_an_error_of_its_own() -> None:
    async def quota(_call: Call, _ctx: ToolContext, _next: Any) -> CallOutcome:
        return answer(Err("denied", "the quota is used up"))

    tool, runs = counting()

    assert err(await execute_one(tool, interceptors=[quota])) == Err("denied", "the quota is used up")
    assert runs == []


async def test_an_interceptor_may_change_a_result() -> None:
    async def shout(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        outcome = await next()
        return replace(outcome, result=replace(outcome.result, value=outcome.result.value.upper()))

    outcomes = await execute([giving("quiet")], [call("give"), call("give")], interceptors=[shout])

    assert [ok(each).value for each in outcomes] == ["QUIET", "QUIET"]


async def test_content_removed_by_an_interceptor_is_not_spooled() -> None:
    async def redact(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        outcome = await next()
        return replace(outcome, result=Ok(outcome.result.value.replace("secret", "######")))

    secret = b"secret" * 1000
    result = ok(await execute_one(giving(secret, max_result_chars=50), interceptors=[redact]))

    assert isinstance(result.artifact, Artifact)
    assert "secret" not in await result.artifact.as_text()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "raised", [RuntimeError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), StopIteration()]
)
async def test_an_interceptor_that_raises_refuses_the_call(when: str, raised: BaseException) -> None:
    async def guard(call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        if call.name == "give":
            return await next()
        if when == "after":
            await next()
        raise raised

    ctx, warnings = hearing()
    tool, runs = counting()
    outcomes = await execute([tool, giving("fine")], [call("count"), call("give")], interceptors=[guard], ctx=ctx)

    assert err(outcomes[0]).code == ("not_available" if when == "before" else "execution_failed")
    assert ok(outcomes[1]).value == "fine"
    assert len(runs) == (when == "after")
    assert [each.source for each in warnings] == ["interceptor"]


async def test_an_interceptor_that_cancels_itself_refuses_the_call() -> None:
    async def guard(_call: Call, _ctx: ToolContext, _next: Any) -> CallOutcome:
        raise anyio.get_cancelled_exc_class()

    assert err(await execute_one(giving("x"), interceptors=[guard])).code == "not_available"


@pytest.mark.parametrize("junk", [None, "text", Ok("x"), Err("denied", "x"), {"ok": True}, 5], ids=repr)
@pytest.mark.parametrize("has_run", [False, True])
async def test_a_value_that_is_not_an_outcome_refuses_the_call(junk: Any, has_run: bool) -> None:
    async def careless(_call: Call, _ctx: ToolContext, next: Any) -> Any:
        if has_run:
            await next()
        return junk

    ctx, warnings = hearing()
    tool, runs = counting()
    refused = err(await execute_one(tool, interceptors=[careless], ctx=ctx))

    assert refused.code == ("execution_failed" if has_run else "not_available")
    assert len(runs) == has_run
    assert len(warnings) == 1


@pytest.mark.parametrize("result", [None, "x", 5, {"value": "x"}, CallOutcome], ids=repr)
async def test_an_outcome_without_a_result_refuses_the_call(result: Any) -> None:
    async def careless(_call: Call, _ctx: ToolContext, _next: Any) -> CallOutcome:
        return answer(result)

    assert err(await execute_one(giving("x"), interceptors=[careless])).code == "not_available"


@pytest.mark.parametrize("wrong", [Ok(5), Ok("x", media=5), Err("oops", "x"), Err("denied", 5)], ids=repr)  # type: ignore[arg-type]
async def test_an_answer_is_held_to_the_rules_of_results(wrong: Any) -> None:
    async def careless(_call: Call, _ctx: ToolContext, _next: Any) -> CallOutcome:
        return answer(wrong)

    assert err(await execute_one(giving("x"), interceptors=[careless])).code == "execution_failed"


async def test_an_interceptor_cannot_raise_trust_but_may_lower_it() -> None:
    def saying(*, trusted: bool) -> Any:
        async def say(_call: Call, _ctx: ToolContext, _next: Any) -> CallOutcome:
            return answer(Ok("believe me", trusted=trusted))

        return say

    async def trust(tool_trusts: bool, interceptor: Any) -> bool:
        return ok(await execute_one(giving("x", trusted=tool_trusts), interceptors=[interceptor])).trusted

    assert await trust(False, saying(trusted=True)) is False
    assert await trust(True, saying(trusted=True)) is True
    assert await trust(True, saying(trusted=False)) is False
    assert await trust(True, passing) is True
    assert await trust(False, passing) is False


async def test_a_call_runs_once_however_often_an_interceptor_goes_on() -> None:
    async def eager(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        first = await next()
        second = await next()
        assert first is second
        return second

    ctx, warnings = hearing()
    tool, runs = counting()
    outcome = await execute_one(tool, interceptors=[eager], ctx=ctx)

    assert ok(outcome).value == "ran"
    assert len(runs) == 1
    assert len(warnings) == 1


async def test_going_on_twice_at_once_is_refused() -> None:
    async def hasty(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        outcomes: list[CallOutcome] = []

        async def go_on() -> None:
            outcomes.append(await next())

        async with anyio.create_task_group() as group:
            group.start_soon(go_on)
            group.start_soon(go_on)
        return outcomes[0]

    started: list[int] = []

    async def slow(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.append(1)
        await anyio.sleep_forever()
        return "slow"

    with anyio.fail_after(30):
        outcome = await execute_one(make("slow", slow), interceptors=[hasty])

    assert not outcome.ok
    assert started == [1]


async def test_an_interceptor_cannot_put_another_call_in_the_place_of_the_one_that_was_checked() -> None:
    async def swap(call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        return await next(replace(call, args={"n": 666}))

    tool, runs = counting()

    assert err(await execute_one(tool, {"n": 1}, interceptors=[swap])).code == "not_available"
    assert runs == []


async def test_refused_calls_never_reach_an_interceptor() -> None:
    seen: list[str] = []

    async def note(call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        seen.append(call.tool_call_id)
        return await next()

    calls = [call("gone", call_id="1"), call("give", "{", call_id="2"), call("give", call_id="3")]
    await execute([giving("x")], calls, interceptors=[note])

    assert seen == ["3"]


async def test_an_interceptor_sees_failures_as_outcomes_and_may_replace_them() -> None:
    async def mend(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        outcome = await next()
        return outcome if outcome.ok else replace(outcome, result=Ok("mended"))

    outcome = await execute_one(raising(ValueError("x")), interceptors=[mend])

    assert ok(outcome).value == "mended"
    assert outcome.attempts == 1


async def test_cancelling_passes_through_interceptors() -> None:
    inside = anyio.Event()
    ended: list[str] = []

    async def watch(_call: Call, _ctx: ToolContext, next: Any) -> CallOutcome:
        try:
            return await next()
        finally:
            ended.append("interceptor")

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        inside.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("tool")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: execute_one(make("hang", hang), interceptors=[watch]))
            await inside.wait()
            group.cancel_scope.cancel()

    assert ended == ["tool", "interceptor"]
