"""One answer, in time, whatever a handler or what it returns does: calls are supervised, not only awaited."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle import Artifact, Call, CallOutcome, Err, Executor, Journal, Ok, Tool, ToolContext, ToolRegistry, blocking
from spindle.concurrency import spawn_background, start_background
from spindle.errors import NotSendableError, WorkerDiedError
from tests.execution.calling import call, err, execute, execute_one, giving, make, ok

pytestmark = pytest.mark.anyio

SOON = 0.05


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Abandon stubborn handlers soon: as long as a cancelled task goes on, the loop of asyncio keeps a core busy."""
    monkeypatch.setattr("spindle.execution.batch.GRACE_SECONDS", 0.05)
    monkeypatch.setattr("spindle.execution.cancellation._FIRST_PAUSE_SECONDS", 0.1)


async def wait_for_abandoned(executor: Executor) -> None:
    while executor.abandoned_tasks:  # noqa: ASYNC110  an executor has no event for it
        await anyio.sleep(0.01)


class BadReader:
    """A reader of an artifact whose every method does the same."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    async def byte_length(self) -> int:
        return await self._act()

    async def read(self, start: int = 0, end: int | None = None) -> bytes:
        return await self._act()

    async def read_all(self) -> bytes:
        return await self._act()

    async def line(self, number: int) -> str:
        return await self._act()

    async def line_count(self) -> int:
        return await self._act()

    async def stream(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        yield await self._act()


def returning_artifact(act: Callable[[], Any], **options: Any) -> Tool:
    async def give(_args: Any, _ctx: Any, _meta: Any) -> Any:
        return Artifact(BadReader(act))  # pyright: ignore[reportArgumentType]  what a custom reader may be

    return make("artifact", give, **options)


def stubborn(release: anyio.Event, how: str, name: str = "stubborn", **options: Any) -> Tool:
    async def hang(_args: Any, _ctx: Any, _meta: Any) -> str:
        if how == "shields":
            with anyio.CancelScope(shield=True):
                await release.wait()
            return "late"
        while not release.is_set():
            try:
                await release.wait()
            except BaseException:  # noqa: BLE001  what a careless handler does
                await anyio.lowlevel.cancel_shielded_checkpoint()
        return "late"

    return make(name, hang, **options)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, ValueError])
@pytest.mark.parametrize("count", [1, 2])
async def test_whatever_the_reader_of_a_returned_artifact_raises_is_the_calls_failure(
    error: type[BaseException], count: int
) -> None:
    async def act() -> Any:
        raise error

    calls = [call("artifact"), call("give", call_id="c2")][:count]

    outcome, *rest = await execute([returning_artifact(act), giving("fine")], calls)

    assert err(outcome).code == "execution_failed"
    assert "cannot be read" in err(outcome).error
    assert all(ok(each).value == "fine" for each in rest)


async def test_reading_a_returned_artifact_counts_towards_the_calls_time() -> None:
    tool = returning_artifact(anyio.sleep_forever, timeout_seconds=SOON)

    with anyio.fail_after(30):
        late, fine = await execute([tool, giving("fine")], [call("artifact"), call("give", call_id="c2")])

    assert (err(late).code, ok(fine).value) == ("timed_out", "fine")


@pytest.mark.slow
@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("how", ["shields", "swallows"])
@pytest.mark.parametrize("count", [1, 3])
async def test_a_handler_that_ignores_its_cancellation_is_answered_and_goes_on_counted(how: str, count: int) -> None:
    release = anyio.Event()
    tools = [stubborn(release, how, timeout_seconds=SOON), giving("fine")]
    executor = Executor(ToolRegistry(tools), concurrency=1)
    calls = [call("stubborn"), call("give", call_id="c2"), call("give", call_id="c3")][:count]

    with anyio.fail_after(30):
        late, *rest = await executor.execute_parallel(calls, ToolContext())

        assert (err(late).code, err(late).retryable) == ("timed_out", True)
        assert [ok(each).value for each in rest] == ["fine"] * (count - 1)
        assert executor.abandoned_tasks == 1
        # It holds no slot.
        (again,) = await executor.execute_parallel([call("give")], ToolContext())
        assert again.ok
        release.set()
        await wait_for_abandoned(executor)
    assert err(late).code == "timed_out"


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("how", ["shields", "swallows"])
async def test_a_handler_that_ignores_its_cancellation_does_not_hold_a_leaving_caller(how: str) -> None:
    release, started = anyio.Event(), anyio.Event()

    async def begin(_args: Any, _ctx: Any) -> None:
        started.set()

    executor = Executor(ToolRegistry([stubborn(release, how, checks=[begin])]))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, [call("stubborn")], ToolContext())
            await started.wait()
            await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        assert executor.abandoned_tasks == 1
        release.set()
        await wait_for_abandoned(executor)


async def test_no_call_starts_after_its_caller_has_left() -> None:
    running: list[int] = []

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        running.append(1)
        try:
            await anyio.sleep_forever()
        finally:
            running.pop()

    executor = Executor(ToolRegistry([make("hang", hang)]))
    calls = [call("hang", call_id=f"c{number}") for number in range(8)]

    with anyio.CancelScope() as scope:
        scope.cancel()
        await executor.execute_parallel(calls, ToolContext())

    await anyio.wait_all_tasks_blocked()
    assert (executor.abandoned_tasks, running) == (0, [])


async def test_a_caller_that_only_makes_calls_that_never_wait_can_be_cancelled() -> None:
    executor = Executor(ToolRegistry([giving("done", "quick")]))
    made = 0

    with anyio.move_on_after(0.05) as scope:
        while made < 20_000:
            await executor.execute_parallel([call("quick")], ToolContext())
            made += 1

    assert scope.cancelled_caught
    assert made < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 64])
async def test_calls_that_never_wait_leave_time_for_other_tasks(concurrency: int) -> None:
    running, most, ticks = 0, 0, 0
    seen: list[int] = []
    outcomes: list[CallOutcome] = []

    async def note(_args: Any, _ctx: Any, _meta: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.0005)  # noqa: ASYNC251  what a handler computes
        seen.append(ticks)
        if len(seen) > 150:  # the later ones wait, and run side by side again
            await anyio.sleep(0.001)
        running -= 1
        return "done"

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    executor = Executor(ToolRegistry([make("note", note)]), concurrency=concurrency)
    calls = [call("note", call_id=f"c{number}") for number in range(300)]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            outcomes = await executor.execute_parallel(calls, ToolContext())
            group.cancel_scope.cancel()

    assert all(outcome.ok for outcome in outcomes)
    assert [outcome.tool_call_id for outcome in outcomes] == [each.tool_call_id for each in calls]
    assert len(set(seen[:150])) >= 4
    assert most > 4 if concurrency > 1 else most == 1


@pytest.mark.usefixtures("short_grace")
async def test_an_abandoned_handler_is_not_cancelled_in_every_step_of_the_loop() -> None:
    release, cancellations = anyio.Event(), 0

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> str:
        nonlocal cancellations
        while not release.is_set():
            try:
                await anyio.sleep(60)
            except BaseException:  # noqa: BLE001  what a careless handler does
                cancellations += 1
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
        return "late"

    executor = Executor(ToolRegistry([make("hang", hang, timeout_seconds=SOON)]))

    with anyio.fail_after(30):
        (late,) = await executor.execute_parallel([call("hang")], ToolContext())
        before = cancellations
        for _ in range(2_000):
            await anyio.lowlevel.checkpoint()
        repeated = cancellations - before
        release.set()
        await wait_for_abandoned(executor)

    assert err(late).code == "timed_out"
    assert repeated < 20
    # It was cancelled once more: an abandoned handler may be one that only cleaned up for long.
    assert cancellations > before + repeated


@pytest.mark.usefixtures("short_grace")
async def test_an_abandoned_handler_that_waits_after_its_cleanup_is_cancelled_again() -> None:
    cleaned = anyio.Event()

    async def clean_up_for_long(_args: Any, _ctx: Any, _meta: Any) -> None:
        with anyio.CancelScope(shield=True):
            await cleaned.wait()
        await anyio.sleep_forever()

    executor = Executor(ToolRegistry([make("clean", clean_up_for_long, timeout_seconds=SOON)]))

    with anyio.fail_after(30):
        (late,) = await executor.execute_parallel([call("clean")], ToolContext())
        assert (err(late).code, executor.abandoned_tasks) == ("timed_out", 1)
        cleaned.set()
        await wait_for_abandoned(executor)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("when", ["while it waits", "as its last act", "left pending"])
async def test_no_handler_can_cancel_its_caller(count: int, when: str) -> None:
    async def cancel_myself(_args: Any, _ctx: Any, _meta: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        if when == "left pending":
            task.cancel()
            return "ran"
        asyncio.get_running_loop().call_soon(task.cancel)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:  # what third-party timeout helpers do
            if when == "as its last act":
                task.cancel()
        return "ran"

    me = asyncio.current_task()
    assert me is not None
    calls = [call("own"), call("give", call_id="c2")][:count]

    outcomes = await execute([make("own", cancel_myself), giving("fine")], calls)
    await asyncio.sleep(0)

    assert [ok(each).value for each in outcomes] == ["ran", "fine"][:count]
    assert me.cancelling() == 0


async def _leave_timer(waits: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.01, task.cancel)
    if waits:
        await anyio.lowlevel.checkpoint()


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("settings", [{}, {"concurrency": 1}, {"journal": Journal.memory()}])
async def test_a_timer_that_a_handler_leaves_behind_does_not_cancel_another_call(
    waits: bool, settings: dict[str, Any]
) -> None:
    async def leave(_args: Any, _ctx: Any, _meta: Any) -> str:
        await _leave_timer(waits)
        return "left"

    async def wait(_args: Any, _ctx: Any, _meta: Any) -> str:
        await anyio.sleep(0.05)  # longer than the timer
        return "waited"

    executor = Executor(ToolRegistry([make("leave", leave), make("wait", wait)]), **settings)
    calls = [
        call("leave", {}, "c1"),
        call("wait", {}, "c2"),
        call("leave", {"n": 1}, "c3"),
        call("wait", {"n": 1}, "c4"),
    ]
    with anyio.fail_after(30):
        together = await executor.execute_parallel(calls, ToolContext("s1", turn_id=f"{waits} together"))
        alone = [await executor.execute_parallel([each], ToolContext("s1", turn_id=f"{waits}")) for each in calls]

    assert [ok(each).value for each in together] == ["left", "waited"] * 2
    assert [ok(each).value for (each,) in alone] == ["left", "waited"] * 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_before_its_first_step_is_done() -> None:
    before = asyncio.all_tasks()
    started = spawn_background(anyio.sleep_forever, name="test")
    for task in asyncio.all_tasks() - before:
        task.cancel()

    with anyio.fail_after(30):
        await started.wait()


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("concurrency", [1, 64])
async def test_a_scope_that_a_handler_leaves_open_does_not_reach_its_siblings(
    waits: bool, is_cancelled: bool, concurrency: int
) -> None:
    opened: list[anyio.CancelScope] = []

    async def leave_open(_args: Any, _ctx: Any, _meta: Any) -> str:
        scope = anyio.CancelScope()
        scope.__enter__()
        if waits:
            await anyio.lowlevel.checkpoint()
        if is_cancelled:
            scope.cancel()
        opened.append(scope)
        return "left"

    async def wait(_args: Any, _ctx: Any, _meta: Any) -> str:
        for scope in opened:
            scope.cancel()
        await anyio.lowlevel.checkpoint()
        return "waited"

    names = ["leave", "wait"] * 3
    calls = [call(name, {"n": n}, f"c{n}") for n, name in enumerate(names)]
    tools = [make("leave", leave_open), make("wait", wait)]
    outcomes = await execute(tools, calls, concurrency=concurrency)

    assert [ok(each).value for each in outcomes] == ["left", "waited"] * 3


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_scope_that_a_handler_leaves_open_does_not_reach_the_next_call(waits: bool, is_cancelled: bool) -> None:
    opened: list[anyio.CancelScope] = []

    async def leave_open(_args: Any, _ctx: Any, _meta: Any) -> str:
        scope = anyio.CancelScope()
        scope.__enter__()
        opened.append(scope)
        if waits:
            await anyio.lowlevel.checkpoint()
        if is_cancelled:
            scope.cancel()
        return "left"

    async def wait(_args: Any, _ctx: Any, _meta: Any) -> str:
        await anyio.lowlevel.checkpoint()
        return "waited"

    executor = Executor(ToolRegistry([make("leave", leave_open), make("wait", wait)]))
    for _ in range(2):
        await executor.execute_parallel([call("leave")], ToolContext("s1"))
        (outcome,) = await executor.execute_parallel([call("wait")], ToolContext("s1"))

        assert ok(outcome).value == "waited"


def test_a_finished_event_loop_is_not_kept_by_the_tasks_that_ran_its_calls() -> None:
    async def run() -> weakref.ref[asyncio.AbstractEventLoop]:
        await execute_one(giving("fine"))
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(run()) for _ in range(3)]
    gc.collect()

    assert [loop() for loop in loops[:-1]] == [None, None]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelling_a_task_that_has_ended_does_not_cancel_the_next_one() -> None:
    async def fail() -> None:
        raise ValueError

    ended = start_background(fail, caller=asyncio.current_task(), name="test")
    assert ended is not None
    assert isinstance(ended.error, ValueError)
    ended.cancel()
    ended.pause_cancellation(is_paused=True)

    assert ok(await execute_one(giving("fine"))).value == "fine"


@pytest.mark.parametrize("backends", [("asyncio", "asyncio"), ("trio", "trio"), ("asyncio", "trio")])
def test_one_executor_serves_several_event_loops(backends: tuple[str, str]) -> None:
    async def nap(_args: Any, _ctx: Any, _meta: Any) -> str:
        await anyio.sleep(0.001)
        return "slept"

    def doze(_args: Any, _ctx: Any, _meta: Any) -> str:
        return "dozed"

    tools = [make("nap", nap, cache=None), make("doze", doze)]
    executor = Executor(ToolRegistry(tools), concurrency=2)
    found: list[CallOutcome] = []

    async def ask() -> None:
        with anyio.fail_after(30):
            for _ in range(5):
                calls = [Call(f"c{n}", "nap" if n % 2 else "doze") for n in range(10)]
                found.extend(await executor.execute_parallel(calls, ToolContext()))

    threads = [threading.Thread(target=anyio.run, args=(ask,), kwargs={"backend": each}) for each in backends * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(found) == 200
    assert all(each.ok for each in found)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_handlers_that_call_their_own_executor_do_not_wait_for_each_others_slots(concurrency: int) -> None:
    async def dive(args: Any, _ctx: Any, _meta: Any) -> str:
        depth = args["depth"]
        if depth:
            calls = [call("dive", {"depth": depth - 1}, f"{depth}-{n}") for n in range(3)]
            return "".join(ok(each).value for each in await executor.execute_parallel(calls, ToolContext()))
        await anyio.lowlevel.checkpoint()
        return "."

    executor = Executor(ToolRegistry([make("dive", dive)]), concurrency=concurrency)

    with anyio.fail_after(30):
        outcomes = await executor.execute_parallel(
            [call("dive", {"depth": 2}, str(n)) for n in range(3)], ToolContext()
        )

    assert [ok(each).value for each in outcomes] == ["." * 9] * 3


class RaisesEverywhere(BaseException):
    """An exception whose own methods raise."""

    def with_traceback(self, _trace: Any) -> Any:
        raise SystemExit("with_traceback")

    def __str__(self) -> str:
        raise KeyboardInterrupt

    def __repr__(self) -> str:
        raise SystemExit("repr")


@pytest.mark.parametrize("expose", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_exception_whose_own_methods_raise_is_a_failure_like_any_other(expose: bool, is_async: bool) -> None:
    async def fail_here(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise RaisesEverywhere

    def fail(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise RaisesEverywhere

    tool = make("fail", fail_here if is_async else fail, expose_errors=expose)

    with anyio.fail_after(30):
        outcome = await execute_one(tool, concurrency=1)
        again = await execute_one(tool, concurrency=1)

    assert [err(each).code for each in (outcome, again)] == ["execution_failed"] * 2


class RaisesOnAnyAttribute(Exception):
    """An exception none of whose attributes can be read."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)


