"""A definition's price is stable, grows with its text, and does not depend on whether the tool is available."""

from typing import Any

from spindle import Ok, Tool
from spindle.bridges import ALL
from spindle.bridges.price import define_tool, price_definition, price_text, price_tool


def handle(_args: object, _ctx: object, _meta: object) -> Ok:
    return Ok("")


def made(description: str = "Read a file.", *, is_available: bool = True, **properties: Any) -> Tool:
    return Tool(
        name="read_file",
        description=description,
        input_schema={"type": "object", "properties": properties or {"path": {"type": "string"}}},
        handler=handle,
        is_available=lambda: is_available,
    )


def test_every_dialect_has_a_price_that_grows_with_the_description() -> None:
    short, long = price_tool(made()), price_tool(made("Read a file. " * 100))

    assert list(short) == [dialect.name for dialect in ALL]
    assert all(10 < short[name] < long[name] - 200 for name in short)
    assert price_tool(made(), ["gemini"]) == {"gemini": short["gemini"]}


def test_an_unavailable_tool_has_the_same_price() -> None:
    assert price_tool(made(is_available=False)) == price_tool(made())


def test_a_dialect_that_cannot_express_the_tool_is_left_out() -> None:
    refers: dict[str, Any] = {"$ref": "#/properties/a"}
    for _ in range(90):
        refers = {"type": "array", "items": refers}

    found = price_tool(made(a={"type": "string"}, b=refers))

    assert "mcp" in found
    assert len(found) < len(ALL)


def test_the_price_counts_what_is_sent() -> None:
    definition = define_tool(made(), "mcp")

    assert price_definition(definition) == price_text(definition.json.decode())
    assert price_text("a lone surrogate \ud800") > 0
