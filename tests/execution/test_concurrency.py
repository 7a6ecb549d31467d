"""Which calls run at the same time: within a cap, in turn on what they share, and equal ones once."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle import CallOutcome, Executor, Tool, ToolContext, ToolRegistry
from tests.execution.calling import call, err, execute, giving, hearing, make, ok

pytestmark = pytest.mark.anyio


class Doors:
    """Calls that wait inside until they are let go; who is inside, and how many ever were at once."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.order: list[str] = []
        self.most = 0
        self._open: dict[str, anyio.Event] = {}
        self._changed = anyio.Event()

    def tool(self, name: str = "wait", **options: Any) -> Tool:
        """A tool whose calls are named by their argument `who`."""

        async def wait(args: Any, _ctx: Any, _meta: Any) -> str:
            who = args["who"]
            self.inside.append(who)
            self.order.append(who)
            self.most = max(self.most, len(self.inside))
            self._report()
            try:
                await self._door(who).wait()
            finally:
                self.inside.remove(who)
                self._report()
            return who

        return make(name, wait, **options)

    def let_go(self, *names: str) -> None:
        for name in names:
            self._door(name).set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    async def all_quiet(self) -> None:
        """Let everything that can go on go on."""
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    def _door(self, who: str) -> anyio.Event:
        return self._open.setdefault(who, anyio.Event())

    def _report(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def each(tool: str, names: str, **more: Any) -> list[Any]:
    return [call(tool, {"who": who, **more}, call_id=who) for who in names]


def on(*names: str) -> Callable[[Any], list[str]]:
    def names_of(_args: Any) -> list[str]:
        return list(names)

    return names_of


def as_said(args: Any) -> Any:
    return args["on"]


def executor_of(*tools: Tool, **settings: Any) -> Executor:
    return Executor(ToolRegistry(tools), **settings)


async def test_the_calls_of_a_batch_overlap() -> None:
    doors = Doors()
    executor, names = executor_of(doors.tool()), "abcdefghijklmnopqrst"
    outcomes: list[CallOutcome] = []

    async def batch() -> None:
        outcomes.extend(await executor.execute_parallel(each("wait", names), ToolContext()))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(batch)
            await doors.until(lambda: len(doors.inside) == 20)
            doors.let_go(*names)

    assert [ok(outcome).value for outcome in outcomes] == list(names)


async def test_sync_handlers_overlap_too() -> None:
    barrier = threading.Barrier(12)

    def meet(_args: Any, _ctx: Any, _meta: Any) -> str:
        barrier.wait(timeout=30)
        return "met"

    outcomes = await execute([make("meet", meet)], [call("meet", call_id=str(n)) for n in range(12)])

    assert [ok(outcome).value for outcome in outcomes] == ["met"] * 12


async def test_the_concurrency_limit_holds_over_all_batches_and_every_call_ends() -> None:
    doors = Doors()
    executor = executor_of(doors.tool(), concurrency=3)
    ended: list[str] = []

    async def batch(names: str) -> None:
        outcomes = await executor.execute_parallel(each("wait", names), ToolContext())
        ended.extend(ok(outcome).value for outcome in outcomes)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(batch, "abcdefgh")
            group.start_soon(batch, "ijklmnop")
            await doors.until(lambda: len(doors.inside) == 3)
            await doors.all_quiet()
            assert len(doors.inside) == 3
            for done in range(16):
                await doors.until(lambda: bool(doors.inside))
                doors.let_go(doors.inside[0])
                await doors.until(lambda gone=done: len(doors.order) - len(doors.inside) > gone)

    assert doors.most == 3
    assert sorted(ended) == list("abcdefghijklmnop")


async def test_free_places_are_given_out_in_the_order_they_were_asked_for() -> None:
    doors = Doors()
    executor = executor_of(doors.tool(), concurrency=1)

    async def single(who: str) -> None:
        await executor.execute_parallel(each("wait", who), ToolContext())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for who in "abcdef":
                group.start_soon(single, who)
                await doors.all_quiet()
            for who in "abcdef":
                await doors.until(lambda who=who: doors.inside == [who])
                doors.let_go(who)

    assert doors.order == list("abcdef")


async def test_a_cancelled_batch_gives_its_places_and_resources_back() -> None:
    doors = Doors()
    executor = executor_of(doors.tool(resources=on("r")), concurrency=1)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, each("wait", "abc"), ToolContext())
            await doors.until(lambda: doors.inside == ["a"])
            group.cancel_scope.cancel()
        doors.let_go("d")
        (outcome,) = await executor.execute_parallel(each("wait", "d"), ToolContext())

    assert ok(outcome).value == "d"
    assert doors.order == ["a", "d"]


