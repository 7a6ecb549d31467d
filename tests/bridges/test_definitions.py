"""Definitions: which tools they list, their bytes, and the calls that come back."""

import gc
import json
import subprocess
import sys
import weakref
from typing import Any

import pytest
from pydantic import BaseModel

from spindle import (
    Artifact,
    CallOutcome,
    DispatchContext,
    Events,
    Executor,
    Ok,
    Tool,
    ToolContext,
    ToolFilter,
    ToolRegistry,
    tool,
)
from spindle.bridges import anthropic, bedrock, gemini, mcp
from spindle.bridges.definitions import Spec, build, new_call_id
from spindle.bridges.dialects import ALL, ANTHROPIC, BEDROCK, GEMINI, OPENAI_CHAT, Dialect
from spindle.bridges.openai import chat_completions, responses_api
from spindle.errors import CannotLowerError, InvalidToolFilterError, TooManyToolsError
from tests.bridges.golden.comparing import agrees

MODULES = {module.DIALECT.name: module for module in (chat_completions, responses_api, anthropic, gemini, bedrock, mcp)}


class Filter(BaseModel):
    """Which orders."""

    status: str | None = None
    tags: list[str] = []


class Order(BaseModel):
    """An order, and those it came from."""

    number: int
    parents: list["Order"] = []


@tool
def search_orders(customer: str, limit: int = 10, where: Filter | None = None) -> str:
    """Find a customer's orders.

    Args:
        customer: Name or number.
        limit: How many at most.
        where: Only these.
    """
    return f"{customer} {limit} {where}"


@tool(name="orders.merge")
def merge_orders(first: Order, labels: dict[str, str], pair: tuple[int, str]) -> str:
    """Put orders together."""
    return f"{first} {labels} {pair}"


@tool
def ping() -> str:
    """Say that we are here."""
    return "pong"


def wrap(spec: Spec) -> dict[str, Any]:
    return {"name": spec.name, "about": spec.description, "schema": spec.schema, "strict": spec.strict}


def answer(args: object, ctx: object, meta: object) -> str:
    return str(args)


def raw(name: str, schema: Any) -> Tool:
    return Tool(name=name, description=name, input_schema=schema, handler=answer)


# Golden files


@pytest.mark.parametrize("strict", [False, True], ids=["loose", "strict"])
@pytest.mark.parametrize("dialect", list(MODULES))
def test_the_golden_definitions(dialect: str, strict: bool) -> None:
    definitions = MODULES[dialect].definitions([search_orders, merge_orders, ping], strict=strict)

    reported = {"tools": definitions.tools, "reports": [report.to_dict() for report in definitions.reports]}
    agrees(f"definitions/{dialect}{'_strict' if strict else ''}.json", reported)


# Which tools


def test_the_same_tools_are_defined_as_by_the_registry() -> None:
    registry = ToolRegistry([search_orders, merge_orders, ping])
    registry.hide("ping")
    unavailable = Tool(
        name="gone", description="gone", input_schema={"type": "object"}, handler=print, is_available=lambda: False
    )
    registry.register(unavailable)
    only = ToolFilter(exclude_tools=["orders.merge"])

    for each_filter in (None, only):
        reported = build(ANTHROPIC, registry, wrap, filter=each_filter)
        assert [report.tool for report in reported.reports] == [
            each["name"] for each in registry.to_definitions(each_filter)
        ]


def test_tools_are_defined_in_the_order_of_registration() -> None:
    assert [each["name"] for each in build(ANTHROPIC, [ping, search_orders], wrap).tools] == ["ping", "search_orders"]


def test_something_that_is_not_a_filter_is_refused() -> None:
    with pytest.raises(InvalidToolFilterError):
        build(ANTHROPIC, [ping], wrap, filter={"allowed_tools": []})  # pyright: ignore[reportArgumentType]  on purpose


def test_more_tools_than_the_provider_takes_are_refused() -> None:
    many = [raw(f"t{number}", {"type": "object"}) for number in range(129)]

    assert len(build(OPENAI_CHAT, many[:128], wrap)) == 128
    with pytest.raises(TooManyToolsError) as caught:
        build(OPENAI_CHAT, many, wrap)

    assert (caught.value.count, caught.value.max_tools, caught.value.dialect) == (129, 128, "openai_chat")


def test_readers_make_room_for_tools() -> None:
    record = CallOutcome("c1", "t0", "0" * 64, Ok("", artifact=Artifact.from_text("a"))).to_record()
    readers = Artifact.forge_tools(DispatchContext(tool_calls=[record])).all()
    many = [raw(f"t{number}", {"type": "object"}) for number in range(126)]

    reported = [each["name"] for each in build(OPENAI_CHAT, [*many, *readers], wrap).tools]

    assert len(reported) == 128
    assert reported[:126] == [tool.name for tool in many]
    assert reported[126:] == [reader.name for reader in readers[:2]]


