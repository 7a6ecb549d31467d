import copy
from collections.abc import Callable, Iterator

import pytest
from pydantic import BaseModel

from spindle.errors import InvalidToolError, ToolAlreadyRegisteredError, UnknownToolError, UsageError
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry


class Query(BaseModel):
    q: str = ""


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(
    name: str,
    *,
    ephemeral: bool = False,
    toolset: str | None = None,
    is_available: Callable[[], bool] | None = None,
) -> Tool:
    return Tool(
        name=name,
        description=f"The tool {name}.",
        input_schema=Query,
        handler=answer,
        ephemeral=ephemeral,
        toolset=toolset,
        is_available=is_available,
    )


def names(registry: ToolRegistry) -> list[str]:
    return [tool.name for tool in registry]


def test_the_constructor_registers_in_order() -> None:
    tools = [make("c"), make("a"), make("b")]
    assert ToolRegistry(tools).all() == tools
    assert ToolRegistry(iter(tools)).all() == tools
    assert ToolRegistry().all() == []


def test_the_constructor_refuses_a_duplicate_name() -> None:
    with pytest.raises(ToolAlreadyRegisteredError) as caught:
        ToolRegistry([make("a"), make("b"), make("a")])
    assert caught.value.tool == "a"


def test_a_registry_made_of_a_registry_keeps_plugin_ids_and_hidden_flags() -> None:
    source = ToolRegistry()
    source.register(make("a"), plugin_id="p", mcp=("s", "t"))
    source.hide("a")
    made = ToolRegistry(source)
    assert made.entry("a") == source.entry("a")
    made.unregister("a")
    assert source.has("a")


def test_a_clash_raises_and_names_both_tools_and_where_they_came_from() -> None:
    registry = ToolRegistry()
    first = make("a")
    registry.register(first, plugin_id="shop")

    with pytest.raises(ToolAlreadyRegisteredError) as caught:
        registry.register(make("a"), plugin_id="crm")

    error = caught.value
    assert (error.tool, error.code, error.status, error.fatal) == ("a", "E_TOOL_ALREADY_REGISTERED", 409, True)
    assert error.existing is not None
    assert error.incoming is not None
    assert first.origin in error.existing
    assert "shop" in error.existing
    assert "crm" in error.incoming
    assert registry.all() == [first]
    assert registry.plugin_id("a") == "shop"


@pytest.mark.parametrize("policy", ["throw", "replace", "keep"])
def test_registering_ignores_the_tools_own_collision_policy(policy: str) -> None:
    def clashing() -> Tool:
        return Tool(
            name="a",
            description="A tool.",
            input_schema=Query,
            handler=answer,
            on_collision=policy,  # pyright: ignore[reportArgumentType]
        )

    registry = ToolRegistry([clashing()])
    with pytest.raises(ToolAlreadyRegisteredError):
        registry.register(clashing())


def test_overwriting_keeps_the_place_and_the_hidden_flag() -> None:
    registry = ToolRegistry([make("a"), make("b"), make("c")])
    registry.hide("b")
    replacement = make("b")
    registry.register(replacement, overwrite=True)
    assert names(registry) == ["a", "b", "c"]
    assert registry.get("b") is replacement
    assert registry.is_hidden("b")


def test_overwriting_takes_the_new_plugin_id_and_none_clears_it() -> None:
    registry = ToolRegistry()
    registry.register(make("a"), plugin_id="old", mcp=("s", "t"))
    registry.register(make("a"), overwrite=True, plugin_id="new")
    assert registry.plugin_id("a") == "new"
    registry.register(make("a"), overwrite=True)
    entry = registry.entry("a")
    assert entry is not None
    assert (entry.plugin_id, entry.mcp_server, entry.mcp_tool) == (None, None, None)


def test_overwriting_an_unknown_name_appends() -> None:
    registry = ToolRegistry([make("a")])
    registry.register(make("b"), overwrite=True)
    assert names(registry) == ["a", "b"]


class LooksLikeATool:
    name = "a"
    description = "A tool."
    ephemeral = False

    def describe(self) -> dict[str, object]:
        return {"name": "a", "description": "A tool.", "input_schema": {}}


