"""Results that may be given again: to whom, for how long, and what never is."""

from dataclasses import dataclass
from typing import Any

import pytest

from spindle import (
    Artifact,
    Budget,
    CallOutcome,
    Err,
    Executor,
    Ok,
    Reducer,
    ReducerRegistry,
    Tool,
    ToolContext,
    ToolFilter,
    ToolRegistry,
)
from spindle.execution.cache import MAX_ENTRIES, ResultCache
from spindle.execution.results import HandlerResult
from spindle.tools import CachePolicy
from tests.execution.calling import artifact_of, call, err, giving, hearing, make, ok

pytestmark = pytest.mark.anyio


@dataclass
class Counted:
    """A tool that says how often it ran; `executor` has it and nothing else."""

    runs: int = 0

    def tool(self, name: str = "count", **options: Any) -> Tool:
        async def count(_args: Any, _ctx: Any, _meta: Any) -> str:
            self.runs += 1
            return f"run {self.runs}"

        return make(name, count, **({"cache": True} | options))


async def ask(
    executor: Executor, args: Any = None, ctx: ToolContext | None = None, *, filter: ToolFilter | None = None
) -> CallOutcome:
    (outcome,) = await executor.execute_parallel([call("count", args)], ctx or ToolContext("s1"), filter=filter)
    return outcome


def fresh(counted: Counted, settings: dict[str, Any] | None = None, **options: Any) -> Executor:
    return Executor(ToolRegistry([counted.tool(**options)]), **(settings or {}))


async def test_a_good_result_is_given_again_without_another_run() -> None:
    counted = Counted()
    executor = fresh(counted)

    first, second = await ask(executor, {"a": 1}), await ask(executor, {"a": 1})

    assert (ok(first).value, ok(second).value) == ("run 1", "run 1")
    assert (first.attempts, second.attempts) == (1, 0)
    assert second.tool_call_id == "c1"


async def test_without_a_policy_nothing_is_kept() -> None:
    executor = fresh(Counted(), cache=None)

    assert [ok(await ask(executor)).value for _ in range(2)] == ["run 1", "run 2"]


async def test_the_order_and_spelling_of_arguments_do_not_matter() -> None:
    counted = Counted()
    executor = fresh(counted)

    for args in (
        {"a": 1, "b": [2]},
        {"b": [2], "a": 1},
        '{"b": [2], "a": 1}',
        b'{ "a":1,"b":[2] }',
        {"a": 1.0, "b": [2]},
    ):
        await ask(executor, args)
    await ask(executor, {"a": "1", "b": [2]})

    assert counted.runs == 2


@pytest.mark.parametrize("failure", [Err("execution_failed", "no"), Err("denied", "no"), ValueError("no")])
async def test_an_error_is_never_kept(failure: Any) -> None:
    answers = [failure, "good"]

    async def answer(_args: Any, _ctx: Any, _meta: Any) -> Any:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    executor = Executor(ToolRegistry([make("count", answer, cache=True)]))

    assert not (await ask(executor)).ok
    assert ok(await ask(executor)).value == "good"


async def test_the_budget_is_applied_anew_to_what_is_kept() -> None:
    executor = Executor(ToolRegistry([giving("x" * 100, "count", cache=True)]), budget=Budget(chars=100), spool=None)
    assert ok(await ask(executor)).value == "x" * 100

    narrow = await ask(executor, ctx=ToolContext("s1", result_budget_chars=25))
    wide = await executor.execute_parallel(
        [call("count", {"n": n}, call_id=str(n)) for n in range(4)], ToolContext("s1", result_budget_chars=100)
    )
    again = await ask(executor)

    assert ok(narrow).value == "x" * 25 + "\n[truncated — 100 chars total]"
    assert {ok(outcome).value for outcome in wide} == {"x" * 25 + "\n[truncated — 100 chars total]"}
    assert ok(again).value == "x" * 100


