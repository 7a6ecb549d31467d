import dataclasses
import pickle
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from spindle.errors import InvalidToolFilterError
from spindle.tools import filters as filters_module
from spindle.tools.declaration import Tool
from spindle.tools.entry import Entry
from spindle.tools.filters import ToolFilter, allows_feature, find_refusal, intersect_filters, validate_filter
from spindle.tools.registry import ToolRegistry


class Query(BaseModel):
    q: str = ""


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(name: str, *, always_include: bool = False, available: bool = True) -> Tool:
    return Tool(
        name=name,
        description=f"The tool {name}.",
        input_schema=Query,
        handler=answer,
        always_include=always_include,
        is_available=None if available else lambda: False,
    )


@pytest.fixture
def registry() -> ToolRegistry:
    """Built-ins, tools of two MCP servers, and plugin tools."""
    registry = ToolRegistry([make("read"), make("write"), make("help", always_include=True)])
    registry.register_all([make("mcp__shop__find"), make("mcp__shop__buy__now"), make("mcp__crm__find")])
    registry.register(make("weather"), plugin_id="sky")
    registry.register(make("tides"), plugin_id="sea")
    return registry


def shown(registry: ToolRegistry, filter: ToolFilter | None) -> list[str]:
    return [definition["name"] for definition in registry.to_definitions(filter)]


BUILTINS = ["read", "write", "help"]
MCP = ["mcp__shop__find", "mcp__shop__buy__now", "mcp__crm__find"]
PLUGINS = ["weather", "tides"]


def test_no_filter_shows_everything_in_order(registry: ToolRegistry) -> None:
    assert shown(registry, None) == shown(registry, ToolFilter()) == BUILTINS + MCP + PLUGINS


def test_the_name_allowlist_judges_built_ins_alone(registry: ToolRegistry) -> None:
    assert shown(registry, ToolFilter(allowed_tools=["write"])) == ["write", "help", *MCP, *PLUGINS]


def test_listing_a_plugin_or_mcp_tool_by_name_does_not_help_it(registry: ToolRegistry) -> None:
    wanted = ToolFilter(allowed_tools=["weather", "mcp__crm__find"], allowed_mcp_servers=[], allowed_plugins=[])
    assert shown(registry, wanted) == ["help"]


def test_an_empty_allowlist_allows_no_built_in_but_those_always_included(registry: ToolRegistry) -> None:
    assert shown(registry, ToolFilter(allowed_tools=[])) == ["help", *MCP, *PLUGINS]


@pytest.mark.parametrize(("servers", "expected"), [(["shop"], MCP[:2]), (["crm", "unknown"], MCP[2:]), ([], [])])
def test_only_tools_of_allowed_servers_are_shown(
    registry: ToolRegistry, servers: list[str], expected: list[str]
) -> None:
    assert shown(registry, ToolFilter(allowed_mcp_servers=servers)) == BUILTINS + expected + PLUGINS


@pytest.mark.parametrize(("plugins", "expected"), [(["sky"], ["weather"]), (["sea", "sky"], PLUGINS), ([], [])])
def test_only_tools_of_allowed_plugins_are_shown(
    registry: ToolRegistry, plugins: list[str], expected: list[str]
) -> None:
    assert shown(registry, ToolFilter(allowed_plugins=plugins)) == BUILTINS + MCP + expected


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ({"shop": ["find"]}, [MCP[0], MCP[2]]),
        ({"shop": ["buy__now"]}, [MCP[1], MCP[2]]),
        ({"shop": []}, [MCP[2]]),
        ({"shop": ["mcp__shop__find"]}, [MCP[2]]),
        ({}, MCP),
        ({"unknown": []}, MCP),
    ],
)
def test_a_listed_server_exposes_its_listed_bare_names_and_an_unlisted_one_all(
    registry: ToolRegistry, offered: dict[str, list[str]], expected: list[str]
) -> None:
    assert shown(registry, ToolFilter(allowed_mcp_tools=offered)) == BUILTINS + expected + PLUGINS


def test_listing_a_servers_tools_does_not_allow_the_server(registry: ToolRegistry) -> None:
    wanted = ToolFilter(allowed_mcp_servers=["crm"], allowed_mcp_tools={"shop": ["find"]})
    assert shown(registry, wanted) == [*BUILTINS, MCP[2], *PLUGINS]


