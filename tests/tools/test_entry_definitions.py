import json
import os
import subprocess
import sys
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from spindle.errors import InvalidToolError
from spindle.events import Events, Warned
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry


class Query(BaseModel):
    zone: Literal["north", "south"] = "north"
    about: Annotated[str, Field(min_length=1)]


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(name: str, description: str = "A tool.") -> Tool:
    return Tool(
        name=name, description=description, input_schema=Query, handler=answer, meta={"secret": "kept to ourselves"}
    )


def test_a_definition_has_name_description_and_parameters_and_nothing_else() -> None:
    tool = make("a", "Says “hello” to\nall.")
    (reported,) = ToolRegistry([tool]).to_definitions()
    assert list(reported) == ["name", "description", "parameters"]
    assert (reported["name"], reported["description"]) == ("a", "Says “hello” to\nall.")
    assert reported["parameters"] == tool.describe()["input_schema"]


def test_definitions_come_in_the_order_of_registration() -> None:
    registry = ToolRegistry([make("c"), make("a"), make("b")])
    assert [reported["name"] for reported in registry.to_definitions()] == ["c", "a", "b"]


def test_no_tools_make_an_empty_list() -> None:
    assert ToolRegistry().to_definitions() == []
    assert ToolRegistry().definitions_json() == b"[]"


def test_changing_returned_definitions_affects_neither_tool_nor_registry() -> None:
    registry = ToolRegistry([make("a")])
    before = registry.definitions_json()
    reported = registry.to_definitions()
    reported[0]["parameters"]["properties"]["zone"]["enum"].append("west")
    reported[0]["name"] = "b"
    reported.clear()
    assert registry.definitions_json() == before
    assert registry.to_definitions() == json.loads(before)


def test_the_bytes_are_the_definitions_as_compact_json() -> None:
    registry = ToolRegistry([make("a", "Grüße, 世界 👋"), make("b")])
    written = registry.definitions_json(ToolFilter(allowed_tools=["a"]))
    assert json.loads(written) == registry.to_definitions(ToolFilter(allowed_tools=["a"]))
    assert "Grüße, 世界 👋".encode() in written
    assert b": " not in written


def test_the_order_of_properties_is_the_tools_own() -> None:
    registry = ToolRegistry([make("a")])
    assert list(registry.to_definitions()[0]["parameters"]["properties"]) == ["zone", "about"]


def test_overwriting_a_tool_changes_its_definition() -> None:
    registry = ToolRegistry([make("a", "Old.")])
    registry.definitions_json()
    registry.register(make("a", "New."), overwrite=True)
    assert registry.to_definitions()[0]["description"] == "New."


def test_a_lone_surrogate_travels_escaped() -> None:
    registry = ToolRegistry([make("a", "half \ud83d a face")])
    assert b"\\ud83d" in registry.definitions_json()
    assert registry.to_definitions()[0]["description"] == "half \ud83d a face"


class Unwritable(BaseModel):
    limit: float = float("nan")


def test_a_schema_that_is_not_json_is_left_out_and_named() -> None:
    tool = Tool(name="a", description="A tool.", input_schema=Unwritable, handler=answer)
    events, warned = Events(), list[Warned]()
    events.on("warning", warned.append)

    listed = ToolRegistry([make("fine"), tool]).to_definitions(events=events)

    assert [each["name"] for each in listed] == ["fine"]
    errors = [each.error for each in warned]
    assert [(e.tool, e.field) for e in errors if isinstance(e, InvalidToolError)] == [("a", "input_schema")]


PROGRAM = """
import enum, sys
from typing import Annotated, Literal
from pydantic import BaseModel, Field
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.tools.declaration import Tool

class Colour(enum.Enum):
    red = "red"
    blue = "blue"

class Line(BaseModel):
    sku: str
    colours: set[Colour] = set()

class Order(BaseModel):
    lines: list[Line]
    kind: Literal["new", "old"] = "new"
    note: Annotated[str, Field(max_length=9)] | None = None

registry = ToolRegistry()
for i in range(20):
    registry.register(
        Tool(name=f"t{i * 7 % 20}", description="An order.", input_schema=Order, handler=lambda args, ctx, meta: ""),
        plugin_id=f"p{i % 3}",
    )
sys.stdout.buffer.write(registry.definitions_json(ToolFilter(allowed_plugins={"p0", "p2"}, exclude_tools={"t0", "t1"})))
"""


@pytest.mark.slow
def test_the_bytes_are_the_same_in_every_process_and_with_every_hash_seed() -> None:
    def written(seed: str) -> bytes:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True).stdout

    first, *others = [written(seed) for seed in ("0", "1", "4242")]
    assert len(json.loads(first)) > 5
    assert others == [first, first]