async def test_a_result_that_was_cut_is_kept_whole() -> None:
    counted = Counted()
    executor = fresh(counted, {"budget": Budget(chars=3)})

    first, second = await ask(executor), await ask(executor, ctx=ToolContext("s1", result_budget_chars=500))

    assert ok(first).value.startswith("run\n[truncated — 5 chars total]")
    assert ok(second).value == "run 1"


async def test_approval_is_asked_before_the_cache() -> None:
    answers = [True, False]
    counted = Counted()

    async def approve(_request: Any) -> bool:
        return answers.pop(0)

    executor = fresh(counted, {"approve": approve}, requires_approval=True)

    assert ok(await ask(executor)).value == "run 1"
    assert err(await ask(executor)).code == "denied"


async def test_a_dry_run_beats_the_cache_and_is_not_kept() -> None:
    executor = fresh(Counted())
    dry = ToolContext("s1", dry_run=True)

    answers = [ok(await ask(executor, ctx=ctx)).value for ctx in (dry, ToolContext("s1"), dry)]

    assert answers[1] == "run 1"
    assert answers[0] == answers[2] == "[dry-run] count would be called with: {}"


async def test_a_tool_registered_anew_starts_anew() -> None:
    counted, registry = Counted(), ToolRegistry()
    tool = counted.tool()
    registry.register(tool)
    executor = Executor(registry)
    assert ok(await ask(executor)).value == "run 1"

    registry.unregister("count")
    registry.register(tool)
    assert ok(await ask(executor)).value == "run 2"
    registry.register(giving("another", "count", cache=True), overwrite=True)
    assert ok(await ask(executor)).value == "another"
    registry.register(tool, overwrite=True)
    assert ok(await ask(executor)).value == "run 3"


async def test_hiding_a_tool_keeps_its_cached_results() -> None:
    registry = ToolRegistry([Counted().tool()])
    executor = Executor(registry)
    await ask(executor)
    registry.hide("count")

    assert ok(await ask(executor)).value == "run 1"


CONTEXTS = [ToolContext("s1", turn_id="t1"), ToolContext("s1", turn_id="t2"), ToolContext("s2", turn_id="t1")]


@pytest.mark.parametrize(("scope", "runs"), [("session", [1, 1, 2]), ("turn", [1, 2, 3]), ("global", [1, 1, 1])])
async def test_a_result_is_given_again_only_in_its_scope(scope: Any, runs: list[int]) -> None:
    executor = fresh(Counted(), cache=CachePolicy(scope=scope))

    first = [ok(await ask(executor, ctx=ctx)).value for ctx in CONTEXTS]
    again = [ok(await ask(executor, ctx=ctx)).value for ctx in CONTEXTS]

    assert first == again == [f"run {n}" for n in runs]


async def test_a_caller_who_may_see_something_else_gets_a_result_of_their_own() -> None:
    executor = fresh(Counted())
    filters = [None, ToolFilter(allowed_tools=["count"]), ToolFilter(allowed_tools=["count", "other"])]

    first = [ok(await ask(executor, filter=each)).value for each in filters]
    again = [ok(await ask(executor, filter=each)).value for each in [ToolFilter(allowed_tools=["count"])]]

    assert first == ["run 1", "run 2", "run 3"]
    assert again == ["run 2"]
    assert not (await ask(executor, filter=ToolFilter(allowed_tools=[]))).ok


async def test_a_policys_own_key_decides_what_is_the_same() -> None:
    def by_city(args: Any) -> str:
        return args["city"].lower()

    executor = fresh(Counted(), cache=CachePolicy(key=by_city))
    asked = [{"city": "Rome", "units": "C"}, {"city": "ROME", "units": "F"}, {"city": "Oslo", "units": "C"}]

    assert [ok(await ask(executor, args)).value for args in asked] == ["run 1", "run 1", "run 2"]


