"""The options of `@tool` have types: `make types` checks the types in this file, and the tests run its code."""
# pyright: reportUnnecessaryTypeIgnoreComment=true
# Each ignore below is an error that a type checker must report.

import functools
import inspect
from collections.abc import Callable
from typing import assert_type

import pytest

from spindle import Artifact, Capabilities, JsonArtifact, Tool, ToolContext, tool
from spindle.errors import InvalidToolError
from spindle.tools import CachePolicy, FunctionTool, ToolOptions

pytestmark = pytest.mark.anyio


def find(customer: str) -> str:
    """Find a customer."""
    return customer


def test_every_option_of_tool_is_an_option_of_the_decorator() -> None:
    options = {name for name in Tool.__annotations__ if not name.startswith("_")} - {"name"}

    assert set(ToolOptions.__annotations__) == options | {"description"}


def test_decorator_takes_all_options() -> None:
    options: ToolOptions = {
        "description": "Find a customer.",
        "artifact_constructor": Artifact,
        "capabilities": Capabilities(network=["shop.example"]),
        "cache": CachePolicy(ttl_seconds=1),
        "checks": [lambda args, ctx: None],
        "secret_fields": ["customer"],
        "timeout_seconds": 1.5,
        "on_collision": "keep",
        "meta": {"team": "sales"},
    }
    decorate = tool(name="find_customer", **options)

    assert_type(decorate(find)("C-17"), str)
    assert decorate(find).on_collision == "keep"


async def test_a_tool_is_called_like_its_function() -> None:
    async def fetch(url: str, *, ctx: ToolContext, limit: int = 1) -> list[str]:
        """Fetch a page."""
        return [url, ctx.session_id] * limit

    found, fetched = tool(find), tool(timeout_seconds=5)(fetch)

    assert_type(found("C-17"), str)
    assert found("C-17") == found(customer="C-17") == "C-17"
    pages = await fetched("a", ctx=ToolContext("s1"), limit=2)
    assert_type(pages, list[str])
    assert pages == ["a", "s1", "a", "s1"]
    assert isinstance(found, FunctionTool)
    assert inspect.signature(found) == inspect.signature(find)
    with pytest.raises(TypeError):
        found(5, 6)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        await fetched("a")  # pyright: ignore[reportCallIssue]


def test_a_tool_made_of_a_method_or_a_partial_is_called_like_it() -> None:
    class Shop:
        def order(self, count: int) -> int:
            """Order."""
            return count + 1

    assert tool(Shop().order)(2) == 3
    assert tool(name="three")(functools.partial(Shop().order, 3))() == 4


def test_a_tool_is_neither_a_function_for_a_tool_nor_a_handler() -> None:
    with pytest.raises(InvalidToolError):
        tool(tool(find))
    with pytest.raises(InvalidToolError) as caught:
        Tool(name="t", description="T.", input_schema={"type": "object"}, handler=tool(find))
    assert caught.value.field == "handler"


def test_the_class_of_artifacts_is_the_parameter_of_a_tool() -> None:
    def build(kind: type[JsonArtifact] | Callable[[], type[JsonArtifact]]) -> Tool[JsonArtifact]:
        return Tool(name="t", description="T.", input_schema={}, handler=print, artifact_constructor=kind)

    made = build(JsonArtifact)
    assert_type(made.artifact_constructor, type[JsonArtifact] | None)
    tools: list[Tool] = [made, build(lambda: JsonArtifact), tool(find)]
    assert [each.artifact_constructor for each in tools] == [JsonArtifact, JsonArtifact, None]
    plain = Tool(name="t", description="T.", input_schema={}, handler=print)
    assert_type(plain, Tool)
    assert Tool[JsonArtifact](name="t", description="T.", input_schema={}, handler=print).name == "t"


def test_type_checkers_require_the_required_fields_of_a_tool() -> None:
    with pytest.raises(InvalidToolError):
        Tool()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        Tool(name="t", description="T.", input_schema={}, handler=print, nonsense=1)  # pyright: ignore[reportCallIssue]


def test_invalid_options_are_refused_by_type_checkers_and_at_run_time() -> None:
    with pytest.raises(InvalidToolError):
        tool(timeout_seconds="soon")(find)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidToolError):
        tool(on_collision="explode")(find)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidToolError):
        tool(handler=find)(find)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        tool(timeout=5)(find)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        tool(nonsense=1)(find)  # pyright: ignore[reportCallIssue]
