"""`Tool` as the type of a pydantic field, and `Tool.schema`."""

from typing import Any

import pytest
from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from spindle import (
    Artifact,
    Call,
    Err,
    Events,
    Executor,
    JsonArtifact,
    Tool,
    ToolContext,
    ToolRegistry,
    tool,
)
from spindle.bridges.openai import responses_api
from spindle.errors import InvalidToolError
from spindle.tools import FunctionTool

pytestmark = pytest.mark.anyio

FIELDS: dict[str, Any] = {
    "name": "echo",
    "description": "Echo.",
    "input_schema": {"type": "object"},
    "handler": print,
}


class Shelf(BaseModel):
    tools: list[Tool]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_a_field_takes_instances_and_mappings() -> None:
    shelf = Shelf.model_validate({"tools": [add, FIELDS | {"trusted": True}]})

    assert shelf.tools[0] is add
    assert (shelf.tools[1].name, shelf.tools[1].trusted) == ("echo", True)
    assert [each["name"] for each in shelf.model_dump(mode="json")["tools"]] == ["add", "echo"]


WRONG: list[Any] = [
    5,
    None,
    "add",
    Tool,
    {},
    FIELDS | {"nonsense": 1},
    {1: 2},
    FIELDS | {"timeout_seconds": -1},
    FIELDS | {"_source": {}},
    FIELDS | {"input_schema": RootModel[list[int]]},
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_anything_else_is_a_validation_error(wrong: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Shelf(tools=[add, wrong])

    assert [error["loc"] for error in caught.value.errors()] == [("tools", 1)]


def test_schema_is_the_type_adapter_of_tools() -> None:
    assert isinstance(Tool.schema, TypeAdapter)
    assert Tool.schema is Tool.schema
    assert Tool.schema.validate_python(add) is add
    assert Tool.schema.validate_python(FIELDS).name == "echo"
    with pytest.raises(ValidationError):
        Tool.schema.validate_python(FIELDS | {"nonsense": 1})


def test_a_field_of_function_tools_takes_only_those() -> None:
    adapter = TypeAdapter(list[FunctionTool[..., Any]])

    assert adapter.validate_python([add]) == [add]
    for other in (FIELDS, Tool(**FIELDS)):
        with pytest.raises(ValidationError):
            adapter.validate_python([other])


def test_a_field_with_a_class_of_artifacts_refuses_others() -> None:
    adapter = TypeAdapter(Tool[JsonArtifact])

    assert adapter.validate_python(FIELDS | {"artifact_constructor": JsonArtifact}).name == "echo"
    with pytest.raises(ValidationError):
        adapter.validate_python(FIELDS | {"artifact_constructor": Artifact})


class Strange:
    """A type whose schema cannot be built."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise ZeroDivisionError("odd")


class Numbers(RootModel[list[int]]):
    pass


class Named(RootModel[dict[str, int]]):
    pass


class Both(RootModel[Numbers | str | None]):
    pass


@pytest.mark.parametrize("root", [Numbers, Both, RootModel[int], RootModel[tuple[int, ...]]], ids=repr)
def test_a_root_that_is_not_an_object_is_refused_at_construction(root: Any) -> None:
    with pytest.raises(InvalidToolError) as caught:
        Tool(**(FIELDS | {"input_schema": root}))

    assert caught.value.field == "input_schema"


def test_a_root_that_is_an_object_is_accepted() -> None:
    fields: dict[str, Any] = FIELDS | {"input_schema": Named}
    assert Tool(**fields).describe()["input_schema"]["type"] == "object"


async def test_a_broken_tool_never_breaks_the_others() -> None:
    @tool
    def odd(x: Strange) -> str:
        """Odd."""
        return "x"

    def lost(x: int) -> str:
        """Lost."""
        return "x"

    lost.__annotations__["x"] = "Nowhere"
    warnings: list[Any] = []
    events = Events()
    events.on("warning", warnings.append)
    registry = ToolRegistry([odd, add, tool(lost)])

    assert [each["name"] for each in registry.to_definitions(events=events)] == ["add"]
    assert [("'odd'" in each.message, "'lost'" in each.message) for each in warnings] == [(True, False), (False, True)]
    assert b'"add"' in registry.definitions_json()
    assert [each["name"] for each in responses_api.definitions(registry).tools] == ["add"]
    calls = [Call("1", "odd", {"x": 1}), Call("2", "add", {"a": 1, "b": 2}), Call("3", "lost", {"x": 1})]
    outcomes = await Executor(registry).execute_parallel(calls, ToolContext("s1"))
    assert [outcome.ok for outcome in outcomes] == [False, True, False]
    for outcome, reason in ((outcomes[0], "ZeroDivisionError"), (outcomes[2], "Nowhere")):
        assert isinstance(outcome.result, Err)
        assert outcome.result.code == "not_available"
        assert reason in outcome.result.error
