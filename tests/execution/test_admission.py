"""The refusals, in their order; what is shown is what may run, and a refusal names nothing the caller may not see."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle import Backends, Call, CallOutcome, Capabilities, Executor, Tool, ToolContext, ToolFilter, ToolRegistry
from spindle.capabilities import FileReach
from tests.execution.calling import call, counting, err, execute, execute_one, giving, hearing, make, ok
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

NEEDS: dict[str, Any] = {
    "network": ["a.example"],
    "secrets": ["KEY"],
    "storage": "tool",
    "files": FileReach(read=["data"]),
    "process": ["git"],
    "attachments": ["image"],
}
ONE_NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def all_wrong(**better: Any) -> Tool:
    """A tool that every gate refuses, but for what is better."""
    wrong: dict[str, Any] = {
        "is_available": lambda: False,
        "capabilities": Capabilities(network=["a.example"]),
        "input_schema": ONE_NUMBER,
        "requires_approval": True,
    }
    return giving("ran", **(wrong | better))


async def refusal(tool: Tool, args: Any = None, **settings: Any) -> Any:
    return err(await execute_one(tool, args, **settings))


async def test_the_first_check_that_refuses_is_reported() -> None:
    excluded = ToolFilter(exclude_tools=["give"], allowed_tools=[])
    not_allowed = ToolFilter(allowed_tools=[])
    network: Any = object()
    served = {"backends": Backends(network=network)}
    reported = [
        (await execute([all_wrong()], [call("gone")]))[0],
        await execute_one(all_wrong(), filter=excluded),
        await execute_one(all_wrong(), filter=not_allowed),
        await execute_one(all_wrong()),
        await execute_one(all_wrong(is_available=None)),
        await execute_one(all_wrong(is_available=None), **served),
        await execute_one(all_wrong(is_available=None), {"n": 1}, **served),
        await execute_one(all_wrong(is_available=None, requires_approval=False), {"n": 1}, **served),
    ]

    codes = [None if each.ok else err(each).code for each in reported]
    assert codes == [*["not_available"] * 5, "input_invalid", "needs_approval", None]
    words = ["no tool 'gone'", "switched off", "not among", "not available at the moment", "requires network"]
    for outcome, word in zip(reported, words, strict=False):
        assert word in err(outcome).error
    assert [each.attempts for each in reported] == [0] * 7 + [1]


async def test_an_unavailable_tool_may_be_asked_for_again_later() -> None:
    assert (await refusal(giving("x", is_available=lambda: False))).retryable is True
    assert (await refusal(giving("x"), filter=ToolFilter(allowed_tools=[]))).retryable is False


async def test_the_refusal_of_an_unknown_name_suggests_the_closest_names() -> None:
    tools = [giving("x", name) for name in ("search_orders", "search_order_items", "send_mail", "weather")]

    refused = err((await execute(tools, [call("serch_orders")]))[0])

    assert refused.code == "not_available"
    assert refused.field == "name"
    assert "'search_orders'" in refused.error
    assert "'weather'" not in refused.error


@pytest.mark.parametrize("name", ["SearchOrders", "search-orders", "search orders"])
async def test_another_spelling_finds_the_name(name: str) -> None:
    tools = [giving("x", "search_orders"), giving("x", "weather")]

    assert "'search_orders'" in err((await execute(tools, [call(name)]))[0]).error


async def test_the_refusal_of_an_unrelated_name_lists_the_tools() -> None:
    refused = err((await execute([giving("x", "weather"), giving("x", "mail")], [call("zzz")]))[0])

    assert "'weather'" in refused.error
    assert "'mail'" in refused.error


@pytest.mark.parametrize("name", ["", "x" * 10_000, "\x1b[31m", "a\nb", "\ud800", "mcp__", "ünïcödé", "\u200b"])
async def test_any_text_is_a_name_that_may_be_unknown(name: str) -> None:
    (outcome,) = await execute([giving("x")], [Call("c1", name, {})])

    refused = err(outcome)
    assert refused.code in {"not_available", "input_invalid"}
    assert len(refused.error) < 500
    assert refused.error.isprintable()
    assert len(outcome.checksum) == 64


async def test_the_refusal_of_an_unknown_name_reveals_no_hidden_tool() -> None:
    def broken() -> bool:
        raise RuntimeError("ask later")

    def leaving() -> bool:
        raise SystemExit(1)

    registry = ToolRegistry([giving("x", "secret_hidden"), giving("x", "secret_seen")])
    registry.hide("secret_hidden")
    registry.register(giving("x", "secret_away", is_available=lambda: False))
    registry.register(giving("x", "secret_broken", is_available=broken))
    registry.register(giving("x", "secret_leaving", is_available=leaving))
    registry.register(giving("x", "secret_excluded"))
    registry.register(giving("x", "secret_plugin"), plugin_id="p")
    registry.register(giving("x", "mcp__a__secret"))
    seen = ToolFilter(exclude_tools=["secret_excluded"], allowed_plugins=[], allowed_mcp_servers=[])

    for name in ("secret_hiden", "secret_awai", "secret_brokn", "mcp__a__secrets", "zzz", "secret_plugins"):
        refused = err((await execute(registry, [call(name)], filter=seen))[0])
        others = refused.error.replace(repr(name), "")
        for unseen in ("hidden", "away", "broken", "leaving", "excluded", "plugin", "mcp__"):
            assert unseen not in others
        assert "secret_seen" in others


async def test_a_refusal_by_the_filter_names_no_other_tool() -> None:
    tools = [giving("x", name) for name in ("asked_for", "other_one")]

    (outcome,) = await execute(tools, [call("asked_for")], filter=ToolFilter(allowed_tools=["other_one"]))

    assert "'asked_for'" in err(outcome).error
    assert "other_one" not in err(outcome).error


async def test_a_hidden_tool_may_be_called() -> None:
    registry = ToolRegistry([giving("here", "hidden")])
    registry.hide("hidden")

    assert ok((await execute(registry, [call("hidden")]))[0]).value == "here"


async def test_always_include_needs_no_allowance_but_exclusion_beats_it() -> None:
    tool = giving("ran", always_include=True)

    assert (await execute_one(tool, filter=ToolFilter(allowed_tools=[]))).ok
    refused = await execute_one(tool, filter=ToolFilter(allowed_tools=["give"], exclude_tools=["give"]))
    assert err(refused).code == "not_available"


async def test_without_a_list_there_is_not_a_filter_and_an_empty_one_allows_none() -> None:
    tool, runs = counting()

    assert (await execute_one(tool, filter=ToolFilter(allowed_tools=None))).ok
    assert err(await execute_one(tool, filter=ToolFilter(allowed_tools=[]))).code == "not_available"
    assert len(runs) == 1


KINDS = ("plain", "included", "mcp__a__x", "mcp__a__y__z", "mcp__b__x", "mcp__a", "mcp__", "plugged", "mcp__a__plugged")
NAMES = st.none() | st.lists(st.sampled_from(KINDS), max_size=4)
FILTERS = st.builds(
    ToolFilter,
    allowed_tools=NAMES,
    allowed_mcp_servers=st.none() | st.lists(st.sampled_from(["a", "b", ""]), max_size=2),
    allowed_plugins=st.none() | st.lists(st.sampled_from(["p", "q"]), max_size=2),
    allowed_mcp_tools=st.none()
    | st.dictionaries(st.sampled_from(["a", "b"]), st.lists(st.sampled_from(["x", "y__z", "plugged"]), max_size=2)),
    exclude_tools=st.lists(st.sampled_from(KINDS), max_size=2),
)


def zoo(away: set[str]) -> ToolRegistry:
    registry = ToolRegistry()
    for name in KINDS:
        options: dict[str, Any] = {
            "always_include": name == "included",
            "is_available": lambda name=name: name not in away,
        }
        registry.register(giving(name, name, **options), plugin_id="p" if "plugged" in name else None)
    return registry


@settings(max_examples=examples(150), deadline=None)
@given(filter=FILTERS, away=st.sets(st.sampled_from(KINDS), max_size=2))
async def test_exactly_the_shown_tools_may_run(filter: ToolFilter, away: set[str]) -> None:
    registry = zoo(away)
    shown = [definition["name"] for definition in registry.to_definitions(filter)]

    outcomes = await execute(registry, [call(name, call_id=name) for name in KINDS], filter=filter)

    assert [each.name for each in outcomes if each.ok] == shown
    assert {err(each).code for each in outcomes if not each.ok} <= {"not_available"}


async def test_the_server_of_an_mcp_tool_comes_from_its_entry_or_else_its_name() -> None:
    registry = ToolRegistry([giving("named", "mcp__a__b__x")])
    registry.register(giving("known", "mcp__a__b__y"), mcp=("a__b", "y"))
    registry.register(giving("plain", "renamed"), mcp=("c", "z"))
    calls = [call(name) for name in ("mcp__a__b__x", "mcp__a__b__y", "renamed")]

    async def allowed(**rules: Any) -> list[bool]:
        return [each.ok for each in await execute(registry, calls, filter=ToolFilter(**rules))]

    assert await allowed(allowed_mcp_servers=["a"]) == [True, False, False]
    assert await allowed(allowed_mcp_servers=["a__b", "c"]) == [False, True, True]
    assert await allowed(allowed_mcp_tools={"a": ["b__x"], "a__b": [], "c": ["z"]}) == [True, False, True]
    assert await allowed(allowed_tools=[]) == [True, True, True]


@pytest.mark.parametrize(
    "raised", [RuntimeError("x"), SystemExit(1), KeyboardInterrupt(), StopIteration(), GeneratorExit(), BaseException()]
)
async def test_an_is_available_that_raises_refuses_its_own_calls_only(raised: BaseException) -> None:
    def ask() -> bool:
        raise raised

    ctx, warnings = hearing()
    outcomes = await execute(
        [giving("x", "broken", is_available=ask), giving("y")], [call("broken"), call("give")], ctx=ctx
    )

    assert err(outcomes[0]).code == "not_available"
    assert outcomes[0].duration_ms >= 0
    assert ok(outcomes[1]).value == "y"
    assert [each.error for each in warnings] == [raised]


async def test_is_available_is_asked_anew_for_each_call() -> None:
    answers = iter([True, False, True])
    tool = giving("x", is_available=lambda: next(answers))

    outcomes = await execute([tool], [call("give", call_id=str(n)) for n in range(3)])

    assert [each.ok for each in outcomes] == [True, False, True]


@pytest.mark.parametrize("need", NEEDS)
async def test_a_declared_need_without_its_own_backend_is_refused_and_named(need: str) -> None:
    tool, runs = counting(capabilities=Capabilities(**{need: NEEDS[need]}))
    given: dict[str, Any] = {name: object() for name in NEEDS if name != need}
    others = Backends(**given)

    for backends in (Backends(), others):
        refused = await refusal(tool, backends=backends)
        assert refused.code == "not_available"
        assert need in refused.error
    assert runs == []


@pytest.mark.parametrize("need", ["network", "secrets", "process", "attachments"])
async def test_an_empty_list_is_a_need_too(need: str) -> None:
    nothing: Any = {need: []}
    tool = giving("x", capabilities=Capabilities(**nothing))

    assert (await refusal(tool)).code == "not_available"


async def test_every_missing_backend_is_named_and_a_served_tool_gets_exactly_its_handles() -> None:
    async def reach(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        found: list[str] = []
        for name in NEEDS:
            try:
                found.append(getattr(ctx, name))
            except Exception as error:  # noqa: BLE001
                found.append(type(error).__name__)
        return ",".join(found)

    tool = make("reach", reach, capabilities=Capabilities(network=["a.example"], process=["git"]))
    handles: dict[str, Any] = {"network": "net", "process": "proc", "files": "files", "secrets": "secrets"}

    missing = await refusal(tool, backends=Backends(files=handles["files"]))
    outcome = await execute_one(tool, backends=Backends(**handles))

    assert "network" in missing.error
    assert "process" in missing.error
    assert ok(outcome).value == "net,CapabilityError,CapabilityError,CapabilityError,proc,CapabilityError"


@pytest.mark.parametrize("raised", [RuntimeError("x"), OSError(), SystemExit(1), KeyboardInterrupt(), BaseException()])
async def test_a_check_that_raises_refuses_the_call(raised: BaseException) -> None:
    def check(_args: Any, _ctx: Any) -> None:
        raise raised

    async def late(_args: Any, _ctx: Any) -> None:
        raise raised

    for guard in (check, late):
        ctx, warnings = hearing()
        tool, runs = counting(checks=[guard])
        refused = await refusal(tool, ctx=ctx)
        assert refused.code == "not_available"
        assert runs == []
        assert [each.error for each in warnings] == [raised]


async def test_a_check_that_raises_a_value_error_says_what_is_wrong_with_the_arguments() -> None:
    def check(args: Any, ctx: Any) -> None:
        assert isinstance(ctx, ToolContext)
        if args["n"] > 3:
            raise ValueError("n is at most 3")

    tool, runs = counting(checks=[check], input_schema=ONE_NUMBER)

    refused = await refusal(tool, {"n": 4})

    assert refused.code == "input_invalid"
    assert "n is at most 3" in refused.error
    assert (await execute_one(tool, {"n": 3})).ok
    assert len(runs) == 1


async def test_resources_that_cannot_be_computed_refuse_the_call() -> None:
    def resources(_args: Any) -> Any:
        raise RuntimeError("no idea")

    tool, runs = counting(resources=resources)

    assert (await refusal(tool)).code == "not_available"
    assert runs == []


async def test_refused_calls_do_not_hold_up_the_others() -> None:
    executor = Executor(ToolRegistry([giving("fine")]))
    calls = list(itertools.chain.from_iterable((call("give"), call("gone")) for _ in range(5)))

    outcomes: list[CallOutcome] = await executor.execute_parallel(calls, ToolContext("s1"))

    assert [each.ok for each in outcomes] == [True, False] * 5
