"""What a handler is given shares nothing with the arguments that are kept, whatever the types of its parameters are."""

from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, BeforeValidator
from typing_extensions import TypedDict

from spindle import Call, Executor, ToolContext, ToolRegistry, tool

pytestmark = pytest.mark.anyio


class Model(BaseModel):
    items: list[Any]


class Shape(TypedDict):
    items: list[Any]


def add_item(value: Any) -> Any:
    value.append("by the validator")
    return value


def change(value: Any) -> None:
    """Change every list and dict of a value in place."""
    held: Any = vars(value) if isinstance(value, Model) else value
    if isinstance(held, dict):
        for each in cast("dict[str, Any]", held).copy().values():
            change(each)
        held["changed"] = True
    elif isinstance(held, list):
        items = cast("list[Any]", held)
        for each in items.copy():
            change(each)
        items.append("changed")


CASES: list[tuple[Any, Any]] = [
    (list[str], ["a"]),
    (list[list[int]], [[1], [2]]),
    (list[Any], [["a"], {"b": []}]),
    (list, [["a"]]),
    (dict[str, list[str]], {"a": ["b"]}),
    (dict[str, Any], {"a": {"b": ["c"]}}),
    (Any, {"a": ["b"]}),
    (list[str] | dict[str, Any], {"a": ["b"]}),
    (list[str] | None, ["a"]),
    (Model, {"items": [["a"]]}),
    (Shape, {"items": [["a"]]}),
    (Annotated[list[str], BeforeValidator(add_item)], ["a"]),
    (list[Annotated[list[str], BeforeValidator(add_item)]], [["a"]]),
]


@pytest.mark.parametrize(("hint", "given"), CASES)
@pytest.mark.parametrize("is_text", [True, False])
async def test_a_handler_cannot_change_the_arguments_that_are_kept(hint: Any, given: Any, *, is_text: bool) -> None:
    async def take(value: Any) -> str:
        """Take a value."""
        change(value)
        return "done"

    take.__annotations__["value"] = hint
    executor = Executor(ToolRegistry([tool(take)]))
    arguments = {"value": given}
    before = repr(arguments)
    sent = before.replace("'", '"') if is_text else arguments

    (outcome,) = await executor.execute_parallel([Call("c", "take", sent)], ToolContext())

    assert outcome.ok, outcome.result
    assert repr(dict(outcome.args)) == before
    assert repr(arguments) == before