def test_exclusion_beats_every_allowance_and_always_include(registry: ToolRegistry) -> None:
    excluded = ["help", "read", "mcp__shop__find", "weather"]
    wanted = ToolFilter(
        allowed_tools=["read", "write", "help"],
        allowed_mcp_servers=["shop"],
        allowed_plugins=["sky"],
        exclude_tools=excluded,
    )
    assert shown(registry, wanted) == ["write", "mcp__shop__buy__now"]


def test_always_include_bypasses_the_name_allowlist_only() -> None:
    registry = ToolRegistry([make("mcp__shop__find", always_include=True)])
    registry.register(make("weather", always_include=True), plugin_id="sky")
    assert shown(registry, ToolFilter(allowed_mcp_servers=[], allowed_plugins=[])) == []


@pytest.mark.parametrize(
    ("servers", "plugins", "expected"),
    [(["shop"], ["sky"], True), (["shop"], [], False), ([], ["sky"], False), (None, ["sky"], True)],
)
def test_a_plugins_mcp_tool_is_judged_by_both_rules(
    servers: list[str] | None, plugins: list[str], expected: bool
) -> None:
    registry = ToolRegistry()
    registry.register(make("mcp__shop__find"), plugin_id="sky")
    wanted = ToolFilter(allowed_tools=[], allowed_mcp_servers=servers, allowed_plugins=plugins)
    assert bool(shown(registry, wanted)) is expected


def test_provenance_given_as_data_rules_over_the_name() -> None:
    registry = ToolRegistry()
    registry.register(make("find_orders"), mcp=("a__b", "find"))
    registry.register(make("mcp__a__b__find"), mcp=("a__b", "find"))
    assert shown(registry, ToolFilter(allowed_mcp_servers=["a"])) == []
    both = ["find_orders", "mcp__a__b__find"]
    assert shown(registry, ToolFilter(allowed_tools=[], allowed_mcp_servers=["a__b"])) == both
    assert shown(registry, ToolFilter(allowed_mcp_tools={"a__b": ["find"], "a": []})) == both


def test_the_rule_that_refused_is_named_and_the_words_name_no_other_tool(registry: ToolRegistry) -> None:
    wanted = ToolFilter(
        allowed_tools=["write"],
        allowed_mcp_servers=["shop"],
        allowed_mcp_tools={"shop": ["find"]},
        allowed_plugins=["sea"],
        exclude_tools=["tides"],
    )
    expected = {
        "read": "allowed_tools",
        "mcp__crm__find": "allowed_mcp_servers",
        "mcp__shop__buy__now": "allowed_mcp_tools",
        "weather": "allowed_plugins",
        "tides": "exclude_tools",
    }
    refused = {tool.name: find_refusal(entry_of(registry, tool.name), wanted) for tool in registry}
    assert {name: why.rule for name, why in refused.items() if why} == expected
    for name, why in refused.items():
        others = [other for other in registry if other.name != name]
        assert why is None or (name in why.message and not any(repr(other.name) in why.message for other in others))


def test_an_excluded_tool_is_refused_as_excluded_whatever_else_refuses_it(registry: ToolRegistry) -> None:
    why = find_refusal(entry_of(registry, "read"), ToolFilter(allowed_tools=[], exclude_tools=["read"]))
    assert why is not None
    assert why.rule == "exclude_tools"