def test_more_tools_than_a_soft_limit_are_warned_about() -> None:
    warnings: list[Any] = []
    events = Events()
    events.on("warning", warnings.append)

    build(GEMINI, [raw(f"t{number}", {"type": "object"}) for number in range(513)], wrap, events=events)

    assert len(warnings) == 1


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_names_that_differ_only_in_refused_letters_have_different_wire_names(dialect: Dialect) -> None:
    names = ["a b", "a_b", "a b ", "a\u200bb", "a" * 300, "a" * 301, "a__b", "a\tb"]

    reported = build(dialect, [raw(name, {"type": "object"}) for name in names], wrap)

    assert len({each.wire_name for each in reported.entries}) == len(names)
    assert [reported.call("c", each.wire_name, {}).name for each in reported.entries] == names


@pytest.mark.parametrize("order", [1, -1], ids=["imitation last", "imitation first"])
def test_a_tool_cannot_take_the_wire_name_of_another(order: int) -> None:
    [wire] = [each.wire_name for each in build(ANTHROPIC, [raw("a b", {"type": "object"})], wrap).entries]
    tools = [raw("a b", {"type": "object"}), raw(wire, {"type": "object"})][::order]

    reported = build(ANTHROPIC, tools, wrap)

    assert reported.call("c", wire, {}).name == "a b"
    assert {reported.call("c", each["name"], {}).name for each in reported.tools} == {"a b", wire}


def test_two_names_with_the_same_digest_are_both_offered() -> None:
    first, second = "a!!%$()b", "a!!)$^/b"  # found by search: their SHA-256 begins with the same eight digits

    reported = build(ANTHROPIC, [raw(first, {"type": "object"}), raw(second, {"type": "object"})], wrap)

    assert len({each["name"] for each in reported.tools}) == 2
    assert {reported.call("c", each["name"], {}).name for each in reported.tools} == {first, second}


def test_a_schema_that_cannot_be_lowered_is_refused_with_the_tool_and_the_location() -> None:
    schema: Any = {"type": "object", "properties": {"in": {"type": "object", "properties": {"a b": {}, "a_b": {}}}}}

    with pytest.raises(CannotLowerError) as caught:
        build(ANTHROPIC, [raw("search", schema)], wrap)

    error = caught.value
    assert (error.tool, error.dialect, error.path) == ("search", "anthropic", "/properties/in")


# Bytes


def test_returned_definitions_are_copies() -> None:
    definitions = build(ANTHROPIC, [ping], wrap)

    definitions.tools[0]["name"] = "changed"

    assert definitions.tools[0]["name"] == "ping"
    assert json.loads(definitions.json) == definitions.tools


def test_a_tool_is_lowered_once_for_each_dialect_and_form() -> None:
    wrapped: list[str] = []

    def counting(spec: Spec) -> dict[str, Any]:
        wrapped.append(spec.name)
        return wrap(spec)

    for _ in range(3):
        build(ANTHROPIC, ToolRegistry([ping, search_orders]), counting)
        build(ANTHROPIC, [ping], counting, strict=True)
        build(OPENAI_CHAT, [ping], counting)

    assert wrapped == ["ping", "search_orders", "ping", "ping"]


def test_cached_definitions_are_released_with_their_tool() -> None:
    mortal = raw("mortal", {"type": "object", "properties": {"a": {"type": "string"}}})
    gone = weakref.ref(mortal)
    for dialect in ALL:
        build(dialect, [mortal], wrap, strict=True)

    del mortal
    gc.collect()

    assert gone() is None


PROGRAM = """
import sys
from typing import Literal
from spindle import tool
from spindle.bridges import anthropic, gemini
from spindle.bridges.openai import chat_completions
@tool
def find(text: str, kinds: set[Literal["a", "b", "c"]] | None = None, deep: dict[str, int] | None = None) -> str:
    "Find text."
    return text
for module in (anthropic, gemini, chat_completions):
    for strict in (False, True):
        sys.stdout.buffer.write(module.definitions([find], strict=strict).json)
"""


@pytest.mark.slow  # tests/tools/test_entry_definitions.py compares processes too
def test_every_process_writes_the_same_bytes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    }

    assert len(outputs) == 1
    assert b"find" in outputs.pop()


# Strict forms


def test_a_tool_beyond_the_strict_form_gets_the_loose_one_with_a_report() -> None:
    free = raw("free", {"type": "object", "properties": {"map": {"type": "object"}}})

    definitions = build(OPENAI_CHAT, [free, ping], wrap, strict=True)

    assert [each["strict"] for each in definitions.tools] == [False, True]
    [loss] = [each for each in definitions.reports[0].losses if each.keyword == "strict"]
    assert loss.action == "dropped"
    assert "/properties/map" in loss.detail


def test_a_dialect_without_a_strict_form_says_so() -> None:
    [report] = build(GEMINI, [search_orders], wrap, strict=True).reports

    assert "strict" in {loss.keyword for loss in report.losses}