async def test_calls_on_one_resource_run_in_order_and_others_beside_them() -> None:
    doors = Doors()
    executor = executor_of(doors.tool(resources=as_said))
    calls = [*each("wait", "abc", on="file:1"), *each("wait", "xy", on="file:2")]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, calls, ToolContext())
            await doors.until(lambda: sorted(doors.inside) == ["a", "x"])
            await doors.all_quiet()
            assert sorted(doors.inside) == ["a", "x"]
            doors.let_go("x")
            await doors.until(lambda: sorted(doors.inside) == ["a", "y"])
            doors.let_go("a")
            await doors.until(lambda: sorted(doors.inside) == ["b", "y"])
            doors.let_go("b", "c", "y")

    assert [who for who in doors.order if who in "abc"] == ["a", "b", "c"]


async def test_a_resource_is_shared_out_between_batches_too() -> None:
    doors = Doors()
    executor = executor_of(doors.tool(resources=on("db")))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for who in "ab":
                group.start_soon(executor.execute_parallel, each("wait", who), ToolContext())
                await doors.all_quiet()
            assert doors.inside == ["a"]
            doors.let_go("a", "b")

    assert doors.most == 1


async def test_readers_share_a_resource_and_writers_wait_their_turn() -> None:
    doors = Doors()
    reader = doors.tool("read", resources=on("f"), read_only=True)
    writer = doors.tool("write", resources=on("f"))
    calls = [*each("read", "ab"), *each("write", "w"), *each("read", "c")]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor_of(reader, writer).execute_parallel, calls, ToolContext())
            await doors.until(lambda: sorted(doors.inside) == ["a", "b"])
            await doors.all_quiet()
            assert sorted(doors.inside) == ["a", "b"]
            doors.let_go("a", "b")
            await doors.until(lambda: doors.inside == ["w"])
            doors.let_go("w", "c")

    assert doors.order[2:] == ["w", "c"]


async def test_calls_on_several_resources_in_any_order_never_block_each_other() -> None:
    running: set[str] = set()

    async def use(args: Any, _ctx: Any, _meta: Any) -> str:
        assert not running & set(args["on"])
        running.update(args["on"])
        await anyio.lowlevel.checkpoint()
        running.difference_update(args["on"])
        return "used"

    tool = make("use", use, resources=as_said)
    pairs = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"], ["a", "b", "c"], ["c"]] * 20
    calls = [call("use", {"on": on}, call_id=str(n)) for n, on in enumerate(pairs)]

    with anyio.fail_after(30):
        outcomes = await execute([tool], calls, concurrency=4)

    assert {ok(outcome).value for outcome in outcomes} == {"used"}


async def test_a_call_that_waits_for_a_resource_holds_no_place() -> None:
    doors = Doors()
    locked, free = doors.tool("locked", resources=on("r")), doors.tool("free")
    executor = executor_of(locked, free, concurrency=2)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(
                executor.execute_parallel, [*each("locked", "abcdef"), *each("free", "xyz")], ToolContext()
            )
            for who in "xyz":
                await doors.until(lambda who=who: sorted(doors.inside) == ["a", who])
                doors.let_go(who)
            doors.let_go(*"abcdef")

    assert doors.most == 2