def test_a_filter_is_a_frozen_hashable_value_however_its_lists_are_given() -> None:
    lists = ToolFilter(["a", "b"], ["s"], ["p"], {"s": ["x", "y"], "t": []}, ["z"])
    others = ToolFilter(
        allowed_tools=(name for name in "ba"),
        allowed_mcp_servers=frozenset("s"),
        allowed_plugins=("p", "p"),
        allowed_mcp_tools={"t": (), "s": {"y", "x"}},
        exclude_tools={"z"},
    )
    assert lists == others
    assert hash(lists) == hash(others)
    assert len({lists, others, ToolFilter()}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        lists.allowed_tools = None  # pyright: ignore[reportAttributeAccessIssue]  that it is refused is the point


def test_none_and_empty_are_different_filters() -> None:
    assert len({ToolFilter(), ToolFilter([]), ToolFilter(None, []), ToolFilter(allowed_mcp_tools={})}) == 4


def test_changing_a_list_later_does_not_change_the_filter() -> None:
    names, offered = ["a"], {"s": ["x"]}
    wanted = ToolFilter(allowed_tools=names, allowed_mcp_tools=offered)
    names.append("b")
    offered["s"].append("y")
    offered["t"] = []
    assert wanted == ToolFilter(["a"], allowed_mcp_tools={"s": ["x"]})


def test_a_filter_pickles_and_can_be_replaced_in_part() -> None:
    wanted = ToolFilter(["a"], allowed_mcp_tools={"s": ["x"]})
    assert pickle.loads(pickle.dumps(wanted)) == wanted
    assert dataclasses.replace(wanted, exclude_tools=["a"]) == ToolFilter(
        ["a"], allowed_mcp_tools={"s": ["x"]}, exclude_tools=["a"]
    )


LIST_FIELDS = ["allowed_tools", "allowed_mcp_servers", "allowed_plugins", "exclude_tools"]


@pytest.mark.parametrize("field", LIST_FIELDS)
@pytest.mark.parametrize("bad", ["read", b"read", "", 5, True, ["a", None], [b"a"], {"a": True}])
def test_a_value_that_is_not_a_list_of_names_is_refused(field: str, bad: object) -> None:
    with pytest.raises(InvalidToolFilterError) as caught:
        ToolFilter(**{field: bad})  # pyright: ignore[reportArgumentType]
    assert caught.value.field == field


@pytest.mark.parametrize("bad", [["shop"], "shop", {"shop": "find"}, {"shop": None}, {1: ["x"]}, {"s": [1]}])
def test_a_value_that_is_not_a_mapping_from_servers_to_lists_is_refused(bad: object) -> None:
    with pytest.raises(InvalidToolFilterError) as caught:
        ToolFilter(allowed_mcp_tools=bad)  # pyright: ignore[reportArgumentType]
    assert caught.value.field == "allowed_mcp_tools"


@pytest.mark.parametrize("bad", [[], ["read"], {}, {"allowed_tools": []}, False, "read", ToolFilter])
def test_a_value_that_is_not_a_filter_is_refused_rather_than_ignored(registry: ToolRegistry, bad: object) -> None:
    with pytest.raises(InvalidToolFilterError):
        registry.to_definitions(bad)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidToolFilterError):
        validate_filter(bad)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (ToolFilter(allowed_tools=["t900", "t5", "gone"], allowed_mcp_servers=[]), ["t5", "t900"]),
        (ToolFilter(allowed_tools=[], allowed_mcp_servers=["s7"]), ["mcp__s7__x"]),
        (ToolFilter(allowed_tools=["t1"], allowed_mcp_servers=["s7"], allowed_mcp_tools={"s7": ["y"]}), ["t1"]),
    ],
)
def test_a_filter_of_few_names_is_applied_to_no_other_tool(
    filter: ToolFilter, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    find = filters_module.find_refusing_rule

    def count(entry: Entry, filter: ToolFilter) -> filters_module.Rule | None:
        judged.append(entry.tool.name)
        return find(entry, filter)

    monkeypatch.setattr(filters_module, "find_refusing_rule", count)
    registry = ToolRegistry([make(f"t{n}") for n in range(1_000)])
    registry.register_all([make(f"mcp__s{n}__x") for n in range(100)])

    assert shown(registry, filter) == expected
    assert judged == expected


NAMES = ["read", "help", "mcp__s__x", "mcp__s__x__y", "mcp__t__x", "mcp__s", "mcp__", "mcp_s_x"]
SERVERS, PLUGIN_IDS, BARE = ["s", "t", ""], ["p", "q"], ["x", "x__y", "y", ""]


def some(of: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(of), unique=True)


filters = st.builds(
    ToolFilter,
    allowed_tools=st.none() | some(NAMES),
    allowed_mcp_servers=st.none() | some(SERVERS),
    allowed_plugins=st.none() | some(PLUGIN_IDS),
    allowed_mcp_tools=st.none() | st.dictionaries(st.sampled_from(SERVERS), some(BARE)),
    exclude_tools=some(NAMES),
)
rows = st.lists(
    st.tuples(
        st.builds(make, st.sampled_from(NAMES), always_include=st.booleans(), available=st.booleans()),
        st.none() | st.sampled_from(PLUGIN_IDS),
        st.none() | st.tuples(st.sampled_from(SERVERS), st.sampled_from(BARE)),
        st.booleans(),
    ),
    unique_by=lambda row: row[0].name,
)


@given(rows, st.none() | filters)
def test_a_tool_is_shown_exactly_when_it_is_available_not_hidden_and_not_refused(
    rows: Iterable[tuple[Tool, str | None, tuple[str, str] | None, bool]], filter: ToolFilter | None
) -> None:
    registry = ToolRegistry()
    expected: list[str] = []
    for tool, plugin_id, mcp, hidden in rows:
        registry.register(tool, plugin_id=plugin_id, mcp=mcp)
        if hidden:
            registry.hide(tool.name)
        entry = entry_of(registry, tool.name)
        refused = find_refusal(entry, filter) is not None
        assert refused is (filter is not None and not allowed(entry, filter))
        if not refused and not hidden and tool.is_available is None:
            expected.append(tool.name)
    assert shown(registry, filter) == expected


def allowed(entry: Entry, filter: ToolFilter) -> bool:
    """The rules once more, each on its own, as the contract lists them."""
    name, server, plugin = entry.tool.name, entry.mcp_server, entry.plugin_id
    offered = filter.allowed_mcp_tools
    is_builtin = server is None and plugin is None
    verdicts = [
        name not in filter.exclude_tools,
        not is_builtin or filter.allowed_tools is None or name in filter.allowed_tools or entry.tool.always_include,
        server is None or filter.allowed_mcp_servers is None or server in filter.allowed_mcp_servers,
        server is None or offered is None or server not in offered or entry.mcp_tool in offered[server],
        plugin is None or filter.allowed_plugins is None or plugin in filter.allowed_plugins,
    ]
    return all(verdicts)


def entry_of(registry: ToolRegistry, name: str) -> Entry:
    entry = registry.entry(name)
    assert entry is not None
    return entry


_names = st.none() | st.frozensets(st.sampled_from(["a", "b", "c"]))
_filters = st.none() | st.builds(
    ToolFilter,
    allowed_tools=_names,
    allowed_mcp_servers=_names,
    allowed_plugins=_names,
    allowed_mcp_tools=st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.frozensets(st.sampled_from("abc"))),
    exclude_tools=st.frozensets(st.sampled_from(["a", "b", "c", "mcp__a__b"])),
)


