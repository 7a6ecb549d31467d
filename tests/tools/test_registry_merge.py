import pickle
from collections.abc import Callable
from itertools import product
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from spindle.errors import ToolAlreadyRegisteredError, UsageError
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry

Policy = Literal["throw", "replace", "keep"]
POLICIES: tuple[Policy, ...] = ("throw", "replace", "keep")

# (the incoming tool's own policy, the option of the merge) -> who holds the name afterwards
TABLE: dict[tuple[Policy, Policy], str] = {
    ("throw", "throw"): "raises",
    ("throw", "replace"): "incoming",
    ("throw", "keep"): "existing",
    ("replace", "throw"): "incoming",
    ("replace", "replace"): "incoming",
    ("replace", "keep"): "incoming",
    ("keep", "throw"): "existing",
    ("keep", "replace"): "existing",
    ("keep", "keep"): "existing",
}


class Query(BaseModel):
    q: str = ""


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(name: str, *, on_collision: Policy = "throw", ephemeral: bool = False) -> Tool:
    return Tool(
        name=name,
        description="A tool.",
        input_schema=Query,
        handler=answer,
        on_collision=on_collision,
        ephemeral=ephemeral,
    )


@pytest.mark.parametrize(("own", "option"), list(TABLE))
def test_the_incoming_tools_policy_and_the_option_decide_a_collision(own: Policy, option: Policy) -> None:
    existing, incoming = make("a"), make("a", on_collision=own)
    left, right = ToolRegistry([existing]), ToolRegistry([incoming])

    if TABLE[own, option] == "raises":
        with pytest.raises(ToolAlreadyRegisteredError) as caught:
            ToolRegistry.merge([left, right], on_collision=option)
        assert caught.value.tool == "a"
    else:
        merged = ToolRegistry.merge([left, right], on_collision=option)
        assert merged.all() == [{"existing": existing, "incoming": incoming}[TABLE[own, option]]]

    assert left.all() == [existing]
    assert right.all() == [incoming]


@pytest.mark.parametrize(("own", "existing_policy"), list(product(POLICIES, POLICIES)))
def test_the_existing_tools_policy_is_never_asked(own: Policy, existing_policy: Policy) -> None:
    existing, incoming = make("a", on_collision=existing_policy), make("a", on_collision=own)
    merged = ToolRegistry.merge([ToolRegistry([existing]), ToolRegistry([incoming])], on_collision="keep")
    assert merged.get("a") is (incoming if own == "replace" else existing)


def test_throw_is_the_default() -> None:
    with pytest.raises(ToolAlreadyRegisteredError):
        ToolRegistry.merge([ToolRegistry([make("a")]), ToolRegistry([make("a")])])


def test_a_replaced_tool_keeps_the_place_of_the_first_occurrence() -> None:
    left = ToolRegistry([make("a"), make("b"), make("c")])
    right = ToolRegistry([make("d"), make("b", on_collision="replace")])
    merged = ToolRegistry.merge([left, right])
    assert [tool.name for tool in merged] == ["a", "b", "c", "d"]
    assert merged.get("b") is right.get("b")


def test_three_registries_are_merged_pair_by_pair_against_the_current_holder() -> None:
    first, second, third = make("a"), make("a", on_collision="replace"), make("a", on_collision="keep")
    registries = [ToolRegistry([tool]) for tool in (first, second, third)]
    assert ToolRegistry.merge(registries).get("a") is second
    assert ToolRegistry.merge([registries[0], registries[2], registries[1]]).get("a") is second
    assert ToolRegistry.merge([registries[1], registries[2], registries[0]], on_collision="replace").get("a") is first


def test_a_clash_in_the_third_registry_raises_and_leaves_every_input_alone() -> None:
    registries = [ToolRegistry([make("a")]), ToolRegistry([make("b")]), ToolRegistry([make("c"), make("b")])]
    before = [registry.all() for registry in registries]
    with pytest.raises(ToolAlreadyRegisteredError) as caught:
        ToolRegistry.merge(registries)
    assert caught.value.tool == "b"
    assert [registry.all() for registry in registries] == before


@pytest.mark.parametrize("count", [0, 1])
def test_the_result_is_always_fresh(count: int) -> None:
    inputs = [ToolRegistry([make("a")]) for _ in range(count)]
    merged = ToolRegistry.merge(inputs)
    merged.register(make("b"))
    assert len(merged) == count + 1
    assert all(not registry.has("b") for registry in inputs)


