"""Calls of tools that do not exist: suggestions cost little, and no other call waits for them."""

import difflib

import anyio.lowlevel
import pytest

from spindle import Call, ToolFilter, ToolRegistry
from tests.execution.calling import err, execute, giving, make

pytestmark = pytest.mark.anyio

VERBS = ["create", "delete", "fetch", "list", "search", "update"]
THINGS = ["branch", "commit", "customer", "invoice", "message", "order", "ticket"]
NAMES = [f"{verb}_{thing}_{number}" for number in range(24) for verb in VERBS for thing in THINGS][:1_000]
TOOLS = ToolRegistry([giving("x", name) for name in NAMES])


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every pair of names that is compared by more than its lengths."""
    compared: list[str] = []
    compare = difflib.SequenceMatcher[str].quick_ratio

    def count(matcher: "difflib.SequenceMatcher[str]") -> float:
        compared.append(" ".join(vars(matcher)[side] for side in "ab"))
        return compare(matcher)

    monkeypatch.setattr(difflib.SequenceMatcher, "quick_ratio", count)
    return compared


async def test_a_name_is_looked_up_once_in_a_batch_however_often_it_is_called(comparisons: list[str]) -> None:
    calls = [Call(f"c{n}", "serch_order_7", {}) for n in range(100)]
    outcomes = await execute(TOOLS, calls)

    assert {err(each).error for each in outcomes} == {
        "There is no tool 'serch_order_7'; did you mean 'search_order_7', 'search_order_17' or 'search_order_9'?"
    }
    assert 0 < len(comparisons) == len(set(comparisons)) < 50


async def test_comparisons_grow_with_the_names_and_not_with_the_tools(comparisons: list[str]) -> None:
    names = [f"{verb}_{thing}x" for verb in VERBS for thing in THINGS]
    outcomes = await execute(TOOLS, [Call(name, name, {}) for name in names])

    for name, outcome in zip(names, outcomes, strict=True):
        assert f"did you mean '{name[:-1]}_" in err(outcome).error
    assert len(comparisons) <= 40 * len(names)


async def test_calls_start_before_suggestions_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    async def run(_args: object, _ctx: object, _meta: object) -> str:
        order.append("start")
        await anyio.lowlevel.checkpoint()
        return "ran"

    def compare(_matcher: "difflib.SequenceMatcher[str]") -> float:
        order.append("compare")
        return 0.9

    monkeypatch.setattr(difflib.SequenceMatcher, "ratio", compare)
    unknown, known = await execute([make("run", run)], [Call("a", "runn", {}), Call("b", "run", {})])

    assert known.result.ok
    assert "did you mean 'run'?" in err(unknown).error
    assert order[0] == "start"
    assert "compare" in order


async def test_a_filtered_tool_is_not_suggested_among_many() -> None:
    calls = [Call("c1", "search_order_8x", {})]
    allowed = ToolFilter(allowed_tools=[name for name in NAMES if not name.startswith("search_order_8")])
    [outcome] = await execute(TOOLS, calls, filter=allowed)

    assert "did you mean 'search_order_" in err(outcome).error
    assert "'search_order_8'" not in err(outcome).error


@pytest.mark.parametrize("name", ["", "ö" * 100_000, "search_order_1" * 5_000, "\ud800" * 40, "zq"])
async def test_a_name_that_resembles_none_is_answered_with_the_first_tools(name: str) -> None:
    [outcome] = await execute(TOOLS, [Call("c1", name, {})])

    assert "; the tools are: 'create_branch_0', " in err(outcome).error
    assert err(outcome).error.endswith(" or 980 others.")
    assert len(err(outcome).error) < 1_000
