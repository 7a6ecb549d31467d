"""Calls in, exactly one outcome each out, in their order: whatever a tool does, and whatever a call is."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from types import MappingProxyType, SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle import Call, CallOutcome, Executor, Journal, Spool, Tool, ToolContext, ToolRegistry, tool
from spindle.errors import InvalidContextError, InvalidToolFilterError
from tests.execution.calling import call, counting, err, execute, execute_one, giving, make, ok, raising

pytestmark = pytest.mark.anyio


class Unspeakable(Exception):
    """An error whose text raises."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Unspeakably(BaseException):
    """One whose text ends the program."""

    def __str__(self) -> str:
        raise SystemExit(9)


def unpicklable() -> Exception:
    class Local(Exception):
        pass

    error = Local(lambda: None)
    error.lock = anyio.Lock  # type: ignore[attr-defined]
    return error


RAISED: dict[str, BaseException] = {
    "an exception": ValueError("boom"),
    "an exit": SystemExit(3),
    "an interrupt": KeyboardInterrupt(),
    "a closing": GeneratorExit(),
    "an end of iteration": StopIteration("x"),
    "an end of async iteration": StopAsyncIteration(),
    "a recursion": RecursionError("deep"),
    "no memory": MemoryError(),
    "a timeout": TimeoutError(),
    "a group": ExceptionGroup("many", [ValueError("a"), OSError("b")]),
    "a base group": BaseExceptionGroup("many", [KeyboardInterrupt(), SystemExit(1)]),
    "a base": BaseException("bare"),
    "unspeakable": Unspeakable(),
    "unspeakable base": Unspeakably(),
    "unpicklable": unpicklable(),
}


def sync_raising(error: BaseException, name: str = "fail", **options: Any) -> Tool:
    def fail(_args: Any, _ctx: Any, _meta: Any) -> Any:
        raise error

    return make(name, fail, **options)


@pytest.mark.parametrize("expose", [False, True])
@pytest.mark.parametrize("maker", [raising, sync_raising])
@pytest.mark.parametrize("kind", RAISED)
async def test_any_exception_of_a_tool_is_its_own_outcome_only(kind: str, maker: Any, expose: bool) -> None:
    bad, good = maker(RAISED[kind], expose_errors=expose), giving("fine")
    calls = [call("give", call_id="1"), call("fail", call_id="2"), call("give", call_id="3")]

    outcomes = await execute([good, bad], calls, concurrency=2)
    alone = await execute_one(bad)

    assert [each.tool_call_id for each in outcomes] == ["1", "2", "3"]
    assert [ok(outcomes[0]).value, ok(outcomes[2]).value] == ["fine", "fine"]
    for failed in (outcomes[1], alone):
        assert err(failed).code == "execution_failed"
        assert failed.attempts == 1


async def recurse(_args: Any, ctx: Any, _meta: Any) -> Any:
    return await recurse(_args, ctx, _meta)


async def test_a_tool_that_recurses_for_ever_fails_alone() -> None:
    outcomes = await execute([make("recurse", recurse), giving("fine")], [call("recurse"), call("give")])

    assert err(outcomes[0]).code == "execution_failed"
    assert isinstance(err(outcomes[0]).cause, RecursionError)
    assert ok(outcomes[1]).value == "fine"


async def cancel_itself(_args: Any, _ctx: Any, _meta: Any) -> Any:
    raise anyio.get_cancelled_exc_class()


async def await_what_was_cancelled(_args: Any, _ctx: Any, _meta: Any) -> Any:
    if (task := _asyncio_task()) is None:
        raise RuntimeError("trio has no such thing")
    future = task.get_loop().create_future()
    future.cancel()
    await future


async def cancel_a_child(_args: Any, _ctx: Any, _meta: Any) -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        group.cancel_scope.cancel()
    raise ValueError("after its child")


async def leave_by_a_scope_of_its_own(_args: Any, _ctx: Any, _meta: Any) -> Any:
    with anyio.move_on_after(0):
        await anyio.sleep_forever()
    raise ValueError("after its scope")


async def cancel_its_task(_args: Any, _ctx: Any, _meta: Any) -> Any:
    task = _asyncio_task()
    if task is None:
        raise RuntimeError("trio has no such thing")
    task.cancel()
    await anyio.sleep_forever()


