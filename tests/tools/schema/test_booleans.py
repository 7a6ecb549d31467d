"""A boolean in place of a number is refused wherever it stands, and other arguments are validated once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, RootModel, model_validator
from typing_extensions import TypedDict

from spindle import Tool, ToolContext, errors

pytestmark = pytest.mark.anyio


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    number: int = Field(0, alias="n")
    flag: bool = False


class Chosen(BaseModel):
    number: int = Field(0, validation_alias=AliasChoices("n", "m"))
    flag: bool = False


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]  as documented
    flag: bool = False


class Node(BaseModel):
    number: int = 0
    flag: bool = False
    nodes: "list[Node]" = []


class Numbers(RootModel[list[int]]):
    pass


class Shifted(BaseModel):
    number: int = 0
    flag: bool = False

    @model_validator(mode="before")
    @classmethod
    def unwrap(cls, given: Any) -> Any:
        return given.get("inner", given)


class Keys(TypedDict):
    number: NotRequired[float]
    flag: NotRequired[bool]


@dataclass
class Point:
    number: float = 0
    flag: bool = False


class Everything(BaseModel):
    number: int | None = None
    flag: bool = False
    either: int | bool = 0
    rows: list[Point] = []
    keys: Keys = Field(default_factory=Keys)
    aliased: Aliased = Field(default_factory=lambda: Aliased(n=0))
    chosen: Chosen = Field(default_factory=lambda: Chosen.model_validate({}))
    open: Open = Open()
    node: Node = Node()
    numbers: Numbers = Numbers([])
    shifted: Shifted = Shifted()
    by_name: dict[str, int] = {}
    pair: tuple[int, bool] = (0, False)
    anything: Any = None


def make(input_schema: type) -> Callable[[dict[str, Any]], Any]:
    async def handle(args: Any, _ctx: object, _meta: object) -> Any:
        return args

    tool = Tool(name="take", description="Take.", input_schema=input_schema, handler=handle)
    return tool.executor(ToolContext())


@pytest.mark.parametrize(
    "args",
    [
        {"number": True},
        {"rows": [{"number": 1}, {"number": False, "flag": True}]},
        {"keys": {"number": True}},
        {"aliased": {"n": True}},
        {"aliased": {"number": True}},
        {"chosen": {"m": True}},
        {"open": {"extra": True}},
        {"node": {"nodes": [{"nodes": [{"number": True}]}]}},
        {"numbers": [1, 2, True]},
        {"by_name": {"a": True}},
        {"pair": [True, True]},
    ],
)
async def test_a_boolean_in_place_of_a_number_is_refused(args: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidToolArgsError) as caught:
        await make(Everything)(args)
    assert "a boolean" in str(caught.value)


@pytest.mark.parametrize(
    "args",
    [
        {"number": 1, "flag": True},
        {"either": True},
        {"rows": [{"flag": True}]},
        {"keys": {"flag": True}},
        {"aliased": {"flag": True}},
        {"chosen": {"flag": True}},
        {"open": {"flag": True}},
        {"node": {"nodes": [{"flag": True}]}},
        {"shifted": {"inner": {"flag": True}}},
        {"pair": [1, True]},
        {"anything": [True, {"number": True}]},
    ],
)
async def test_a_boolean_in_place_of_a_boolean_is_accepted(args: dict[str, Any]) -> None:
    assert isinstance(await make(Everything)(args), Everything)


async def test_booleans_in_their_own_places_do_not_cause_a_second_validation() -> None:
    validated: list[str] = []

    def note(text: str) -> str:
        validated.append(text)
        return text

    class Row(BaseModel):
        name: Annotated[str, AfterValidator(note)]
        size: int
        done: bool

    class Table(BaseModel):
        rows: list[Row]
        total: float = 0
        done: bool = False

    rows = [{"name": name, "size": 1, "done": True} for name in "abc"]
    await make(Table)({"rows": rows, "total": 2, "done": True})
    assert validated == ["a", "b", "c"]
