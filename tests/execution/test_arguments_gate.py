"""Arguments on their way to a handler: one whole JSON object that fits the schema, or nothing runs."""

import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from spindle import (
    Call,
    Err,
    Events,
    Executor,
    Journal,
    Ok,
    Reducer,
    ReducerRegistry,
    Tool,
    ToolContext,
    ToolRegistry,
    tool,
)
from spindle.execution import ReduceInfo
from spindle.tools.identity import checksum
from tests.execution.calling import counting, err, execute, execute_one, make, ok
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "text": {"type": "string", "default": "dear"}},
    "required": ["n"],
    "additionalProperties": False,
}
DUPLICATES_REFUSED = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}


class Order(BaseModel):
    customer: str
    limit: Annotated[int, Field(ge=1, le=100)] = 10


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(TypedDict):
    left: int
    right: int


async def test_every_text_of_the_json_test_suite_runs_a_tool_only_if_it_is_one_object(shared_data: Path) -> None:
    files = sorted((shared_data / "json-test-suite" / "test_parsing").glob("*.json"))
    assert len(files) > 300
    tool, runs = counting(input_schema={"type": "object", "properties": {"any": {}}})
    calls = [Call(file.name, "count", file.read_bytes()) for file in files]

    outcomes = await execute([tool], calls)

    assert [each.tool_call_id for each in outcomes] == [file.name for file in files]
    ran = {each.tool_call_id for each in outcomes if each.ok}
    objects = {file.name for file in files if file.name.startswith("y_") and _is_object(file)} - DUPLICATES_REFUSED
    assert objects <= ran
    blank = {file.name for file in files if not file.read_bytes().strip()}  # no arguments, and none is required
    assert {name for name in ran if name.startswith("n_")} == blank
    assert all(isinstance(args, dict) for args in runs)
    assert len(runs) == len(ran)
    assert {err(each).code for each in outcomes if not each.ok} == {"input_invalid"}


def _is_object(file: Path) -> bool:
    return isinstance(json.loads(file.read_bytes()), dict)


TEXTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda it: st.lists(it, max_size=3)),
    max_size=4,
)


@settings(max_examples=examples(60), deadline=None)
@given(value=TEXTS)
async def test_no_beginning_of_a_call_is_a_call(value: dict[str, Any]) -> None:
    whole = json.dumps(value)
    tool, runs = counting()
    calls = [Call(str(end), "count", whole[:end]) for end in range(len(whole) + 1)]

    outcomes = await execute([tool], calls)

    assert [each.ok for each in outcomes[1:]] == [False] * (len(whole) - 1) + [True]
    assert [args for args in runs if args] == ([value] if value else [])


@pytest.mark.parametrize(
    "args",
    [
        '{"n": NaN}', '{"n": Infinity}', '{"n": -Infinity}', '{"n": 1e999}', '{"n": 1} {"n": 2}', '{"n": 1}x',
        '{"n": 1, "n": 2}', '[{"n": 1}]', '"{\\"n\\": 1}"', "5", "null", "true", "{'n': 1}", '{"n": 1,}', "{n: 1}",
        '```json\n{"n": 1}\n```', '// c\n{"n": 1}', '\ufeff{"n": 1}', '{"n": 01}', '{"n": "\\ud800"}', "{" * 10_000,
        '{"n": 1', '{"n":', "{", "", " ", "\ud800", '{"a":' * 300 + "1" + "}" * 300,
    ],
)  # fmt: skip
async def test_text_that_is_not_one_whole_object_runs_nothing(args: str) -> None:
    tool, runs = counting(input_schema=NUMBER)

    as_text = err(await execute_one(tool, args))
    as_bytes = err(await execute_one(tool, args.encode("utf-8", "surrogatepass")))

    assert as_text.code == as_bytes.code == "input_invalid"
    assert runs == []


@pytest.mark.parametrize("args", [{"n": float("nan")}, {"n": float("inf")}, {"n": [1, {"deep": -float("inf")}]}])
async def test_numbers_that_json_has_not_are_refused_in_mappings_too(args: dict[str, Any]) -> None:
    tool, runs = counting()

    assert err(await execute_one(tool, args)).code == "input_invalid"
    assert runs == []


