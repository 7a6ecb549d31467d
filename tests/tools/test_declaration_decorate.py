"""Every kind of function that can be a tool, and those that cannot."""

import functools
from collections.abc import Callable
from typing import Annotated, Any, Optional, cast

import pytest
from pydantic import BaseModel, Field

from spindle import Tool, ToolContext, tool
from spindle.errors import InvalidToolArgsError, InvalidToolError

pytestmark = pytest.mark.anyio


class Address(BaseModel):
    street: str


async def call(it: Tool, /, **args: Any) -> Any:
    return await it.executor(ToolContext())(args)


def schema(it: Tool) -> dict[str, Any]:
    return it.describe()["input_schema"]


async def test_name_description_and_schema_come_from_the_function() -> None:
    @tool
    async def search_orders(
        customer: str, limit: Annotated[int, Field(ge=1, le=100)] = 10, *, ctx: ToolContext
    ) -> list[str]:
        """Find a customer's orders.

        Newest first.

        Args:
            customer: The customer's number
                or name.
            limit: How many at most.
        """
        return [customer] * limit

    assert search_orders.describe() == {
        "name": "search_orders",
        "description": "Find a customer's orders.\n\nNewest first.",
        "input_schema": {
            "type": "object",
            "properties": {
                "customer": {"type": "string", "description": "The customer's number or name."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 100,
                    "default": 10,
                    "description": "How many at most.",
                },
            },
            "required": ["customer"],
            "additionalProperties": False,
        },
    }
    assert search_orders.input_schema == schema(search_orders)
    assert await call(search_orders, customer="a", limit=2) == ["a", "a"]


async def test_options_are_those_of_a_tool() -> None:
    @tool(name="find", description="Find it.", trusted=True, toolset="orders", timeout_seconds=30)
    def anything(q: str) -> str:
        return q

    assert (anything.name, anything.description) == ("find", "Find it.")
    assert (anything.trusted, anything.toolset, anything.timeout_seconds) == (True, "orders", 30)


async def test_a_function_that_takes_any_name_says_so_to_the_model() -> None:
    @tool
    def anything(a: int, **rest: Any) -> Any:
        """Take."""
        return a, rest

    @tool
    def numbers(**rest: int) -> Any:
        """Take."""
        return rest

    assert schema(anything)["additionalProperties"] is True
    assert await call(anything, a=1, b=[2]) == (1, {"b": [2]})
    assert schema(numbers)["additionalProperties"] == {"type": "integer"}
    with pytest.raises(InvalidToolArgsError):
        await call(numbers, b="x")


async def test_what_a_function_returns_need_not_be_known() -> None:
    def greet(name: str) -> Any:
        """Greet."""
        return name

    greet.__annotations__["return"] = "Nowhere"

    assert await call(tool(greet), name="a") == "a"


async def test_postponed_annotations_find_local_names() -> None:
    namespace: dict[str, Any] = {}
    exec(  # a module of its own, with the future import
        "from __future__ import annotations\n"
        "from pydantic import BaseModel\n"
        "from spindle import tool, ToolContext\n"
        "def make():\n"
        "    class Local(BaseModel):\n"
        "        a: int\n"
        "    @tool\n"
        "    def f(it: Local, ctx: ToolContext, n: int = 1) -> object:\n"
        "        'Do.'\n"
        "        return it.a + n, ctx.session_id\n"
        "    @tool(name='g')\n"
        "    def g(it: Local) -> object:\n"
        "        'Do.'\n"
        "        return it.a\n"
        "    return f, g\n",
        namespace,
    )
    f, g = namespace["make"]()

    assert await call(f, it={"a": 1}) == (2, "s1")
    assert await call(g, it={"a": 1}) == 1
    assert set(schema(f)["properties"]) == {"it", "n"}


