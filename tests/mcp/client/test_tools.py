"""A server's tools as ours: exact provenance, hints that stay hints, and a shelf that follows what the server lists."""

from typing import Any

import pytest

from spindle import Err, Ok, ToolFilter
from tests.mcp.upstreams import Heard, call, changed_to, connected, hostile

pytestmark = pytest.mark.anyio


def owner(servers: Any, name: str) -> tuple[str | None, str | None]:
    entry = servers.registry.entry(name)
    assert entry is not None
    return entry.mcp_server, entry.mcp_tool


async def test_a_tool_has_its_servers_name_and_is_nobodys_word() -> None:
    spec = hostile(timeout_seconds=7, max_result_chars=123)
    async with connected(spec) as servers:
        tool = servers.registry.get("mcp__h__ok")
        assert tool is not None
        assert owner(servers, "mcp__h__ok") == ("h", "ok")

    assert (tool.toolset, tool.timeout_seconds, tool.max_result_chars) == ("mcp", 7, 123)
    assert (tool.trusted, tool.read_only, tool.idempotent, tool.requires_approval) == (False, False, False, False)
    assert tool.meta.get("mcp")["annotations"]["readOnlyHint"] is True


async def test_a_trusted_servers_hints_are_taken() -> None:
    async with connected(hostile(trusted=True)) as servers:
        tool, other = servers.registry.get("mcp__h__ok"), servers.registry.get("mcp__h__hang")
        assert tool is not None
        assert other is not None

    assert (tool.trusted, tool.read_only, tool.idempotent) == (True, True, True)
    assert (other.trusted, other.read_only, other.idempotent) == (True, False, False)


async def test_one_bad_tool_is_left_out_with_a_reason_and_the_others_stay() -> None:
    heard = Heard()
    async with connected(hostile("--odd-tools"), events=heard.events) as servers:
        names = [tool.name for tool in servers.registry]
        first = servers.registry.get("mcp__h__ok")
        assert first is not None

    assert first.description == "Does ok."
    assert len(names) == len(set(names))
    assert not {"mcp__h__costly", "mcp__h__wrong"} & set(names)
    assert heard.warned_of("'ok'", "twice")
    assert heard.warned_of("'costly'", "subschemas")
    assert heard.warned_of("'wrong'", "type")


async def test_a_missing_description_falls_back_to_the_name_and_definitions_are_understood() -> None:
    async with connected(hostile("--odd-tools")) as servers:
        described = {tool.name: tool.describe() for tool in servers.registry}
        fits = await call(servers, "mcp__h__defined", {"size": "small"})
        fails = await call(servers, "mcp__h__defined", {"size": "huge"})

    assert described["mcp__h__b__c"]["description"] == "b__c"
    assert described["mcp__h__defined"]["input_schema"]["properties"]["size"] == {"$ref": "#/$defs/size"}
    assert isinstance(fits.result, Ok)
    assert isinstance(fails.result, Err)
    assert fails.result.code == "input_invalid"


async def test_names_with_double_underscores_are_never_mis_attributed() -> None:
    heard = Heard()
    short, long = hostile("--odd-tools", name="a", tools=("b__c",)), hostile(name="a__b", tools=("ok",))
    async with connected(short, long, events=heard.events) as servers:
        assert owner(servers, "mcp__a__b__c") == ("a", "b__c")
        assert owner(servers, "mcp__a__b__ok") == ("a__b", "ok")
        shown = servers.registry.to_definitions(ToolFilter(allowed_mcp_servers=["a"]))

    assert [each["name"] for each in shown] == ["mcp__a__b__c"]


async def test_a_name_that_another_server_has_is_refused_and_taken_when_it_is_free() -> None:
    heard, name = Heard(), "mcp__a__b__extra"
    async with connected(hostile(name="a"), hostile(name="a__b"), events=heard.events) as servers:
        await call(servers, "mcp__a__grow", {"name": "b__extra"})
        await changed_to(servers, lambda: servers.registry.has(name))
        await call(servers, "mcp__a__b__grow", {"name": "extra"})
        await heard.until(lambda: heard.warned_of("'a__b'", "'extra'", "MCP server 'a'"))
        assert owner(servers, name) == ("a", "b__extra")

        await call(servers, "mcp__a__grow", {})
        await changed_to(servers, lambda: owner(servers, name) == ("a__b", "extra"))


async def test_only_the_tools_that_are_wanted_are_offered_and_a_missing_one_is_warned_of() -> None:
    heard = Heard()
    async with connected(hostile(tools=("ok", "nobody")), events=heard.events) as servers:
        assert [tool.name for tool in servers.registry] == ["mcp__h__ok"]

    assert heard.warned_of("'nobody'")


async def test_the_registry_follows_what_the_server_lists_and_leaves_the_rest_alone() -> None:
    async with connected(hostile()) as servers:
        before = servers.registry.get("mcp__h__ok")
        servers.registry.hide("mcp__h__ok")

        await call(servers, "mcp__h__grow", {"name": "extra"})
        await changed_to(servers, lambda: servers.registry.has("mcp__h__extra"))
        await call(servers, "mcp__h__grow", {})
        await changed_to(servers, lambda: not servers.registry.has("mcp__h__extra"))

        assert servers.registry.get("mcp__h__ok") is before
        assert servers.registry.is_hidden("mcp__h__ok")


async def test_a_listing_of_several_pages_is_read_to_its_end() -> None:
    async with connected(hostile("--pages")) as servers:
        assert [tool.name for tool in servers.registry] == ["mcp__h__page0", "mcp__h__page1", "mcp__h__page2"]


@pytest.mark.parametrize(("flag", "words"), [("--round", "before"), ("--endless", "pages")], ids=["round", "endless"])
async def test_a_listing_without_an_end_is_taken_as_far_as_it_went(flag: str, words: str) -> None:
    heard = Heard()
    async with connected(hostile(flag), events=heard.events) as servers:
        assert servers.status()[0].state == "ready"

    assert heard.warned_of(words)


async def test_a_server_without_tools_is_no_failure() -> None:
    async with connected(hostile("--no-tools")) as servers:
        assert servers.status()[0].state == "ready"
        assert len(servers.registry) == 0
