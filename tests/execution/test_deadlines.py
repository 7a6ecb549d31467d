"""Every call has a deadline, and a way out of whatever it waits for."""

import threading
import time
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
import trio.testing

from spindle import Err, Executor, Tool, ToolContext, ToolRegistry
from tests.execution.calling import call, counting, err, execute, execute_one, giving, make, ok

pytestmark = pytest.mark.anyio

SOON = 0.5
LATE = 30.0


def simulated(main: Callable[[], Awaitable[None]]) -> float:
    """Run `main` on a clock that jumps over every wait; gives the seconds it thought to have taken."""
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def timed() -> float:
        await main()
        return trio.current_time()  # the clock begins at 0

    return trio.run(timed, clock=clock)


def sleeping(seconds: float, name: str = "sleep", **options: Any) -> Tool:
    async def sleep(_args: Any, _ctx: Any, _meta: Any) -> str:
        await anyio.sleep(seconds)
        return "slept"

    return make(name, sleep, **options)


def name_r(_args: Any) -> list[str]:
    return ["r"]


def hanging(name: str = "hang", **options: Any) -> Tool:
    return sleeping(1_000_000, name, **options)


class Stuck:
    """A sync handler that hangs until it is released, and keeps what it saw then."""

    def __init__(self) -> None:
        self.begun, self.release, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.seen: list[ToolContext] = []
        self.was_cancelled: list[bool] = []

    def tool(self, **options: Any) -> Tool:
        def hang(_args: Any, ctx: ToolContext, _meta: Any) -> str:
            self.seen.append(ctx)
            self.begun.set()
            self.release.wait(LATE)
            self.was_cancelled.append(ctx.cancelled)
            self.ended.set()
            return "too late"

        return make("stuck", hang, **options)


def test_a_hundred_and_twenty_seconds_is_the_default() -> None:
    async def main() -> None:
        outcome = await execute_one(hanging())
        assert (err(outcome).code, err(outcome).retryable) == ("timed_out", True)
        assert outcome.attempts == 1

    assert simulated(main) == pytest.approx(120)


@pytest.mark.parametrize(("of_tool", "of_executor", "seconds"), [(7, 120, 7), (300, 120, 300), (None, 9, 9)])
def test_a_tools_own_time_beats_the_executors(of_tool: float | None, of_executor: float, seconds: float) -> None:
    async def main() -> None:
        outcome = await execute_one(hanging(timeout_seconds=of_tool), timeout_seconds=of_executor)
        assert err(outcome).code == "timed_out"

    assert simulated(main) == pytest.approx(seconds)


def test_without_a_limit_a_call_may_take_as_long_as_it_wants() -> None:
    async def main() -> None:
        assert ok(await execute_one(sleeping(1_000_000), timeout_seconds=None)).value == "slept"

    assert simulated(main) == pytest.approx(1_000_000)


def test_a_calls_time_starts_when_it_starts_and_not_when_it_waits() -> None:
    async def main() -> None:
        calls = [call("sleep", call_id=str(n)) for n in range(4)]
        outcomes = await execute([sleeping(8)], calls, concurrency=1, timeout_seconds=10)
        assert [ok(outcome).value for outcome in outcomes] == ["slept"] * 4

    assert simulated(main) == pytest.approx(32)


def test_a_batchs_time_starts_when_it_is_handed_over_and_what_is_queued_then_never_runs() -> None:
    async def main() -> None:
        tool, runs = counting()
        calls = [*[call("sleep", call_id=str(n)) for n in range(4)], call("count", call_id="last")]
        outcomes = await execute([sleeping(40), tool], calls, concurrency=1, batch_timeout_seconds=100)
        assert [outcome.ok for outcome in outcomes] == [True, True, False, False, False]
        assert {err(outcome).code for outcome in outcomes[2:]} == {"timed_out"}
        assert [outcome.attempts for outcome in outcomes] == [1, 1, 1, 0, 0]
        assert runs == []

    assert simulated(main) == pytest.approx(100)