def test_plugin_id_and_hidden_flag_travel_with_the_winner_only() -> None:
    left, right = ToolRegistry(), ToolRegistry()
    left.register(make("a"), plugin_id="left")
    left.hide("a")
    right.register(make("a"), plugin_id="right")

    replaced = ToolRegistry.merge([left, right], on_collision="replace")
    assert (replaced.plugin_id("a"), replaced.is_hidden("a")) == ("right", False)

    kept = ToolRegistry.merge([left, right], on_collision="keep")
    assert (kept.plugin_id("a"), kept.is_hidden("a")) == ("left", True)

    hidden_loser = ToolRegistry.merge([right, left], on_collision="keep")
    assert (hidden_loser.plugin_id("a"), hidden_loser.is_hidden("a")) == ("right", False)


def test_mcp_provenance_travels_with_the_winner() -> None:
    left, right = ToolRegistry([make("search")]), ToolRegistry()
    right.register(make("search"), mcp=("shop", "find"))
    entry = ToolRegistry.merge([left, right], on_collision="replace").entry("search")
    assert entry is not None
    assert (entry.mcp_server, entry.mcp_tool) == ("shop", "find")


def test_ephemeral_travels_with_the_tool_and_is_pruned_in_the_result_alone() -> None:
    source = ToolRegistry([make("a", ephemeral=True), make("b")])
    merged = ToolRegistry.merge([source])
    assert merged.prune_ephemeral() == ["a"]
    assert source.has("a")


class Context:
    def __init__(self) -> None:
        self.handlers: list[Callable[[], object]] = []

    def on_ack(self, fn: Callable[[], object], /) -> Callable[[], object]:
        self.handlers.append(fn)
        return lambda: None


def test_bindings_are_not_copied() -> None:
    source, ctx = ToolRegistry([make("a", ephemeral=True)]), Context()
    source.bind_context(ctx)
    merged = ToolRegistry.merge([source])
    for handler in ctx.handlers:
        handler()
    assert not source.has("a")
    assert merged.has("a")


def test_a_clash_says_where_both_tools_came_from_and_pickles() -> None:
    left, right = ToolRegistry(), ToolRegistry()
    left.register(make("a"), plugin_id="shop")
    right.register(make("a"), mcp=("crm", "a"))
    with pytest.raises(ToolAlreadyRegisteredError) as caught:
        ToolRegistry.merge([left, right])
    assert caught.value.existing is not None
    assert caught.value.incoming is not None
    assert "shop" in caught.value.existing
    assert "crm" in caught.value.incoming
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.tool, again.existing, again.incoming) == ("a", caught.value.existing, caught.value.incoming)


@pytest.mark.parametrize("bad", ["", "overwrite", None, True])
def test_an_unknown_policy_is_refused_even_without_a_clash(bad: Policy) -> None:
    with pytest.raises(UsageError) as caught:
        ToolRegistry.merge([ToolRegistry()], on_collision=bad)
    assert caught.value.field == "on_collision"


def test_only_registries_can_be_merged() -> None:
    for bad in ([[make("a")]], ToolRegistry([make("a")]), [None]):
        with pytest.raises(UsageError) as caught:
            ToolRegistry.merge(bad)  # pyright: ignore[reportArgumentType]  that it is refused is the point
        assert caught.value.field == "registries"


rows = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(POLICIES)), unique_by=lambda row: row[0])


@given(st.lists(rows, max_size=4), st.sampled_from(POLICIES))
def test_merging_agrees_with_walking_the_table_by_hand(tables: list[list[tuple[str, Policy]]], option: Policy) -> None:
    registries = [ToolRegistry([make(name, on_collision=own) for name, own in table]) for table in tables]
    expected: dict[str, Tool] = {}
    for tool in (tool for registry in registries for tool in registry):
        winner = TABLE[tool.on_collision, option] if tool.name in expected else "incoming"
        if winner == "raises":
            with pytest.raises(ToolAlreadyRegisteredError) as caught:
                ToolRegistry.merge(registries, on_collision=option)
            assert caught.value.tool == tool.name
            return
        if winner == "incoming":
            expected[tool.name] = tool
    assert ToolRegistry.merge(registries, on_collision=option).all() == list(expected.values())