@pytest.mark.parametrize(
    "args",
    [{"when": datetime.now(UTC)}, {"data": b"x"}, {"set": {1}}, {"o": object()}, {1: 2}, {"deep": [{"x": 1 + 2j}]}],
    ids=["datetime", "bytes", "set", "object", "key", "deep"],
)
async def test_a_mapping_that_is_not_json_is_refused(args: dict[Any, Any]) -> None:
    async def take(when: Any = None, data: Any = None, set: Any = None, o: Any = None, deep: Any = None) -> str:
        """Take anything."""
        runs.append(1)
        return "took"

    runs: list[int] = []
    raw, more = counting()

    outcomes = await execute([tool(take), raw], [Call("1", "take", args), Call("2", "count", args)])

    assert [err(each).code for each in outcomes] == ["input_invalid"] * 2
    assert runs == more == []


async def test_a_mapping_that_contains_itself_is_refused() -> None:
    args: dict[str, Any] = {}
    args["self"] = args
    counted, runs = counting()

    assert err(await execute_one(counted, args)).code == "input_invalid"
    assert runs == []


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType])
async def test_any_mapping_will_do(kind: Any) -> None:
    counted, runs = counting(input_schema=NUMBER)

    assert (await execute_one(counted, kind({"n": 1}))).ok
    assert runs == [{"n": 1, "text": "dear"}]


@pytest.mark.parametrize("args", ["", b"", "  \n", None])
async def test_nothing_is_an_empty_object_only_for_a_tool_without_parameters(args: Any) -> None:
    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    counted, runs = counting(input_schema=NUMBER)

    outcomes = await execute([ping, counted], [Call("1", "ping", args), Call("2", "count", args)])

    assert ok(outcomes[0]).value == "pong"
    assert err(outcomes[1]).code == "input_invalid"
    assert runs == []


async def test_values_are_coerced_unless_the_tool_is_strict() -> None:
    async def take(args: Order, _ctx: Any, _meta: Any) -> str:
        return f"{args.customer}:{args.limit!r}"

    def order(**options: Any) -> Tool:
        return make("order", take, input_schema=Order, **options)

    sent = '{"customer": "ada", "limit": "5"}'

    assert ok(await execute_one(order(), sent)).value == "ada:5"
    refused = err(await execute_one(order(strict=True), sent))
    assert (refused.code, refused.field) == ("input_invalid", "limit")
    assert ok(await execute_one(order(strict=True), '{"customer": "ada", "limit": 5}')).value == "ada:5"


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"customer": "a", "limit": 0}, "limit"),
        ({"customer": "a", "limit": 101}, "limit"),
        ({"limit": 1}, "customer"),
        ({"customer": "a", "colour": "red"}, "colour"),
        ({"customer": None}, "customer"),
        ({"customer": ["a"]}, "customer"),
    ],
)
async def test_arguments_that_violate_the_schema_are_refused_and_named(args: dict[str, Any], field: str) -> None:
    counted, runs = counting(input_schema=Order)

    for sent in (args, json.dumps(args), json.dumps(args).encode()):
        refused = err(await execute_one(counted, sent))
        assert (refused.code, refused.field) == ("input_invalid", field)
        assert field in refused.error
    assert runs == []


@pytest.mark.parametrize(
    ("schema", "args", "received"),
    [
        (Order, {"customer": "a"}, Order(customer="a", limit=10)),
        (Point, {"x": "3"}, Point(3, 0)),
        (Pair, {"left": 1, "right": 2}, {"left": 1, "right": 2}),
        (NUMBER, {"n": 1}, {"n": 1, "text": "dear"}),
    ],
)
async def test_a_handler_receives_what_its_schema_says(schema: Any, args: dict[str, Any], received: Any) -> None:
    counted, runs = counting(input_schema=schema)

    assert (await execute_one(counted, json.dumps(args))).ok
    assert runs == [received]
    assert type(runs[0]) is type(received)


async def test_a_raw_schema_is_not_coerced() -> None:
    counted, runs = counting(input_schema=NUMBER)

    assert err(await execute_one(counted, {"n": "1"})).field == "n"
    assert runs == []


async def test_a_model_cannot_supply_the_context() -> None:
    seen: list[Any] = []

    @tool
    async def look(n: int, *, ctx: ToolContext) -> str:
        """Look at the context."""
        seen.append(ctx)
        return str(n)

    outcomes = await execute([look], [Call("1", "look", '{"n": 1, "ctx": {}}'), Call("2", "look", '{"n": 1}')])

    assert [each.ok for each in outcomes] == [False, True]
    assert isinstance(seen[0], ToolContext)