def _asyncio_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@pytest.mark.parametrize(
    "handler",
    [cancel_itself, await_what_was_cancelled, cancel_a_child, leave_by_a_scope_of_its_own, cancel_its_task],
)
@pytest.mark.parametrize("concurrency", [1, 8])
async def test_a_tool_that_cancels_itself_fails_alone(handler: Any, concurrency: int) -> None:
    tools = [make("leave", handler), giving("fine")]
    calls = [call("give"), call("leave"), call("leave"), call("give")]

    with anyio.fail_after(30):
        outcomes = await execute(tools, calls, concurrency=concurrency)
        await anyio.lowlevel.checkpoint()

    assert [each.ok for each in outcomes] == [True, False, False, True]
    assert {err(each).code for each in outcomes[1:3]} == {"execution_failed"}


@pytest.mark.parametrize("handler", [cancel_itself, await_what_was_cancelled, leave_by_a_scope_of_its_own])
async def test_a_lone_call_that_cancels_itself_answers_too(handler: Any) -> None:
    assert err(await execute_one(make("leave", handler))).code == "execution_failed"


async def test_an_error_in_the_place_of_a_deadline_does_not_end_the_batch() -> None:
    async def stubborn(_args: Any, _ctx: Any, _meta: Any) -> Any:
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            raise ValueError("not like this") from error

    async def torn(_args: Any, _ctx: Any, _meta: Any) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(stubborn, None, None, None)
            await anyio.sleep_forever()

    tools = [make("stubborn", stubborn, timeout_seconds=0.01), make("torn", torn, timeout_seconds=0.01), giving("fine")]

    with anyio.fail_after(30):
        outcomes = await execute(tools, [call("stubborn"), call("torn"), call("give")])
        alone = [await execute_one(each) for each in tools[:2]]

    assert ok(outcomes[2]).value == "fine"
    for each in (*outcomes[:2], *alone):
        assert err(each).code in {"timed_out", "execution_failed"}


async def test_a_tool_may_print_and_spawn(capfd: pytest.CaptureFixture[str]) -> None:
    def spawn(_args: Any, _ctx: Any, _meta: Any) -> str:
        sys.stdout.write("on the terminal\n")
        ran = subprocess.run(
            [sys.executable, "-c", "print('from a child')"], check=True, capture_output=True, text=True
        )
        return ran.stdout.strip()

    outcome = await execute_one(make("spawn", spawn))

    assert ok(outcome).value == "from a child"
    assert "on the terminal" in capfd.readouterr().out


async def test_outcomes_come_in_the_order_of_the_calls_though_the_last_ends_first() -> None:
    ended = [anyio.Event() for _ in range(6)]
    order: list[int] = []

    async def wait_for_the_next(args: Any, _ctx: Any, _meta: Any) -> str:
        place: int = args["place"]
        if place + 1 < len(ended):
            await ended[place + 1].wait()
        order.append(place)
        ended[place].set()
        return str(place)

    with anyio.fail_after(30):
        outcomes = await execute(
            [make("chain", wait_for_the_next)], [call("chain", {"place": n}, str(n)) for n in range(6)]
        )

    assert order == [5, 4, 3, 2, 1, 0]
    assert [ok(each).value for each in outcomes] == ["0", "1", "2", "3", "4", "5"]
    assert [each.tool_call_id for each in outcomes] == ["0", "1", "2", "3", "4", "5"]
    assert all(each.duration_ms >= 0 for each in outcomes)