class Namesake:
    """Has the right class name, and nothing else."""

    name = "a"


Namesake.__name__ = Namesake.__qualname__ = "Tool"


@pytest.mark.parametrize("bad", [None, "a", {"name": "a"}, LooksLikeATool(), Namesake(), Tool, len])
def test_only_real_tools_are_accepted(bad: Tool) -> None:
    registry = ToolRegistry()
    with pytest.raises(InvalidToolError):
        registry.register(bad)
    with pytest.raises(InvalidToolError):
        registry.register(bad, overwrite=True)
    with pytest.raises(InvalidToolError):
        registry.register_all([make("b"), bad])
    with pytest.raises(InvalidToolError):
        ToolRegistry([bad])
    assert registry.all() == []


@pytest.mark.parametrize("bad", [5, None, make("a")], ids=["int", "None", "a tool"])
def test_a_value_that_is_not_a_list_of_tools_is_refused(bad: list[Tool]) -> None:
    with pytest.raises(InvalidToolError):
        ToolRegistry(bad)


@pytest.mark.parametrize("bad", ["", 5, ["p"]])
def test_a_malformed_plugin_id_is_refused(bad: str) -> None:
    registry = ToolRegistry()
    with pytest.raises(UsageError) as caught:
        registry.register(make("a"), plugin_id=bad)
    assert caught.value.field == "plugin_id"
    assert not registry.has("a")


