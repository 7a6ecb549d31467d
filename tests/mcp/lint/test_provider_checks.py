"""Definitions against the limits of providers, and what they cost."""

from typing import Any

from spindle import Ok, Tool
from spindle.bridges import ALL, price_tool
from spindle.mcp.lint import Subject
from spindle.mcp.lint.provider_checks import MAX_TOOL_TOKENS, check_providers


def handle(_args: object, _ctx: object, _meta: object) -> Ok:
    return Ok("")


def made(
    name: str = "find", description: str = "Finds.", *, server: str | None = None, properties: Any = None
) -> Subject:
    schema = {"type": "object", "properties": properties or {"query": {"type": "string"}}}
    tool = Tool(name=name, description=description, input_schema=schema, handler=handle)
    return Subject(raw={"name": name}, server=server, tool=tool)


def rules(*subjects: Subject) -> dict[str, str]:
    return {found.rule: found.message for found in check_providers(subjects)[0]}


def test_a_plain_tool_fits_every_provider() -> None:
    assert rules(made()) == {}


def test_a_name_that_is_changed_names_the_dialects() -> None:
    assert rules(made("x" * 70)) == {"SP401": "the name is changed for openai_chat, openai_responses, bedrock"}


def test_lost_keywords_and_changed_names_of_parameters_are_reported() -> None:
    found = rules(made(properties={"a/b": {"type": "string", "minContains": 3, "unevaluatedItems": False}}))

    assert "gemini cannot express" in found["SP403"]
    assert "'a/b'" in found["SP406"]


def test_a_schema_without_a_strict_form_names_the_place() -> None:
    found = rules(made(properties={"free": {"type": "object"}}))

    assert "/properties/free" in found["SP405"]
    assert "anthropic" in found["SP405"]


def test_a_schema_that_a_provider_cannot_express_is_reported() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(90):
        deep = {"type": "array", "items": deep}

    assert "gemini" in rules(made(properties={"a": deep}))["SP402"]


def test_prices_are_summed_by_server_and_large_ones_reported() -> None:
    cheap, dear = made("a", server="s"), made("b", "word " * 4_000, server="s")
    local = made("c")
    found, prices = check_providers([cheap, dear, local])

    assert [(each.rule, each.name) for each in found] == [("SP501", "b")]
    assert cheap.tool is not None
    assert prices.tools["a"] == price_tool(cheap.tool)
    assert list(prices.total) == [dialect.name for dialect in ALL]
    for dialect, total in prices.total.items():
        assert total == sum(price[dialect] for price in prices.tools.values())
        assert prices.servers["s"][dialect] + prices.servers[""][dialect] == total
        assert prices.tools["b"][dialect] > MAX_TOOL_TOKENS


def test_a_long_list_exceeds_counts_and_prices() -> None:
    many = [made(f"t{i}", "word " * 250, server="s") for i in range(130)]

    assert rules(*many).keys() == {"SP404", "SP502", "SP503"}
    found, prices = check_providers(many, ["anthropic"])
    assert {each.rule for each in found} == {"SP502", "SP503"}
    assert list(prices.total) == ["anthropic"]
