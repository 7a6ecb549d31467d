import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Annotated, Any, Optional, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from spindle import Capabilities, Tool, ToolContext, tool
from spindle.calls import RawArgs
from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.tool_fields import CachePolicy

pytestmark = pytest.mark.anyio


class Query(BaseModel):
    text: str
    limit: int = 10


def search(args: Any, ctx: Any, meta: Any) -> str:
    return f"{args.text}:{args.limit}"


def make(**changes: Any) -> Tool:
    values: dict[str, Any] = {"name": "search", "description": "Find it.", "input_schema": Query, "handler": search}
    return Tool(**(values | changes))


def test_defaults_are_those_of_the_contract() -> None:
    tool = make()

    assert (tool.name, tool.description, tool.input_schema) == ("search", "Find it.", Query)
    assert tool.artifact_constructor is None
    assert tool.meta.all() == {}
    assert (tool.ephemeral, tool.trusted, tool.on_collision) == (False, False, "throw")
    assert tool.capabilities == Capabilities()
    assert tool.isolation == "thread"
    assert tool.checks == ()


@pytest.mark.parametrize("missing", ["name", "description", "input_schema", "handler"])
def test_a_missing_value_is_named(missing: str) -> None:
    values: dict[str, Any] = {"name": "t", "description": "d", "input_schema": Query, "handler": search}
    del values[missing]

    with pytest.raises(InvalidToolError) as caught:
        Tool(**values)

    assert caught.value.field == missing
    assert (caught.value.code, caught.value.status, caught.value.fatal) == ("E_INVALID_INITIAL_TOOL_VALUE", 500, True)


class NotAnArtifact:
    pass


def raising() -> type:
    raise RuntimeError("no class today")


async def available() -> bool:
    return True


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", 5),
        ("name", None),
        ("description", ""),
        ("description", "  \n"),
        ("description", 5),
        ("input_schema", int),
        ("input_schema", "object"),
        ("input_schema", NotAnArtifact),
        ("input_schema", {"type": "string"}),
        ("handler", "search"),
        ("artifact_constructor", 5),
        ("artifact_constructor", NotAnArtifact),
        ("artifact_constructor", lambda: NotAnArtifact),
        ("artifact_constructor", raising),
        ("meta", [1]),
        ("meta", {1: "a"}),
        ("ephemeral", "yes"),
        ("trusted", 1),
        ("on_collision", "explode"),
        ("toolset", ""),
        ("toolset", 5),
        ("max_result_chars", 0),
        ("max_result_chars", -1),
        ("max_result_chars", True),
        ("max_result_chars", 1.5),
        ("capabilities", {"network": ["a"]}),
        ("is_available", True),
        ("is_available", available),
        ("cache", 5),
        ("timeout_seconds", 0),
        ("timeout_seconds", float("nan")),
        ("timeout_seconds", "5"),
        ("isolation", "container"),
        ("checks", search),
        ("checks", [1]),
        ("checks", [int]),
        ("preview", str),
        ("secret_fields", "token"),
        ("secret_fields", [""]),
        ("resources", "file"),
        ("preview", "text"),
        ("reconcile", "text"),
    ],
)
def test_a_bad_value_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidToolError) as caught:
        make(**{field: value})

    assert caught.value.field == field


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(InvalidToolError) as caught:
        make(description="", toolset="", trusted="no")

    for field in ("description", "toolset", "trusted"):
        assert field in str(caught.value)
    assert caught.value.tool == "search"


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises((InvalidToolError, TypeError)):
        make(retries=3)


def test_process_isolation_is_for_sync_handlers() -> None:
    async def handler(args: Any, ctx: Any, meta: Any) -> str:
        return ""

    with pytest.raises(InvalidToolError):
        make(handler=handler, isolation="process")


@pytest.mark.parametrize("name", ["with space", "UPPER", "ünïcode", "a" * 300, "mcp__x__y"])
def test_a_name_may_be_any_text(name: str) -> None:
    assert make(name=name).name == name


def test_attributes_are_read_only() -> None:
    tool = make()

    for name in ("name", "trusted", "handler", "meta", "anything"):
        with pytest.raises(AttributeError):
            setattr(tool, name, "changed")
    with pytest.raises(AttributeError):
        delattr(tool, "name")


def test_the_handler_cannot_be_reached_by_its_name() -> None:
    assert not hasattr(make(), "handler")


def test_meta_is_frozen_and_a_copy() -> None:
    given = {"limits": {"rows": 5}}
    tool = make(meta=given)
    given["limits"]["rows"] = 6

    assert tool.meta.get("limits.rows") == 5
    assert not hasattr(tool.meta, "set")
    tool.meta.get("limits")["rows"] = 7
    assert tool.meta.get("limits.rows") == 5


def test_cache_true_is_the_default_policy() -> None:
    assert make(cache=True).cache == CachePolicy(ttl_seconds=300, scope="session", key=None)
    assert make(cache=False).cache is None
    assert make(cache=CachePolicy(5)).cache == CachePolicy(5)


def test_an_artifact_class_or_its_resolver_gives_the_class() -> None:
    methods = ("head", "tail", "grep", "cat", "byte_length", "line_count", "estimate_tokens")
    shaped = type("Shaped", (), {name: lambda self: None for name in methods})  # pyright: ignore[reportUnknownLambdaType]

    assert make(artifact_constructor=shaped).artifact_constructor is shaped
    assert make(artifact_constructor=lambda: shaped).artifact_constructor is shaped


def test_describe_gives_three_keys_of_plain_data() -> None:
    described = make(meta={"secret": 1}, trusted=True).describe()

    assert set(described) == {"name", "description", "input_schema"}
    assert json.loads(json.dumps(described)) == described
    assert described["input_schema"]["properties"]["limit"] == {"type": "integer", "default": 10}
    assert described["input_schema"]["required"] == ["text"]
    assert described["input_schema"]["additionalProperties"] is False