@pytest.mark.parametrize("bad", ["server", ("server",), ("server", None), ("a", "b", "c"), ()])
def test_malformed_mcp_provenance_is_refused(bad: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        ToolRegistry().register(make("a"), mcp=bad)
    assert caught.value.field == "mcp"


def test_register_all_is_all_or_nothing() -> None:
    registry = ToolRegistry([make("a")])
    for bad in ([make("b"), make("a")], [make("b"), make("b")], [make("b"), None]):
        with pytest.raises(UsageError):
            registry.register_all(bad)  # pyright: ignore[reportArgumentType]
        assert names(registry) == ["a"]


def test_register_all_is_all_or_nothing_when_the_tools_stop_coming() -> None:
    def breaking() -> Iterator[Tool]:
        yield make("b")
        raise OSError

    registry = ToolRegistry()
    with pytest.raises(OSError):  # noqa: PT011  any text will do
        registry.register_all(breaking())
    assert len(registry) == 0


def test_register_all_tags_every_tool_with_the_plugin() -> None:
    registry = ToolRegistry()
    registry.register_all([make("a"), make("b")], plugin_id="p")
    assert [registry.plugin_id(name) for name in ("a", "b", "c")] == ["p", "p", None]


def test_a_tool_registered_by_its_own_source_while_being_listed_is_a_clash_not_a_silent_overwrite() -> None:
    registry = ToolRegistry()
    first = make("a")

    def sly() -> Iterator[Tool]:
        yield make("a")
        registry.register(first)

    with pytest.raises(ToolAlreadyRegisteredError):
        registry.register_all(sly())
    assert registry.all() == [first]


def test_unregistering_forgets_everything_and_ignores_an_unknown_name() -> None:
    registry = ToolRegistry([make("a"), make("b")])
    registry.hide("a")
    registry.unregister("a")
    registry.unregister("a")
    registry.unregister("never")
    assert names(registry) == ["b"]
    registry.register(make("a"))
    assert names(registry) == ["b", "a"]
    assert not registry.is_hidden("a")


def test_get_has_and_in_find_hidden_tools_too() -> None:
    tool = make("a")
    registry = ToolRegistry([tool])
    registry.hide("a")
    assert registry.get("a") is tool
    assert registry.has("a")
    assert "a" in registry
    assert registry.get("b") is None
    assert registry.entry("b") is None
    assert not registry.has("b")
    assert "b" not in registry
    assert tool not in registry
    assert [] not in registry


def test_all_is_a_fresh_list_of_the_live_tools() -> None:
    tool = make("a")
    registry = ToolRegistry([tool])
    listed = registry.all()
    listed.clear()
    assert registry.all() == [tool]
    assert registry.all()[0] is tool


def test_an_empty_registry_is_falsy_by_length_alone_and_iterates_nothing() -> None:
    assert len(ToolRegistry()) == 0
    assert list(ToolRegistry()) == []


def test_the_registry_may_change_while_it_is_iterated() -> None:
    registry = ToolRegistry([make("a"), make("b")])
    seen: list[str] = []
    for tool in registry:
        seen.append(tool.name)
        registry.unregister(tool.name)
        registry.register(make(tool.name.upper()))
    assert seen == ["a", "b"]
    assert names(registry) == ["A", "B"]


def test_get_for_toolset_gives_the_available_tools_of_exactly_that_toolset() -> None:
    registry = ToolRegistry(
        [make("a", toolset="x"), make("b", toolset="xy"), make("c"), make("d", toolset="x", is_available=lambda: False)]
    )
    assert [tool.name for tool in registry.get_for_toolset("x")] == ["a"]
    assert registry.get_for_toolset("") == []


def test_pruning_removes_ephemeral_tools_alone_and_is_idempotent() -> None:
    registry = ToolRegistry([make("a", ephemeral=True), make("b"), make("c", ephemeral=True)])
    registry.hide("a")
    assert registry.prune_ephemeral() == ["a", "c"]
    assert registry.prune_ephemeral() == []
    assert names(registry) == ["b"]
    registry.register(make("a"))
    assert not registry.is_hidden("a")


def test_a_hidden_tool_is_not_shown_but_may_be_found() -> None:
    registry = ToolRegistry([make("a"), make("b")])
    registry.hide("a")
    registry.hide("a")
    assert [reported["name"] for reported in registry.to_definitions()] == ["b"]
    assert [tool.name for tool in registry.get_available()] == ["a", "b"]
    registry.show("a")
    registry.show("a")
    assert [reported["name"] for reported in registry.to_definitions()] == ["a", "b"]


@pytest.mark.parametrize("method", ["hide", "show", "is_hidden"])
def test_an_unknown_name_cannot_be_hidden_or_shown_and_near_names_are_offered(method: str) -> None:
    registry = ToolRegistry([make("search_orders"), make("zzz")])
    with pytest.raises(UnknownToolError) as caught:
        getattr(registry, method)("search_order")
    assert caught.value.tool == "search_order"
    assert "'search_orders'" in caught.value.message
    assert "zzz" not in caught.value.message
    registry.register(make("search_order"))
    assert not registry.is_hidden("search_order")


@pytest.mark.parametrize("copied", [ToolRegistry.copy, copy.copy], ids=["copy()", "copy.copy"])
def test_a_copy_has_the_same_entries_and_a_life_of_its_own(copied: Callable[[ToolRegistry], ToolRegistry]) -> None:
    registry = ToolRegistry([make("a", ephemeral=True), make("b")])
    registry.register(make("c"), plugin_id="p", mcp=("s", "t"))
    registry.hide("b")

    twin = copied(registry)
    assert [twin.entry(tool.name) for tool in twin] == [registry.entry(tool.name) for tool in registry]

    twin.prune_ephemeral()
    twin.show("b")
    twin.register(make("d"))
    registry.unregister("c")
    assert (names(twin), names(registry)) == (["b", "c", "d"], ["a", "b"])
    assert registry.is_hidden("b")


def test_a_copy_shares_its_entries_so_that_it_is_one_dict_copy() -> None:
    registry = ToolRegistry([make("a")])
    assert registry.copy().entry("a") is registry.entry("a")


def test_only_a_registry_is_a_registry() -> None:
    class Mine(ToolRegistry):
        pass

    class Other:
        pass

    Other.__name__ = "ToolRegistry"
    assert ToolRegistry.is_tool_registry(ToolRegistry())
    assert ToolRegistry.is_tool_registry(Mine())
    others: list[object] = [[], {}, None, "ToolRegistry", ToolRegistry, Other()]
    for other in others:
        assert not ToolRegistry.is_tool_registry(other)


def test_copies_and_merges_of_a_subclass_are_of_that_subclass() -> None:
    class Mine(ToolRegistry):
        pass

    assert isinstance(Mine([make("a")]).copy(), Mine)
    assert isinstance(Mine.merge([ToolRegistry([make("a")])]), Mine)