@given(_filters, _filters)
def test_two_filters_together_allow_what_both_of_them_allow(one: ToolFilter | None, other: ToolFilter | None) -> None:
    registry = ToolRegistry(
        [make("a"), make("b", always_include=True), make("c"), make("mcp__a__b"), make("mcp__b__c")]
    )
    registry.register(make("plugged"), plugin_id="a")

    for entry in registry.entries():
        alone = find_refusal(entry, one) is None and find_refusal(entry, other) is None
        assert (find_refusal(entry, intersect_filters(one, other)) is None) == alone


URI = "spindle://files/file:///a"


@pytest.mark.parametrize(
    ("filter", "is_allowed"),
    [
        (None, True),
        (ToolFilter(), True),
        (ToolFilter(allowed_resources=[]), False),
        (ToolFilter(allowed_resources=[URI]), True),
        (ToolFilter(allowed_resources=["spindle://files/*"]), True),
        (ToolFilter(allowed_resources=["spindle://fil"]), False),
        (ToolFilter(allowed_resources=["spindle://other/*"]), False),
        (ToolFilter(allowed_prompts=[]), True),
        (ToolFilter(allowed_mcp_servers=["other"]), False),
        (ToolFilter(allowed_mcp_servers=["other"], allowed_resources=["*"]), False),
    ],
)
def test_a_resource_is_allowed_by_its_uri_and_its_server(filter: ToolFilter | None, is_allowed: bool) -> None:
    assert allows_feature(filter, "resource", URI, "files") is is_allowed


PATTERNS = st.none() | st.lists(st.text("ab*", max_size=4), max_size=4)


@example(["*"], ["**"], "")
@given(PATTERNS, PATTERNS, st.text("ab*", max_size=5))
def test_what_two_filters_allow_together_is_what_both_allow(
    some: list[str] | None, others: list[str] | None, name: str
) -> None:
    one, other = ToolFilter(allowed_prompts=some), ToolFilter(allowed_prompts=others)
    both = intersect_filters(one, other)

    assert allows_feature(both, "prompt", name, "s") == (
        allows_feature(one, "prompt", name, "s") and allows_feature(other, "prompt", name, "s")
    )