class RaisesOnTraceback(Exception):
    """An exception whose traceback cannot be read."""

    @property
    def __traceback__(self) -> Any:
        raise ValueError

    @__traceback__.setter
    def __traceback__(self, _trace: Any) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  what such a class does
        raise ValueError


class IsFalse(Exception):
    """An exception that is false, such as an empty collection of problems."""

    def __bool__(self) -> bool:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RaisesOnAnyAttribute, RaisesOnTraceback, IsFalse])
@pytest.mark.parametrize("isolation", ["async", "thread", pytest.param("process", marks=pytest.mark.one_loop)])
async def test_an_unusual_exception_is_a_failure_like_any_other(kind: type[Exception], isolation: str) -> None:
    async def fail_here(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise kind

    def fail(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise kind

    options = {} if isolation == "async" else {"isolation": isolation}
    tool = make("fail", fail_here if isolation == "async" else fail, **options)

    with anyio.fail_after(30):
        outcome = await execute_one(tool, concurrency=1)

    assert err(outcome).code == "execution_failed"


class RaisesWhenPickled(RaisesEverywhere):
    """An exception that raises also when it is sent from one process to another."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise SystemExit("reduce")


class RaisesWhenUnpickled(RaisesEverywhere):
    """An exception that raises in the process that receives it."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return exit_program, ("unpickled",)

    def add_note(self, _note: str) -> None:
        raise KeyboardInterrupt


def exit_program(reason: str) -> None:
    raise SystemExit(reason)


@pytest.mark.slow
@pytest.mark.one_loop
@pytest.mark.parametrize("kind", [RaisesEverywhere, RaisesWhenPickled, RaisesWhenUnpickled])
@pytest.mark.parametrize("expose", [False, True])
async def test_an_exception_whose_own_methods_raise_fails_only_its_call_in_a_process(
    kind: type[BaseException], expose: bool
) -> None:
    def fail(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise kind

    def work(_args: Any, _ctx: Any, _meta: Any) -> str:
        return "fine"

    tools = [make("fail", fail, expose_errors=expose, isolation="process"), make("work", work, isolation="process")]

    with anyio.fail_after(30):
        failed, fine = await execute(tools, [call("fail"), call("work", call_id="c2")], concurrency=1)

    assert err(failed).code == "execution_failed"
    assert not isinstance(err(failed).cause, WorkerDiedError)
    assert ok(fine).value == "fine"


class RaisesWhenSent:
    """A value that raises when it is sent from one process to another, or when it is received."""

    def __init__(self, *, when: str) -> None:
        self._when = when

    def __reduce__(self) -> Any:
        if self._when == "sent":
            raise SystemExit("reduce")
        return exit_program, ("unpickled",)


@pytest.mark.one_loop
@pytest.mark.parametrize("when", ["sent", "received"])
async def test_a_value_that_raises_on_its_way_between_processes_fails_only_its_call(when: str) -> None:
    def give(_args: Any, _ctx: Any, _meta: Any) -> Any:
        return RaisesWhenSent(when=when)

    with anyio.fail_after(30):
        outcome = await execute_one(make("give", give, isolation="process"))

    assert isinstance(err(outcome).cause, NotSendableError)


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_exception_whose_own_methods_raise_fails_only_the_inner_call_of_a_sync_handler(is_async: bool) -> None:
    async def fail_here(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise RaisesEverywhere

    def fail(_args: Any, _ctx: Any, _meta: Any) -> None:
        raise RaisesEverywhere

    def outer(_args: Any, _ctx: Any, _meta: Any) -> str:
        (inner,) = blocking.run(executor.execute_parallel, [call("fail")], ToolContext())
        return err(inner).code

    def outer_without_executor(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        blocking.run(tool.executor(ctx), {})

    tool = make("fail", fail_here if is_async else fail, expose_errors=True)
    tools = [tool, make("outer", outer), make("bare", outer_without_executor)]
    executor = Executor(ToolRegistry(tools), concurrency=1)

    with anyio.fail_after(30):
        outcome, bare = await executor.execute_parallel([call("outer"), call("bare", call_id="c2")], ToolContext())
        (again,) = await executor.execute_parallel([call("outer")], ToolContext())

    assert [ok(each).value for each in (outcome, again)] == ["execution_failed"] * 2
    assert err(bare).code == "execution_failed"


@pytest.mark.usefixtures("short_grace")
async def test_the_late_result_of_an_abandoned_handler_is_ignored() -> None:
    release = anyio.Event()
    tool = stubborn(release, "shields", timeout_seconds=SOON)
    executor = Executor(ToolRegistry([tool]))

    with anyio.fail_after(30):
        (outcome,) = await executor.execute_parallel([call("stubborn")], ToolContext())
        before = outcome.result
        release.set()
        await wait_for_abandoned(executor)

    assert isinstance(before, Err)
    assert outcome.result is before
    assert not isinstance(outcome.result, Ok)