@pytest.mark.parametrize("dialect", [ANTHROPIC, BEDROCK, OPENAI_CHAT], ids=lambda each: each.name)
def test_tools_beyond_the_strict_limit_of_a_request_get_the_loose_form(dialect: Any) -> None:
    needed = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    many = [raw(f"t{number}", {**needed, "required": ["a"]}) for number in range(25)]
    names = [f"p{number}" for number in range(25)]
    wide = raw("wide", {**needed, "properties": {name: {"type": "string"} for name in names}})
    definitions = build(dialect, [wide, *many], wrap, strict=True)

    is_strict = [reported["strict"] for reported in definitions.tools]
    assert is_strict == [each.strict_size is not None for each in definitions.entries]
    assert is_strict == ([True] * 26 if dialect is OPENAI_CHAT else [False] + [True] * 20 + [False] * 5)
    assert is_strict == ["strict" not in {loss.keyword for loss in report.losses} for report in definitions.reports]
    assert build(dialect, [wide, *many], wrap, strict=True) == definitions


# Calls


def test_a_call_has_the_tools_own_name() -> None:
    definitions = build(ANTHROPIC, [merge_orders], wrap)

    assert definitions.tools[0]["name"] == "orders_merge_982fc835"
    assert definitions.call("c1", "orders_merge_982fc835", {}).name == "orders.merge"
    assert definitions.call("c1", "invented", {}).name == "invented"


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    definitions = build(ANTHROPIC, [ping], wrap)

    made = {definitions.call(missing, "ping").tool_call_id for missing in (None, "") for _ in range(50)}

    assert len(made) == 100
    assert definitions.call("theirs", "ping").tool_call_id == "theirs"
    assert new_call_id() not in made


def test_arguments_are_left_alone_where_nothing_was_rewritten() -> None:
    definitions = build(OPENAI_CHAT, [search_orders], wrap)

    text = '{"customer": "x"}'
    assert definitions.call("c1", "search_orders", text).args is text


@pytest.mark.parametrize("args", ['{"customer": "x", "limit": null, "where": null}', b'{"customer":"x","limit":null}'])
def test_the_strict_form_is_undone_in_text_and_bytes(args: Any) -> None:
    definitions = build(OPENAI_CHAT, [search_orders], wrap, strict=True)

    restored = definitions.call("c1", "search_orders", args).args

    assert isinstance(restored, dict)
    assert "limit" not in restored


def test_a_call_by_the_tools_own_name_is_undone_too() -> None:
    optional = raw("a.b", {"type": "object", "properties": {"c": {"type": "string"}}, "additionalProperties": False})
    definitions = build(OPENAI_CHAT, [optional], wrap, strict=True)

    assert [definitions.call("c1", name, {"c": None}).args for name in ("a_b_2e7336dc", "a.b")] == [{}, {}]


BROKEN = ['{"customer": "x", "limit": nu', '{"customer": 1, "customer": 2}', '["customer"]', "", "NaN", "null", 5]


@pytest.mark.parametrize("args", BROKEN, ids=lambda value: f"args {value!r:.20}")
def test_arguments_that_are_not_object_stay_as_they_came(args: Any) -> None:
    definitions = build(OPENAI_CHAT, [search_orders], wrap, strict=True)

    assert definitions.call("c1", "search_orders", args).args is args


def test_arguments_of_any_depth_come_back_in_time() -> None:
    either = {"anyOf": [{"$ref": "#/$defs/N"}, {"$ref": "#/$defs/M"}]}
    shelf = {
        name: {"type": "object", "properties": {"in": either, kind: {"type": "string"}}, "additionalProperties": False}
        for name, kind in (("N", "n"), ("M", "m"))
    }
    nested = raw("nested", {"type": "object", "properties": {"in": either}, "$defs": shelf, "required": ["in"]})
    definitions = build(OPENAI_CHAT, [nested], wrap, strict=True)
    args: dict[str, Any] = {"in": None, "m": "end"}
    for _ in range(190):
        args = {"in": args, "n": None}

    restored = definitions.call("c1", "nested", {"in": args}).args

    assert isinstance(restored, dict)


@pytest.mark.anyio
async def test_a_dropped_constraint_is_enforced_when_the_call_comes_back() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 3}, "b": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    guarded = raw("guarded", schema)
    definitions = build(OPENAI_CHAT, [guarded], wrap, strict=True)
    calls = [
        definitions.call("1", "guarded", '{"a": "xyz", "b": null}'),
        definitions.call("2", "guarded", '{"a": "x", "b": null}'),
    ]

    good, bad = await Executor(ToolRegistry([guarded])).execute_parallel(calls, ToolContext("s1"))

    assert good.ok
    assert good.args == {"a": "xyz"}
    assert getattr(bad.result, "code", None) == "input_invalid"