SECRET = "hunter2-very-secret"


class Login(BaseModel):
    password: Annotated[str, Field(max_length=3)]
    token: int = 0


@pytest.mark.parametrize(
    "args",
    [{"password": SECRET}, {"password": "abc", "token": SECRET}, {"password": [SECRET]}, {"password": {"x": SECRET}}],
)
@pytest.mark.parametrize("schema", [Login, {**Login.model_json_schema(), "additionalProperties": False}])
async def test_a_refusal_never_shows_a_secret(args: dict[str, Any], schema: Any) -> None:
    counted, runs = counting(input_schema=schema, secret_fields=["password", "token"])

    for sent in (args, json.dumps(args)):
        for repair in (None, "explain"):
            refused = err(await execute_one(counted, sent, repair=repair))
            assert refused.code == "input_invalid"
            assert SECRET not in refused.error
            assert SECRET not in repr(refused.cause)
    assert runs == []


async def test_a_validator_of_the_users_own_that_fails_refuses_the_call() -> None:
    class Odd(BaseModel):
        n: int

        def model_post_init(self, _context: Any, /) -> None:
            raise SystemExit(1) if self.n else RuntimeError("odd")

    counted, runs = counting(input_schema=Odd)
    registry = ToolRegistry([counted])

    outcomes = await Executor(registry).execute_parallel(
        [Call("1", "count", {"n": 0}), Call("2", "count", {"n": 1})], ToolContext("s1")
    )

    assert [err(each).code for each in outcomes] == ["not_available"] * 2
    assert runs == []


def spoiling(name: str = "spoil", **options: Any) -> tuple[Tool, list[str]]:
    """A tool that changes the arguments it is given, and what it was given each time."""
    seen: list[str] = []

    async def spoil(args: Any, _ctx: Any, _meta: Any) -> str:
        seen.append(json.dumps(args))
        args["list"].append(2)
        args["more"] = True
        return "done"

    return make(name, spoil, **options), seen


@pytest.mark.parametrize("as_text", [False, True])
async def test_a_handler_that_changes_its_arguments_changes_neither_the_call_nor_a_sibling(as_text: bool) -> None:
    tool_, seen = spoiling()
    args: Any = {"list": [1]}
    given = json.dumps(args) if as_text else args

    outcomes = await execute([tool_], [Call(f"c{number}", "spoil", given) for number in range(3)])

    assert seen == ['{"list": [1]}'] * 3
    assert args == {"list": [1]}
    assert [outcome.to_record().args for outcome in outcomes] == [{"list": [1]}] * 3


async def test_later_changes_by_the_caller_do_not_change_the_call() -> None:
    tool_, _runs = counting()
    args: dict[str, Any] = {"list": [1]}

    outcome = await execute_one(tool_, args)
    args["list"].append(2)

    assert outcome.args == {"list": [1]}


async def test_an_observer_cannot_change_what_runs() -> None:
    tool_, runs = counting()
    events = Events()
    events.on("tool_execution_start", lambda reported: reported.args.update(n=99))

    await execute_one(tool_, {"n": 1}, ctx=ToolContext(events=events))

    assert runs == [{"n": 1}]


class CountedBytes(bytes):
    """JSON text that counts how often it is read."""

    reads = 0

    def __bytes__(self) -> bytes:
        self.reads += 1
        return super().__bytes__()


async def test_the_text_of_a_call_is_parsed_once_also_for_its_checksum() -> None:
    seen: list[str | None] = []

    async def look(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        seen.append(ctx.checksum)
        return ""

    text = CountedBytes(b'{"list": [1]}')
    outcome = await execute_one(make("look", look), text, journal=Journal.memory())

    assert outcome.args == {"list": [1]}
    assert seen == [outcome.checksum] == [checksum("look", {"list": [1]})]
    assert text.reads == 1


async def test_a_reducer_that_changes_the_arguments_changes_neither_outcome_nor_checksum() -> None:
    def spoil(result: Ok | Err, info: ReduceInfo) -> Ok | Err:
        info.args["list"].append(2)
        return result

    tool_, _runs = counting()
    reducers = ReducerRegistry()
    reducers.register(Reducer("count", spoil))
    outcome = await execute_one(tool_, '{"list": [1]}', reducers=reducers)

    assert outcome.args == {"list": [1]}
    assert outcome.checksum == checksum("count", {"list": [1]})
