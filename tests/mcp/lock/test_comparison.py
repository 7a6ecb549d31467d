"""Listings against a lock: the same listing is the same in every order, and no change of a definition is missed."""

import copy
import json
from typing import Any, cast

from hypothesis import assume, given
from hypothesis import strategies as st

from spindle.mcp.lock import (
    DefinitionChange,
    Listing,
    LockedServer,
    accept_changes,
    compare_definitions,
    compare_servers,
)

names = st.text(alphabet="abcdeé_", min_size=1, max_size=4)
schemas = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(
            names, st.fixed_dictionaries({"type": st.sampled_from(["string", "integer"]), "description": st.text()})
        ),
        "required": st.lists(names, max_size=2),
    },
)
fields: Any = {
    "title": st.text(max_size=5),
    "annotations": st.fixed_dictionaries({"readOnlyHint": st.booleans()}),
    "outputSchema": schemas,
    "_meta": st.dictionaries(names, st.integers() | st.text(max_size=3), max_size=2),
    "icons": st.lists(st.fixed_dictionaries({"src": st.text(max_size=5)}), max_size=1),
}
tools: Any = st.fixed_dictionaries(
    {"name": names, "description": st.text(max_size=20), "inputSchema": schemas},
    optional=fields,
)
listings: Any = st.lists(tools, max_size=5, unique_by=lambda tool: tool["name"])


def listing(*definitions: Any) -> Listing:
    return Listing.read("tool", definitions)


def compare(before: Any, after: Any) -> list[DefinitionChange]:
    return compare_definitions(listing(*before).definitions, listing(*after))


@given(listings, st.randoms())
def test_the_same_listing_has_no_changes_in_any_order(listed: list[Any], random: Any) -> None:
    again = [dict(random.sample(list(tool.items()), len(tool))) for tool in random.sample(listed, len(listed))]

    assert compare(listed, json.loads(json.dumps(again))) == []


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all parts of a definition but its name."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        parts = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        parts = list(enumerate(cast("list[Any]", value)))
    found = [] if not path or path == ("name",) else [path]
    return [*found, *(place for key, part in parts for place in places(part, (*path, key)))]


@given(st.data(), listings.filter(bool), st.sampled_from(["replace", "remove", "add"]))
def test_every_single_change_of_a_definition_is_found(data: Any, listed: list[Any], how: str) -> None:
    number = data.draw(st.integers(0, len(listed) - 1))
    path = data.draw(st.sampled_from(places(listed[number])))
    changed = copy.deepcopy(listed)
    part = changed[number]
    for step in path[:-1]:
        part = part[step]
    old = part[path[-1]]
    if how == "remove":
        del part[path[-1]]
    elif how == "add" and isinstance(old, dict):
        assume("new" not in old)
        old["new"] = True
    else:
        part[path[-1]] = data.draw(st.sampled_from([None, True, 1, "\u200b", f"{old}\u200b", [old]]))
        assume(json.dumps(part[path[-1]]) != json.dumps(old))

    assert [(each.name, each.type in ("changed", "renamed")) for each in compare(listed, changed)] == [
        (listed[number]["name"], True)
    ]


@given(listings, listings)
def test_renames_map_each_old_name_to_one_new_name_and_every_difference_is_named_once(before: Any, after: Any) -> None:
    locked, listed = listing(*before), listing(*after)

    changes = compare_definitions(locked.definitions, listed)

    renames = [(each.before.name, each.name) for each in changes if each.type == "renamed" and each.before is not None]
    assert len({old for old, _ in renames}) == len({new for _, new in renames}) == len(renames)
    assert all(old != new for old, new in renames)
    reported = [each.name for each in changes if each.type != "removed"]
    same = {
        name
        for name, each in listed.definitions.items()
        if name in locked.definitions and locked.definitions[name].fingerprint == each.fingerprint
    }
    assert sorted(reported) == sorted(listed.definitions.keys() - same)
    gone = locked.definitions.keys() - listed.definitions.keys()
    assert {each.name for each in changes if each.type == "removed"} == gone - {old for old, _ in renames}


@given(listings, listings)
def test_a_lock_with_every_change_accepted_is_what_is_listed(before: Any, after: Any) -> None:
    locked, found = (LockedServer(definitions={"tool": listing(*each).definitions}) for each in (before, after))

    accepted = accept_changes(locked, found, compare_servers(locked, found).definitions)

    assert accepted.of_kind("tool") == found.of_kind("tool")


def tool(name: str, description: str = "Reads a file.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


def outline(changes: list[DefinitionChange]) -> list[tuple[str, str, str | None]]:
    return [(each.type, each.name, None if each.before is None else each.before.name) for each in changes]


def test_a_new_name_for_removed_content_is_a_rename() -> None:
    assert outline(compare([tool("read", title="Read")], [tool("fetch", title="Fetch")])) == [
        ("renamed", "fetch", "read")
    ]


def test_a_rename_with_another_schema_is_found_by_its_description() -> None:
    after = tool("fetch", inputSchema={"type": "object", "properties": {"to": {"type": "string"}}})

    assert outline(compare([tool("read")], [after])) == [("renamed", "fetch", "read")]


def test_exchanged_names_are_two_renames() -> None:
    before = [tool("read", "Reads."), tool("delete", "Deletes.")]
    after = [tool("read", "Deletes."), tool("delete", "Reads.")]

    assert outline(compare(before, after)) == [("renamed", "delete", "read"), ("renamed", "read", "delete")]


def test_a_description_that_changed_in_place_is_not_a_rename() -> None:
    assert outline(compare([tool("a", "One.")], [tool("a", "Two.")])) == [("changed", "a", "a")]


def test_a_title_that_changed_alone_is_a_change() -> None:
    [change] = compare([tool("a", title="A")], [tool("a", title="B")])

    assert (change.type, change.fields) == ("changed", ("title",))


def test_a_name_that_is_listed_twice_with_different_definitions_is_unreadable() -> None:
    assert outline(compare([tool("a")], [tool("a"), tool("a", "Poison.")])) == [("unreadable", "a", "a")]
    assert outline(compare([tool("a")], [tool("a"), tool("a")])) == []


def deep() -> Any:
    value: Any = {}
    for _ in range(500):
        value = {"a": value}
    return value


def test_definitions_that_cannot_be_locked_are_unreadable_and_never_crash() -> None:
    odd = [float("nan"), float("inf"), deep(), 10**400, "\ud800", {"\udfff": 1}, "x" * (1 << 20)]
    after = [tool(f"t{number}", inputSchema={"type": "object", "default": each}) for number, each in enumerate(odd)]

    changes = compare([], [*after, {"description": "no name"}, "text", tool("n" * 2000)])

    assert {each.type for each in changes} == {"unreadable"}
    assert len(changes) == len(odd) + 2


def test_facts_of_a_server_are_compared() -> None:
    before = LockedServer(origin={"command": ["a"]}, program={"version": "1"}, protocol="2025-11-25")
    after = LockedServer(origin={"command": ["b"]}, program={"version": "2"}, capabilities={"tools": {}})

    changes = compare_servers(before, after)

    assert [each.fact for each in changes.facts] == ["origin", "program", "protocol", "capabilities"]
    assert not compare_servers(before, before)