async def test_a_call_that_waits_for_a_person_delays_no_other_call() -> None:
    answer = anyio.Event()

    async def approve(_request: Any) -> bool:
        await answer.wait()
        return True

    doors = Doors()
    executor = executor_of(doors.tool("ask", requires_approval=True), doors.tool(), concurrency=1, approve=approve)
    doors.let_go(*"abx")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, [*each("ask", "ab"), *each("wait", "x")], ToolContext())
            await doors.until(lambda: doors.order == ["x"])
            answer.set()

    assert sorted(doors.order) == ["a", "b", "x"]


async def test_a_tools_own_bound_is_a_resource_with_its_name() -> None:
    def by_parity(args: Any) -> list[str]:
        return [f"fetch {ord(args['who']) % 2}"]

    doors = Doors()
    one_at_a_time = doors.tool("print_page", resources=on("print_page"))
    two_at_a_time = doors.tool("fetch", resources=by_parity)
    executor = executor_of(one_at_a_time, two_at_a_time)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            calls = [*each("print_page", "abc"), *each("fetch", "wxyz")]
            group.start_soon(executor.execute_parallel, calls, ToolContext())
            await doors.until(lambda: len(doors.inside) == 3)
            await doors.all_quiet()
            assert sorted(doors.inside) == ["a", "w", "x"]
            doors.let_go(*"abcwxyz")


@pytest.mark.parametrize("settings", [{"dry_run": True}, {"approve": True}, {"check": True}, {"interceptor": True}])
async def test_a_call_that_never_runs_leaves_its_resource_to_others(settings: dict[str, bool]) -> None:
    async def deny(_request: Any) -> bool:
        return False

    def refuse(args: Any, _ctx: Any) -> None:
        if args["who"] == "a" and "check" in settings:
            raise ValueError("not you")

    async def stop(given: Any, _ctx: Any, next: Any) -> Any:
        if given.tool_call_id == "a" and "interceptor" in settings:
            raise RuntimeError("policy")
        return await next()

    doors = Doors()
    doors.let_go("a", "b")
    asking = doors.tool("ask", requires_approval="approve" in settings, checks=[refuse], resources=on("r"))
    executor = executor_of(asking, doors.tool(resources=on("r")), approve=deny, interceptors=[stop])

    with anyio.fail_after(30):
        ctx = ToolContext(dry_run="dry_run" in settings, events=hearing()[0].events)
        await executor.execute_parallel(each("ask", "a"), ctx)
        (outcome,) = await executor.execute_parallel(each("wait", "b"), ToolContext())

    assert ok(outcome).value == "b"
    assert doors.order == ["b"]


@pytest.mark.parametrize("junk", [None, 5, ZeroDivisionError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
async def test_a_tool_that_cannot_say_what_it_touches_is_not_run(junk: Any) -> None:
    def name(_args: Any) -> Any:
        if isinstance(junk, BaseException):
            raise junk
        return junk

    ctx, warnings = hearing()
    tools = [giving("ran", resources=name), giving("fine", "other")]

    refused, fine = await execute(tools, [call("give"), call("other", call_id="c2")], ctx=ctx)

    assert err(refused).code == "not_available"
    assert ok(fine).value == "fine"
    assert [warned.source for warned in warnings] == ["resources"]


async def test_a_lone_text_is_one_resource() -> None:
    doors = Doors()
    executor = executor_of(doors.tool(resources=as_said))
    calls = [*each("wait", "a", on="xy"), *each("wait", "b", on="yz"), *each("wait", "c", on="xy")]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, calls, ToolContext())
            await doors.until(lambda: sorted(doors.inside) == ["a", "b"])
            await doors.all_quiet()
            assert sorted(doors.inside) == ["a", "b"]
            doors.let_go(*"abc")
