"""`typing.TypedDict`, which pydantic reads only from Python 3.12 on, does everywhere."""

from typing import Annotated, Any, Literal, NotRequired, Optional, Required, TypedDict

import pytest
from pydantic import Field

from spindle import Tool, ToolContext, tool
from spindle.errors import InvalidToolArgsError

pytestmark = pytest.mark.anyio


class Point(TypedDict):
    """A place."""

    x: int
    label: NotRequired[str]


class Line(Point, total=False):
    ends: "list[Point]"
    style: Required[Literal["solid", "dashed"]]


class Node(TypedDict):
    value: int
    children: NotRequired["list[Node]"]


def echo(schema: Any) -> Tool:
    def handler(args: Any, _ctx: Any, _meta: Any) -> Any:
        return args

    return Tool(name="echo", description="Echoes.", input_schema=schema, handler=handler)


async def test_its_keys_are_coerced_required_and_closed() -> None:
    it = echo(Point)

    assert it.input_schema is Point
    assert await it.validate({"x": "1"}) == {"x": 1}
    for bad in ({}, {"x": 1, "y": 2}, {"x": 1, "label": 5}):
        with pytest.raises(InvalidToolArgsError):
            await it.validate(bad)
    reported = it.describe()["input_schema"]
    assert (reported["required"], reported["additionalProperties"], reported["title"]) == (["x"], False, "Point")


async def test_inherited_keys_keep_what_their_class_said() -> None:
    it = echo(Line)

    assert it.describe()["input_schema"]["required"] == ["x", "style"]
    assert it.describe()["input_schema"]["$defs"]["Point"]["description"] == "A place."
    assert await it.validate({"x": 1, "style": "solid", "ends": [{"x": "2"}]}) == {
        "x": 1,
        "style": "solid",
        "ends": [{"x": 2}],
    }
    with pytest.raises(InvalidToolArgsError):
        await it.validate({"x": 1, "style": "solid", "ends": [{"x": 2, "y": 3}]})


async def test_one_that_holds_itself_does() -> None:
    tree: dict[str, Any] = {"value": 1, "children": [{"value": "2", "children": []}]}

    assert await echo(Node).validate(tree) == {"value": 1, "children": [{"value": 2, "children": []}]}


async def test_a_function_may_take_them_wherever_a_type_may_stand() -> None:
    @tool
    def draw(
        *,
        at: Point,
        more: list[Point],
        maybe: Point | None = None,
        old: Annotated[Optional[Point], Field(description="Before.")] = None,  # noqa: UP045
        named: dict[str, Point] | int = 0,
        mode: Literal["fill"] = "fill",
    ) -> Any:
        """Draw."""
        return at, more, maybe, old, named, mode

    one = {"x": "1"}
    given = {"at": one, "more": [one], "maybe": one, "old": one, "named": {"a": one}}
    made = {"x": 1}
    assert await draw.executor(ToolContext())(given) == (made, [made], made, made, {"a": made}, "fill")
    assert draw.describe()["input_schema"]["properties"]["old"]["description"] == "Before."