@pytest.mark.parametrize("junk", [ZeroDivisionError(), ["not", "hashable"]])
async def test_a_key_that_fails_costs_the_cache_and_not_the_call(junk: Any) -> None:
    def key(_args: Any) -> Any:
        if isinstance(junk, Exception):
            raise junk
        return junk

    ctx, warnings = hearing()
    executor = fresh(Counted(), cache=CachePolicy(key=key))

    assert [ok(await ask(executor, ctx=ctx)).value for _ in range(2)] == ["run 1", "run 2"]
    assert [warned.source for warned in warnings] == ["cache", "cache"]


async def test_equal_calls_of_one_batch_run_once() -> None:
    counted = Counted()
    executor = fresh(counted)

    outcomes = await executor.execute_parallel([call("count", call_id=str(n)) for n in range(5)], ToolContext())

    assert [ok(outcome).value for outcome in outcomes] == ["run 1"] * 5


async def test_two_tools_with_equal_arguments_do_not_share() -> None:
    counted = Counted()
    executor = Executor(ToolRegistry([counted.tool("a"), counted.tool("b")]))

    outcomes = await executor.execute_parallel([call("a"), call("b", call_id="c2")], ToolContext())

    assert sorted(ok(outcome).value for outcome in outcomes) == ["run 1", "run 2"]


async def test_changing_a_cached_structure_affects_no_other_caller() -> None:
    executor = Executor(ToolRegistry([giving({"rows": [1, 2]}, "count", cache=True)]))

    for _ in range(3):
        structured = ok(await ask(executor)).structured
        assert structured == {"rows": [1, 2]}
        structured["rows"].append(3)


async def test_a_cached_result_has_no_cost() -> None:
    executor = Executor(ToolRegistry([giving(Ok("dear", structured={"a": 1}, cost_usd=2.5), "count", cache=True)]))

    first, second = ok(await ask(executor)), ok(await ask(executor))

    assert (first.cost_usd, second.cost_usd) == (2.5, None)
    assert (second.value, second.structured) == ("dear", {"a": 1})


async def test_trust_is_kept_with_the_result() -> None:
    executor = fresh(Counted(), trusted=True)

    assert [ok(await ask(executor)).trusted for _ in range(2)] == [True, True]


async def test_the_spooled_result_is_not_reduced() -> None:
    reducers = ReducerRegistry()
    reducers.register(Reducer(tool_name="count", reduce=lambda _result, _info: Ok("short")))
    executor = Executor(ToolRegistry([giving("a long text", "count", cache=True)]), reducers=reducers)

    for _ in range(2):
        result = ok(await ask(executor))
        assert (result.value, await artifact_of(result, Artifact).as_text()) == ("short", "a long text")


async def test_a_result_whose_time_is_over_is_made_anew() -> None:
    executor = fresh(Counted(), cache=CachePolicy(ttl_seconds=1e-9))

    assert [ok(await ask(executor)).value for _ in range(2)] == ["run 1", "run 2"]


def test_time_is_over_exactly_when_it_is_over() -> None:
    now = [100.0]
    cache = ResultCache(lambda: now[0])
    cache.put("key", HandlerResult(Ok("kept")), 300)

    now[0] = 399.9
    assert cache.get("key") == HandlerResult(Ok("kept"))
    now[0] = 400.0
    assert cache.get("key") is None


def test_five_minutes_in_the_session_is_what_true_means() -> None:
    assert Counted().tool(cache=True).cache == CachePolicy(ttl_seconds=300, scope="session", key=None)


async def test_a_thousand_results_are_kept_and_the_least_recently_used_goes_first() -> None:
    counted = Counted()
    executor = fresh(counted)
    assert MAX_ENTRIES == 1_000
    fill = [call("count", {"n": n}, call_id=str(n)) for n in range(1_000)]
    await executor.execute_parallel(fill, ToolContext("s1"))

    await ask(executor, {"n": 0})
    assert counted.runs == 1_000
    await ask(executor, {"n": "one more"})
    await ask(executor, {"n": 0})
    assert counted.runs == 1_001
    await ask(executor, {"n": 1})
    assert counted.runs == 1_002
