"""Arguments without a role, and labels that trust what outsiders can write."""

from typing import Annotated

from spindle import Tool, ToolRegistry, tool
from spindle.capabilities import Capabilities
from spindle.mcp.lint import Finding, lint_registry
from spindle.trust import Label
from spindle.trust.flow import Content, FlowPolicy, Free, Target


def lint(*tools: Tool, flow: FlowPolicy | None) -> list[tuple[str, str, str]]:
    found: list[Finding] = lint_registry(ToolRegistry(tools), flow=flow, dialects=())
    return [(each.rule, each.name, each.message) for each in found if each.rule.startswith("SP6")]


@tool
async def undeclared(
    to: str, count: int, flags: list[bool], maybe: int | None = None, parts: list[str] | None = None
) -> str:
    """Send something somewhere, in an order."""
    return f"{to} {count} {flags} {maybe} {parts}"


@tool
async def declared(to: Annotated[str, Target()], text: Annotated[str, Content()], page: Annotated[int, Free()]) -> str:
    """Send a text somewhere."""
    return f"{to} {text} {page}"


@tool(read_only=True)
async def search_notes(query: str) -> str:
    """Search the notes of the user."""
    return query


def test_arguments_without_a_role_are_named_with_what_they_count_as() -> None:
    [(rule, name, message)] = lint(undeclared, declared, search_notes, flow=FlowPolicy())

    assert (rule, name) == ("SP601", "undeclared")
    for part in ("to counts as target", "count counts as setting", "flags counts as setting", "parts counts as target"):
        assert part in message
    assert "maybe counts as setting" in message


def test_nothing_is_said_without_a_policy_or_about_tools_that_are_not_judged() -> None:
    assert lint(undeclared, flow=None) == []
    assert lint(undeclared, declared, flow=FlowPolicy(sinks=["declared"])) == []


def test_a_source_that_outsiders_can_write_to_should_not_be_trusted() -> None:
    labels: tuple[Label, ...] = ("trusted", "first-party", "third-party-public", "third-party-private")
    tools = [
        Tool(
            name=f"read_{label.replace('-', '_')}",
            description="Read a page of the web.",
            input_schema={"type": "object", "properties": {}},
            handler=lambda: "",
            read_only=True,
            output=label,
            capabilities=Capabilities(network=["example.org"]),
        )
        for label in labels
    ]

    found = lint(*tools, flow=FlowPolicy())

    assert [(rule, name) for rule, name, _ in found] == [("SP602", "read_first_party"), ("SP602", "read_trusted")]