@pytest.mark.parametrize("resources", [None, name_r])
def test_a_call_that_waits_for_a_place_or_a_resource_ends_with_its_batch(resources: Any) -> None:
    async def main() -> None:
        tool, runs = counting(resources=resources)
        holder = sleeping(1_000, resources=resources)
        concurrency = 64 if resources else 1
        executor = Executor(ToolRegistry([tool, holder]), concurrency=concurrency, batch_timeout_seconds=50)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.execute_parallel, [call("sleep")], ToolContext())
            await trio.testing.wait_all_tasks_blocked()
            (outcome,) = await executor.execute_parallel([call("count")], ToolContext())
        assert (err(outcome).code, outcome.attempts, runs) == ("timed_out", 0, [])

    assert simulated(main) == pytest.approx(50)


@pytest.mark.parametrize(("where", "seconds"), [("approve", 60), ("interceptor", 5), ("check", 5)])
def test_a_call_waits_for_a_person_until_its_batch_ends_and_for_code_until_its_own_time_is_over(
    where: str, seconds: float
) -> None:
    async def forever(*_: Any) -> Any:
        await trio.sleep_forever()

    async def main() -> None:
        tool, runs = counting(
            requires_approval=where == "approve", checks=[forever] if where == "check" else [], timeout_seconds=5
        )
        interceptors = [forever] if where == "interceptor" else []
        outcome = await execute_one(tool, approve=forever, interceptors=interceptors, batch_timeout_seconds=60)
        assert (err(outcome).code, outcome.attempts, runs) == ("timed_out", 0, [])

    assert simulated(main) == pytest.approx(seconds)


@pytest.mark.slow
async def test_a_sync_handler_past_its_deadline_is_left_behind_and_counted() -> None:
    stuck = Stuck()
    executor = Executor(ToolRegistry([stuck.tool(timeout_seconds=SOON), giving("fine")]))

    with anyio.fail_after(30):
        late, fine = await executor.execute_parallel([call("stuck"), call("give", call_id="c2")], ToolContext())

    assert (err(late).code, ok(fine).value) == ("timed_out", "fine")
    assert executor.abandoned_threads == 1
    assert stuck.seen[0].cancelled
    stuck.release.set()
    with anyio.fail_after(30):
        while executor.abandoned_threads:
            await anyio.lowlevel.checkpoint()
    assert stuck.was_cancelled == [True]


@pytest.mark.slow
async def test_a_thread_that_is_left_behind_gives_its_place_back() -> None:
    stuck, ran = Stuck(), threading.Event()

    def run(_args: Any, _ctx: Any, _meta: Any) -> str:
        ran.set()
        return "ran"

    executor = Executor(ToolRegistry([stuck.tool(timeout_seconds=SOON), make("run", run)]), concurrency=1)

    with anyio.fail_after(30):
        outcomes = await executor.execute_parallel([call("stuck"), call("run", call_id="c2")], ToolContext())

    assert [outcome.ok for outcome in outcomes] == [False, True]
    assert not stuck.ended.is_set()
    stuck.release.set()


async def test_a_caller_that_leaves_cancels_the_context_of_the_sync_handler() -> None:
    stuck = Stuck()
    executor = Executor(ToolRegistry([stuck.tool()]))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, [call("stuck")], ToolContext())
            await anyio.to_thread.run_sync(stuck.begun.wait, 30)
            group.cancel_scope.cancel()

    assert stuck.seen[0].cancelled
    assert executor.abandoned_threads == 1
    stuck.release.set()