@pytest.mark.parametrize("where", ["first", "last", "keyword", "optional"])
async def test_the_context_is_injected_wherever_it_stands_and_never_shown(where: str) -> None:
    def first(ctx: ToolContext, a: int) -> Any:
        """Do."""
        return ctx.session_id, a

    def last(a: int, context: ToolContext) -> Any:
        """Do."""
        return context.session_id, a

    def keyword(a: int, *, anything: ToolContext) -> Any:
        """Do."""
        return anything.session_id, a

    def optional(a: int, ctx: Optional[ToolContext] = None) -> Any:  # noqa: UP045
        """Do."""
        assert ctx is not None
        return ctx.session_id, a

    it = tool({"first": first, "last": last, "keyword": keyword, "optional": optional}[where])

    assert await call(it, a=1) == ("s1", 1)
    assert list(schema(it)["properties"]) == ["a"]
    for name in ("ctx", "context", "anything"):
        with pytest.raises(InvalidToolArgsError):
            await call(it, a=1, **{name: {"session_id": "forged"}})


async def test_methods_partials_and_callable_objects_are_tools() -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        async def sell(self, item: str) -> str:
            """Sell an item."""
            return f"{self.name}:{item}"

        @staticmethod
        def close(hour: int) -> int:
            """Close the shop."""
            return hour

        @classmethod
        def count(cls, n: int) -> str:
            """Count shops."""
            return f"{cls.__name__}{n}"

    class Adder:
        """Add."""

        def __call__(self, a: int, b: int = 1) -> int:
            """Add two numbers."""
            return a + b

    def power(base: int, exponent: int, mod: int | None = None) -> int:
        """Raise to a power."""
        return pow(base, exponent, mod)

    assert await call(tool(Shop("corner").sell), item="tea") == "corner:tea"
    assert await call(tool(Shop.close), hour="5") == 5
    assert await call(tool(Shop.count), n=5) == "Shop5"
    assert await call(tool(Adder()), a=1) == 2
    assert tool(Adder()).name == "Adder"
    square = tool(name="square")(functools.partial(power, exponent=2))
    assert await call(square, base=3) == 9
    assert set(schema(square)["properties"]) == {"base", "mod"}
    with pytest.raises(InvalidToolArgsError):
        await call(square, base=3, exponent=3)


async def test_a_wrapped_function_keeps_its_signature() -> None:
    def loud(fn: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> str:
            return fn(*args, **kwargs).upper()

        return wrapper

    @tool
    @loud
    def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    assert await call(greet, name="ada") == "HELLO ADA"


async def test_parameter_names_that_models_would_not_like_are_fine() -> None:
    @tool
    def odd(json: str, copy: int, schema: str, model_config: str, _private: int = 0) -> Any:
        """Take odd names."""
        return json, copy, schema, model_config, _private

    assert await call(odd, json="a", copy=1, schema="b", model_config="c", _private=2) == ("a", 1, "b", "c", 2)


async def test_a_parameter_without_annotation_takes_anything() -> None:
    def anything(it, n=3):  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
        """Take anything."""
        return it, n  # pyright: ignore[reportUnknownVariableType]

    it = tool(cast("Any", anything))
    assert await call(it, it={"a": [1]}) == ({"a": [1]}, 3)


def star(*things: str) -> None:
    """Take things."""


def positional(thing: str, /) -> None:
    """Take a thing."""


class Holds:
    def method(self, a: int) -> None:
        """Do."""


@pytest.mark.parametrize(("function", "parameter"), [(star, "things"), (positional, "thing"), (Holds.method, "self")])
def test_what_cannot_be_a_tool_is_refused_by_the_name_of_its_parameter(function: Any, parameter: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        tool(function)

    assert caught.value.field == parameter
    assert parameter in str(caught.value)


def undocumented(a: int) -> None: ...


NAMELESS: Any = lambda a: a  # noqa: E731  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]


@pytest.mark.parametrize("bad", [undocumented, NAMELESS, Address, "name", 5])
def test_what_has_no_description_or_name_or_is_no_function_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidToolError):
        tool(bad)


def test_a_function_says_what_is_asked_only_once() -> None:
    for taken in ("handler", "input_schema"):
        with pytest.raises(InvalidToolError) as caught:
            tool(**{taken: dict})(undocumented)  # type: ignore[arg-type]
        assert caught.value.field == taken
