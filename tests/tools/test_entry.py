import pytest
from pydantic import BaseModel

from spindle.tools.declaration import Tool
from spindle.tools.entry import build_entry, parse_mcp_name


class Query(BaseModel):
    q: str = ""


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(name: str) -> Tool:
    return Tool(name=name, description="A tool.", input_schema=Query, handler=answer)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("search", (None, None)),
        ("mcp_shop_find", (None, None)),
        ("MCP__shop__find", (None, None)),
        ("my_mcp__shop__find", (None, None)),
        ("mcp__shop__find", ("shop", "find")),
        ("mcp__a__b__c", ("a", "b__c")),
        ("mcp__a", ("a", "")),
        ("mcp__", ("", "")),
        ("mcp____x", ("", "x")),
        ("mcp__a___b", ("a", "_b")),
    ],
)
def test_the_mcp_server_of_a_name_ends_at_the_next_double_underscore(
    name: str, expected: tuple[str | None, str | None]
) -> None:
    assert parse_mcp_name(name) == expected


def test_provenance_is_data_where_it_was_given() -> None:
    entry = build_entry(make("mcp__a__b__c"), mcp=("a__b", "c"))
    assert (entry.mcp_server, entry.mcp_tool) == ("a__b", "c")


def test_provenance_text_names_origin_plugin_and_server() -> None:
    tool = make("a")
    entry = build_entry(tool, plugin_id="sky", mcp=("shop", "t"))
    assert all(part in entry.provenance for part in (tool.origin, "sky", "shop"))
