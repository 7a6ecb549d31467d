"""What Python types mean as a tool's arguments."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from spindle import Tool, ToolContext, tool
from spindle.errors import InvalidToolArgsError, InvalidToolError

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    street: str
    zip: str | None = None


@dataclass
class Box:
    width: int
    height: int = 1


class Row(TypedDict, total=False):
    name: str
    count: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


class Page(BaseModel, Generic[T]):
    items: list[T]


class Node(BaseModel):
    name: str
    children: list["Node"] = []


async def call(it: Tool, /, **args: Any) -> Any:
    return await it.executor(ToolContext())(args)


def schema(it: Tool) -> dict[str, Any]:
    return it.describe()["input_schema"]


async def test_plain_types_validate_and_coerce() -> None:
    @tool
    def many(  # noqa: PLR0917
        a: str, b: int, c: float, d: bool, e: list[int], f: dict[str, int], g: date, h: UUID, i: Decimal
    ) -> Any:
        """Take many."""
        return a, b, c, d, e, f, g, h, i

    got = await call(many, a="x", b="5", c=1, d="true", e=["1", 2], f={"k": "3"}, g="2026-11-15", h="0" * 32, i="1.10")

    assert got == ("x", 5, 1.0, True, [1, 2], {"k": 3}, date(2026, 11, 15), UUID(int=0), Decimal("1.10"))


async def test_a_decimal_given_as_text_keeps_its_digits() -> None:
    @tool
    def pay(amount: Decimal) -> Decimal:
        """Pay."""
        return amount

    run = pay.executor(ToolContext())
    assert await run('{"amount": "0.1234567890123456789012345"}') == Decimal("0.1234567890123456789012345")
    with pytest.raises(InvalidToolArgsError):
        await run('{"amount": true}')


@pytest.mark.parametrize("args", [{"n": True}, {"x": False}, {"ns": [1, True]}, {"n": 1, "either": True}])
async def test_a_boolean_is_not_a_number(args: dict[str, Any]) -> None:
    @tool
    def count(n: int = 0, x: float = 0, ns: list[int] = [], either: int | None = None, flag: bool = False) -> Any:  # noqa: B006
        """Count."""
        return n, x, ns, flag

    await call(count, n=1, flag=True)
    with pytest.raises(InvalidToolArgsError):
        await call(count, **args, flag=True)


async def test_enums_and_literals_are_shown_and_enforced() -> None:
    @tool
    def paint(colour: Colour, level: Level = Level.LOW, mode: Literal["matt", "gloss"] = "matt") -> Any:
        """Paint."""
        return colour, level, mode

    assert await call(paint, colour="red", level=2) == (Colour.RED, Level.HIGH, "matt")
    assert schema(paint)["$defs"]["Colour"]["enum"] == ["red", "blue"]
    with pytest.raises(InvalidToolArgsError) as caught:
        await call(paint, colour="red", mode="glos")
    assert caught.value.field == "mode"
    assert "gloss" in str(caught.value)


async def test_nested_types_arrive_as_themselves() -> None:
    @tool
    def ship(
        to: Address, box: Box, rows: list[Row], pet: Annotated[Cat | Dog, Field(discriminator="kind")], page: Page[int]
    ) -> Any:
        """Ship."""
        return to, box, rows, pet, page

    got = await call(
        ship,
        to={"street": "s"},
        box={"width": "2"},
        rows=[{"name": "a"}],
        pet={"kind": "dog"},
        page={"items": ["1"]},
    )

    assert got == (Address(street="s"), Box(2, 1), [{"name": "a"}], Dog(kind="dog"), Page[int](items=[1]))


async def test_a_nested_type_that_opens_itself_keeps_its_word_and_the_rest_stays_closed_at_the_top() -> None:
    class Free(BaseModel):
        model_config = ConfigDict(extra="allow")

    @tool
    def note(free: Free) -> Any:
        """Note."""
        return free.model_extra

    assert await call(note, free={"a": 1}) == {"a": 1}
    with pytest.raises(InvalidToolArgsError):
        await call(note, free={}, fee={})

    closed = Tool(name="t", description="d", input_schema=Holder, handler=give_back)
    with pytest.raises(InvalidToolArgsError) as caught:
        await call(closed, open={"x": 1}, oepn={})
    assert caught.value.field == "oepn"
    assert "open" in str(caught.value)


def give_back(args: Any, ctx: Any, meta: Any) -> Any:
    return args


class OpenOne(BaseModel):
    model_config = ConfigDict(extra="allow")


class Holder(BaseModel):
    open: OpenOne


async def test_recursive_models_work_as_parameter_and_as_schema() -> None:
    @tool
    def plant(tree: Node) -> int:
        """Plant."""
        return len(tree.children)

    assert await call(plant, tree={"name": "a", "children": [{"name": "b"}]}) == 1
    root = Tool(name="t", description="d", input_schema=Node, handler=give_back)
    assert root.describe()["input_schema"]["type"] == "object"
    assert await call(root, name="a", children=[{"name": "b"}]) == Node(name="a", children=[Node(name="b")])


async def test_open_keywords_are_open_as_the_schema_says() -> None:
    @tool
    def label(name: str, **labels: int) -> Any:
        """Label."""
        return name, labels

    assert schema(label)["additionalProperties"] == {"type": "integer"}
    assert await call(label, name="a", x="1", y=2) == ("a", {"x": 1, "y": 2})
    with pytest.raises(InvalidToolArgsError):
        await call(label, name="a", x="one")


async def test_defaults_are_shown_as_far_as_json_can_express_them() -> None:
    @tool
    def plan(
        when: date = date(2026, 1, 1),
        tags: list[str] = Field(default_factory=lambda: ["a"]),  # noqa: B008
        odd: Any = object,
        n: int = Field(default=3, ge=1),
    ) -> Any:
        """Plan."""
        return when, tags, n

    properties = schema(plan)["properties"]
    assert properties["when"]["default"] == "2026-01-01"
    assert properties["n"] == {"type": "integer", "minimum": 1, "default": 3}
    assert await call(plan) == (date(2026, 1, 1), ["a"], 3)


async def test_a_default_list_is_not_shared_between_calls() -> None:
    @tool
    def grow(items: list[int] = []) -> list[int]:  # noqa: B006
        """Grow."""
        items.append(1)
        return items

    assert [await call(grow), await call(grow)] == [[1], [1]]


def test_a_type_without_a_schema_is_refused_when_the_tool_is_described() -> None:
    @tool
    def strange(callback: Callable[[int], int]) -> None:
        """Be strange."""

    def unknown(it: Any) -> None:
        """Be unknown."""

    unknown.__annotations__["it"] = "NoSuchType"
    for each in (strange, tool(unknown)):
        with pytest.raises(InvalidToolError) as caught:
            each.describe()
        assert caught.value.tool == each.name


async def test_secret_values_never_show_in_errors() -> None:
    @tool(secret_fields=["token"])
    def login(token: Annotated[str, Field(pattern="^sk-")], n: int) -> None:
        """Log in."""

    with pytest.raises(InvalidToolArgsError) as caught:
        await call(login, token="hunter2-very-secret", n="x")

    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error!s} {error!r}"
        error = error.__cause__ or error.__context__
    assert {problem.path for problem in caught.value.problems} == {"token", "n"}


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"to": {"street": "s", "zap": 1}}, "to.zap"),
        ({"to": {"street": "s"}, "box": {"width": 1, "depth": 1}}, "box.depth"),
        ({"to": {"street": "s"}, "row": {"nmae": "x"}}, "row.nmae"),
    ],
)
async def test_unknown_keys_are_refused_at_every_level_and_the_schema_says_so(args: Any, field: str) -> None:
    @tool
    def ship(to: Address, box: Box | None = None, row: Row | None = None) -> None:
        """Ship."""

    with pytest.raises(InvalidToolArgsError) as caught:
        await call(ship, **args)

    assert caught.value.field == field
    for definition in schema(ship)["$defs"].values():
        assert definition["additionalProperties"] is False