def test_a_description_that_was_given_away_can_be_changed_without_harm() -> None:
    tool = make()
    before = json.dumps(tool.describe())

    tool.describe()["input_schema"]["properties"].clear()
    tool.describe()["input_schema"]["required"].append("limit")

    assert json.dumps(tool.describe()) == before


def test_only_a_tool_is_a_tool() -> None:
    class Imposter:
        name = "search"

    Imposter.__name__ = "Tool"

    assert Tool.is_tool(make())
    assert not make().is_artifact_reader
    for other in (None, "search", {"name": "search"}, Imposter(), Tool):
        assert not Tool.is_tool(other)


def test_a_tool_is_equal_only_to_itself() -> None:
    one, two = make(), make()

    assert one != two
    assert len({one, two, one}) == 2


def test_repr_shows_the_name_and_the_location() -> None:
    assert "search" in repr(make())
    assert make().origin.endswith(":search")


def test_the_fingerprint_depends_on_name_description_and_schema_alone() -> None:
    assert make().fingerprint == make(trusted=True, handler=lambda args, ctx, meta: "").fingerprint  # pyright: ignore[reportUnknownLambdaType]
    prints = {make().fingerprint, make(name="b").fingerprint, make(description="b").fingerprint}
    prints.add(make(input_schema={"type": "object"}).fingerprint)
    assert len(prints) == 4


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict):
    title: str
    year: int


async def test_the_handler_gets_an_instance_of_a_model_or_dataclass_and_a_dict_of_the_rest() -> None:
    assert await make().validate({"text": "a"}) == Query(text="a", limit=10)
    assert type(await make().validate({"text": "a"})) is Query
    assert await make(input_schema=Point).validate({"x": "5"}) == Point(5, 0)
    assert await make(input_schema=Movie).validate({"title": "a", "year": 1}) == {"title": "a", "year": 1}
    raw = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}
    assert await make(input_schema=raw).validate({}) == {"n": 3}


@pytest.mark.parametrize("schema", [Query, Point, Movie])
async def test_unknown_arguments_are_refused_and_the_schema_says_so(schema: type) -> None:
    tool = make(input_schema=schema)
    good: dict[type, dict[str, Any]] = {Query: {"text": "a"}, Point: {"x": 1}, Movie: {"title": "a", "year": 1}}

    await tool.validate(good[schema])
    with pytest.raises(InvalidToolArgsError) as caught:
        await tool.validate(good[schema] | {"lmit": 3})

    assert caught.value.field == "lmit"
    assert tool.describe()["input_schema"]["additionalProperties"] is False


async def test_a_model_that_opens_itself_stays_open() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    tool = make(input_schema=Open)

    assert (await tool.validate({"a": 1, "b": 2})).model_extra == {"b": 2}
    assert tool.describe()["input_schema"]["additionalProperties"] is True


async def test_text_is_coerced_unless_the_tool_is_strict() -> None:
    assert (await make().validate({"text": "a", "limit": "5"})).limit == 5
    with pytest.raises(InvalidToolArgsError):
        await make(strict=True).validate({"text": "a", "limit": "5"})
    assert (await make(strict=True).validate('{"text": "a", "limit": 5}')).limit == 5


async def test_validate_runs_the_checks_without_a_context() -> None:
    seen: list[Any] = []

    async def check(args: Any, ctx: Any) -> None:
        seen.append((args, ctx))
        if args.limit > 50:
            raise ValueError("limit is at most 50 on this plan")

    tool = make(checks=[check])
    await tool.validate({"text": "a"})
    with pytest.raises(InvalidToolArgsError) as caught:
        await tool.validate({"text": "a", "limit": 51})

    assert seen[0] == (Query(text="a"), None)
    assert "at most 50" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


async def test_anything_else_a_check_raises_passes_through() -> None:
    def check(args: Any, ctx: Any) -> None:
        raise LookupError("the directory is down")

    with pytest.raises(LookupError):
        await make(checks=[check]).validate({"text": "a"})


async def test_no_arguments_are_an_empty_object_only_for_a_tool_without_parameters() -> None:
    class Nothing(BaseModel):
        pass

    nothing = make(input_schema=Nothing, handler=lambda args, ctx, meta: "ran")  # pyright: ignore[reportUnknownLambdaType]

    nothing_at_all: list[RawArgs] = [None, "", b"", "{}", {}]
    for empty in nothing_at_all:
        assert await nothing.executor(ToolContext())(empty) == "ran"
    for empty in (None, "", b""):
        with pytest.raises(InvalidToolArgsError):
            await make().validate(empty)


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


async def test_an_unknown_return_annotation_is_ignored() -> None:
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

    functions: dict[str, Any] = {"first": first, "last": last, "keyword": keyword, "optional": optional}
    it = tool(functions[where])

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
def test_an_unsupported_function_is_refused_with_its_parameter(function: Any, parameter: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        tool(function)

    assert caught.value.field == parameter
    assert parameter in str(caught.value)


def undocumented(a: int) -> None: ...


NAMELESS: Any = lambda a: a  # noqa: E731  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]


@pytest.mark.parametrize("bad", [undocumented, NAMELESS, Address, "name", 5])
def test_a_function_without_description_or_name_and_a_non_function_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidToolError):
        tool(bad)


def test_a_function_says_what_is_asked_only_once() -> None:
    for taken in ("handler", "input_schema"):
        with pytest.raises(InvalidToolError) as caught:
            tool(**{taken: dict})(undocumented)  # type: ignore[arg-type]
        assert caught.value.field == taken