async def test_a_handler_knows_its_deadline_and_how_long_it_has() -> None:
    seen: list[tuple[float | None, float | None, bool]] = []

    async def look(_args: Any, ctx: ToolContext, _meta: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: 0.0 if ctx.deadline is None else ctx.deadline - 30)
            seen.append((ctx.deadline, ctx.seconds_left, ctx.cancelled))

    begun = time.monotonic()
    await execute_one(make("look", look, timeout_seconds=50))
    await execute_one(make("look", look), timeout_seconds=None)
    await execute_one(make("look", look), batch_timeout_seconds=20)
    ended = time.monotonic()

    (deadline, left, cancelled), unlimited, (batch_deadline, _, _) = seen
    assert deadline is not None
    assert begun + 50 <= deadline <= ended + 50
    assert left == pytest.approx(30)
    assert not cancelled
    assert unlimited == (None, None, False)
    assert batch_deadline is not None
    assert begun + 19.9 <= batch_deadline <= ended + 20.1  # computed from the clock of the event loop


@pytest.mark.slow
async def test_an_async_handler_is_cancelled_and_may_clean_up() -> None:
    cleaned: list[str] = []

    async def work(_args: Any, _ctx: Any, _meta: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append("up")

    outcome = await execute_one(make("work", work), timeout_seconds=SOON)

    assert err(outcome).code == "timed_out"
    assert cleaned == ["up"]


async def _raise_another(_args: Any, _ctx: Any, _meta: Any) -> None:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        raise RuntimeError("while leaving") from None


async def _raise_in_a_group(_args: Any, _ctx: Any, _meta: Any) -> None:
    async def child() -> None:
        await _raise_another(None, None, None)

    async with anyio.create_task_group() as group:
        group.start_soon(child)
        await anyio.sleep_forever()


async def _give_an_error(_args: Any, _ctx: Any, _meta: Any) -> Any:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        return Err("denied", "while leaving")


@pytest.mark.slow
async def test_an_exception_raised_during_cancellation_is_reported_as_the_timeout() -> None:
    codes: dict[tuple[str, str], tuple[str, str, str]] = {}

    async def check(handler: Any, limit: str) -> None:
        settings: dict[str, Any] = {limit: SOON}
        tools = [make("work", handler), giving("fine")]
        late, fine = await execute(tools, [call("work"), call("give", call_id="c2")], **settings)
        alone = await execute_one(make("work", handler), **settings)
        codes[handler.__name__, limit] = (err(late).code, err(alone).code, ok(fine).value)
        await anyio.lowlevel.checkpoint()  # and nothing of the cancellation is left

    cases = list(
        product([_raise_another, _raise_in_a_group, _give_an_error], ["timeout_seconds", "batch_timeout_seconds"])
    )
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:  # all at once: each case waits for its deadlines
            for handler, limit in cases:
                tasks.start_soon(check, handler, limit)

    assert codes == {(handler.__name__, limit): ("timed_out", "timed_out", "fine") for handler, limit in cases}


@pytest.mark.slow
async def test_a_result_returned_at_the_deadline_is_used() -> None:
    async def save(_args: Any, _ctx: Any, _meta: Any) -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "half of it"
        return "all of it"

    with anyio.fail_after(30):
        outcome = await execute_one(make("save", save), timeout_seconds=SOON)

    assert ok(outcome).value == "half of it"
    await anyio.lowlevel.checkpoint()


async def _inner_limit(_args: Any, _ctx: Any, _meta: Any) -> None:
    with anyio.fail_after(0.001):
        await anyio.sleep_forever()


async def _raised(_args: Any, _ctx: Any, _meta: Any) -> None:
    raise TimeoutError("the server did not answer")


def _raised_in_a_thread(_args: Any, _ctx: Any, _meta: Any) -> None:
    raise TimeoutError


@pytest.mark.parametrize("handler", [_inner_limit, _raised, _raised_in_a_thread])
async def test_a_tools_own_timeout_is_a_failure(handler: Any) -> None:
    outcome = await execute_one(make("call_server", handler))

    assert err(outcome).code == "execution_failed"
    assert isinstance(err(outcome).cause, TimeoutError)