async def test_all_calls_of_a_batch_run_at_once() -> None:
    started: list[int] = []
    all_started = anyio.Event()

    async def meet(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.append(1)
        if len(started) == 20:
            all_started.set()
        await all_started.wait()
        return "met"

    with anyio.fail_after(30):
        outcomes = await execute([make("meet", meet)], [call("meet", call_id=str(n)) for n in range(20)])

    assert all(ok(each).value == "met" for each in outcomes)


async def test_no_calls_give_no_outcomes() -> None:
    assert await execute([giving("x")], []) == []


async def test_calls_may_come_from_a_generator() -> None:
    def asked() -> Iterator[Call]:
        yield call("give", call_id="a")
        yield call("give", call_id="b")

    outcomes = await Executor(ToolRegistry([giving("x")])).execute_parallel(asked(), ToolContext("s1"))

    assert [each.tool_call_id for each in outcomes] == ["a", "b"]


async def test_calls_with_one_id_each_have_their_own_outcome() -> None:
    tool, runs = counting()

    outcomes = await execute([tool], [call("count", {"n": n}, "same") for n in range(3)])

    assert sorted(each["n"] for each in runs) == [0, 1, 2]
    assert [each.tool_call_id for each in outcomes] == ["same"] * 3
    assert len({each.checksum for each in outcomes}) == 3


class Hostile:
    """Raises whenever it is looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "thing",
    [None, 5, "give", b"give", [], {"name": "give", "args": {}}, Call, object(), "hostile"],
    ids=lambda thing: type(thing).__name__,
)
async def test_a_value_that_is_not_a_call_is_refused_in_its_place(thing: Any) -> None:
    given = Hostile() if thing == "hostile" else thing

    outcomes = await execute([giving("x")], [call("give", call_id="a"), given, call("give", call_id="b")])

    assert [each.ok for each in outcomes] == [True, False, True]
    assert err(outcomes[1]).code == "input_invalid"
    assert isinstance(outcomes[1].tool_call_id, str)
    assert isinstance(outcomes[1].name, str)
    assert isinstance(outcomes[1].checksum, str)
    assert outcomes[1].attempts == 0


@pytest.mark.parametrize("make_name", [lambda: None, lambda: 5, lambda: b"give", lambda: ["give"], object, Hostile])
async def test_a_name_that_is_not_text_is_refused(make_name: Any) -> None:
    (outcome,) = await execute([giving("x")], [Call("c1", make_name(), {})])

    assert err(outcome).code == "input_invalid"
    assert outcome.tool_call_id == "c1"
    assert isinstance(outcome.name, str)
    assert len(outcome.checksum) == 64


@pytest.mark.parametrize("make_id", [lambda: None, lambda: 5, lambda: b"c1", object, Hostile])
async def test_an_id_that_is_not_text_is_refused(make_id: Any) -> None:
    tool, runs = counting()

    (outcome,) = await execute([tool], [Call(make_id(), "count", {})])

    assert err(outcome).code == "input_invalid"
    assert isinstance(outcome.tool_call_id, str)
    assert runs == []


@pytest.mark.parametrize("call_id", ["\ud800", "call_\udfff\n", "escaped:x"])
async def test_a_call_id_with_a_lone_surrogate_comes_back_unchanged(call_id: str) -> None:
    journal, spool = Journal.memory(), Spool.memory()
    calls = [Call(call_id, "count", {}), Call("?", "count", {})]
    tool, runs = counting()

    first = await execute([tool], calls, ctx=ToolContext("s", turn_id="t"), journal=journal, spool=spool)
    again = await execute([tool], calls, ctx=ToolContext("s", turn_id="t"), journal=journal, spool=spool)

    assert [each.tool_call_id for each in first] == [each.tool_call_id for each in again] == [call_id, "?"]
    assert all(each.ok for each in first + again)
    assert len(runs) == 2
    entries = await journal.list()
    assert len({entry.tool_call_id.encode() for entry in entries}) == 2


@pytest.mark.parametrize(
    "given",
    [
        {"tool_call_id": "c1", "name": "count", "args": {"n": 1}},
        {"id": "c1", "name": "count", "arguments": '{"n": 1}', "index": 0},
        {"id": "c1", "type": "function", "function": {"name": "count", "arguments": '{"n": 1}'}},
        MappingProxyType({"id": "c1", "name": "count", "args": b'{"n": 1}'}),
    ],
)
async def test_a_mapping_is_accepted_as_a_call(given: Any) -> None:
    tool, runs = counting()

    (outcome,) = await execute([tool], [given])

    assert ok(outcome).value == "ran"
    assert (outcome.tool_call_id, outcome.name, runs) == ("c1", "count", [{"n": 1}])


@pytest.mark.parametrize(
    "given",
    [
        {"id": "c1", "tool_call_id": "c1", "name": "count"},
        {"id": "c1", "name": "count", "args": {}, "arguments": {}},
        {"id": "c1", "name": "count", "function": {"name": "count"}},
        {"id": "c1", "function": {"name": "count", "arguments": {}}, "args": {}},
        {"id": "c1", "name": 5},
        {"id": "c1"},
        SimpleNamespace(id="c1", name="count"),
        SimpleNamespace(tool_call_id="c1", name="count", args={}),
    ],
)
async def test_a_refused_call_keeps_the_id_it_came_with(given: Any) -> None:
    tool, runs = counting()

    (outcome,) = await execute([tool], [given])

    assert err(outcome).code == "input_invalid"
    assert (outcome.tool_call_id, runs) == ("c1", [])


async def test_a_refused_call_keeps_a_number_as_its_id() -> None:
    tool, runs = counting()
    number: Any = 7

    outcomes = await execute([tool], [{"id": number, "name": "count"}, Call(number, "count")])

    assert [(err(each).code, each.tool_call_id) for each in outcomes] == [("input_invalid", "7")] * 2
    assert runs == []


@pytest.mark.parametrize("field", ["name", "args", "function"])
async def test_a_value_that_raises_when_it_is_inspected_does_not_cost_a_call_its_id(field: str) -> None:
    tool, runs = counting()

    (outcome,) = await execute([tool], [{"id": "c1", "name": "count"} | {field: Hostile()}])

    assert not outcome.ok or field == "function"
    assert outcome.tool_call_id == "c1"
    assert len(runs) == int(outcome.ok)


async def test_a_mapping_without_an_id_is_refused() -> None:
    (outcome,) = await execute([giving("x")], [{"name": "give"}])

    assert (err(outcome).code, outcome.tool_call_id, outcome.name) == ("input_invalid", "", "give")


@tool
def greet(name: str = "world") -> str:
    """Greet."""
    return f"Hello, {name}!"


@tool
def insist(name: str) -> str:
    """Insist on a name."""
    return name


OPTIONAL: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}


@pytest.mark.parametrize("args", [None, "", " ", b""])
async def test_omitted_arguments_are_an_empty_object(args: Any) -> None:
    tools = [greet, insist, giving("x", input_schema=OPTIONAL)]

    outcomes = await execute(tools, [Call("c1", "greet", args), Call("c2", "give", args), Call("c3", "insist", args)])

    assert [each.ok for each in outcomes] == [True, True, False]
    assert (await execute(tools, [Call("c", "greet")]))[0].ok
    if args is None:
        assert "name: missing" in err(outcomes[2]).error
        assert await greet.executor(ToolContext("s"))(args) == "Hello, world!"


async def test_an_empty_id_is_an_id() -> None:
    (outcome,) = await execute([giving("x")], [call("give", call_id="")])

    assert ok(outcome).value == "x"
    assert outcome.tool_call_id == ""


@pytest.mark.parametrize("make_args", [lambda: 5, lambda: 1.5, lambda: ["a"], lambda: {1, 2}, object, Hostile])
async def test_arguments_of_no_kind_we_know_are_refused(make_args: Any) -> None:
    tool, runs = counting()

    (outcome,) = await execute([tool], [Call("c1", "count", make_args())])

    assert not outcome.ok
    assert runs == []
    assert isinstance(outcome.checksum, str)


async def test_a_call_has_the_same_checksum_whatever_its_handler_does_to_its_arguments() -> None:
    async def spoil(args: Any, _ctx: Any, _meta: Any) -> str:
        args["spoiled"] = True
        return "done"

    tool = make("spoil", spoil)

    as_text, as_mapping = await execute([tool], [Call("1", "spoil", '{"a": 1}'), Call("2", "spoil", {"a": 1})])
    from_bytes = await execute_one(tool, b'{ "a":1 }')

    assert as_text.checksum == as_mapping.checksum == from_bytes.checksum


async def test_a_wrong_context_or_filter_is_the_developers_mistake() -> None:
    executor = Executor(ToolRegistry([giving("x")]))
    wrong: Any = {"session_id": "s1"}

    with pytest.raises(InvalidContextError):
        await executor.execute_parallel([call("give")], wrong)
    with pytest.raises(InvalidToolFilterError):
        await executor.execute_parallel([call("give")], ToolContext("s1"), filter=wrong)


async def test_two_batches_of_one_executor_do_not_see_each_other() -> None:
    seen: dict[str, Any] = {}
    both = anyio.Event()

    async def note(args: Any, ctx: ToolContext, _meta: Any) -> str:
        seen[ctx.session_id] = ctx
        if len(seen) == 2:
            both.set()
        await both.wait()
        return f"{ctx.session_id} {ctx.tool_call_id} {ctx.stash.get('who')}"

    executor = Executor(ToolRegistry([make("note", note)]))
    answers: dict[str, list[CallOutcome]] = {}

    async def ask(who: str) -> None:
        ctx = ToolContext(who, stash={"who": who})
        answers[who] = await executor.execute_parallel([call("note", call_id=f"{who}-1")], ctx)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "a")
            group.start_soon(ask, "b")

    assert ok(answers["a"][0]).value == "a a-1 a"
    assert ok(answers["b"][0]).value == "b b-1 b"
