"""Only what does no harm twice is tried again: when, how often, and within which time."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio
import trio.testing

from spindle import Err, Events, Executor, Ok, Tool, ToolContext, ToolRegistry
from spindle.errors import InvalidToolArgsError
from spindle.execution import Retries
from tests.execution.calling import call, err, execute, execute_one, make, ok

pytestmark = pytest.mark.anyio

AT_ONCE = Retries(first_wait_seconds=0)
"""Two more tries, without a pause."""


class Flaky:
    """A tool whose answers are given one after the other; exceptions among them are raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.times: list[float] = []

    def tool(self, **options: Any) -> Tool:
        async def answer(_args: Any, _ctx: Any, _meta: Any) -> Any:
            self.times.append(anyio.current_time())
            return self._next()

        return make("flaky", answer, **({"idempotent": True} | options))

    def sync_tool(self, **options: Any) -> Tool:
        def answer(_args: Any, _ctx: Any, _meta: Any) -> Any:
            self.times.append(0)
            return self._next()

        return make("flaky", answer, **({"idempotent": True} | options))

    def _next(self) -> Any:
        given = self.answers.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given


def simulated(main: Callable[[], Awaitable[None]]) -> float:
    """Run `main` on a clock that jumps over every wait; gives the seconds it thought to have taken."""

    async def timed() -> float:
        await main()
        return trio.current_time()  # the clock begins at 0

    return trio.run(timed, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_failing_idempotent_tool_is_retried_and_the_attempts_are_counted() -> None:
    flaky = Flaky(ConnectionError(), ConnectionError(), "third time")

    outcome = await execute_one(flaky.tool(), retries=AT_ONCE)

    assert ok(outcome).value == "third time"
    assert outcome.attempts == 3


async def test_a_sync_handler_is_tried_again_too() -> None:
    outcome = await execute_one(Flaky(OSError(), "second time").sync_tool(), retries=AT_ONCE)

    assert (ok(outcome).value, outcome.attempts) == ("second time", 2)


async def test_the_last_failure_is_the_answer_when_all_tries_fail() -> None:
    errors = [ConnectionError("1"), ConnectionError("2"), ConnectionError("3")]

    outcome = await execute_one(Flaky(*errors, "never asked").tool(), retries=AT_ONCE)

    assert (err(outcome).code, err(outcome).cause) == ("execution_failed", errors[2])
    assert outcome.attempts == 3


@pytest.mark.parametrize("flags", [{}, {"read_only": True}, {"cache": True}])
@pytest.mark.parametrize("failure", [ConnectionError(), Err("execution_failed", "later", retryable=True)])
async def test_any_other_tool_is_run_once(flags: dict[str, Any], failure: Any) -> None:
    flaky = Flaky(failure, "never asked")

    outcome = await execute_one(flaky.tool(idempotent=False, **flags), retries=AT_ONCE)

    assert not outcome.ok
    assert (outcome.attempts, len(flaky.times)) == (1, 1)


@pytest.mark.parametrize(("retryable", "attempts"), [(True, 2), (False, 1)])
async def test_an_error_that_a_tool_returns_is_tried_again_only_where_it_says_so(
    retryable: bool, attempts: int
) -> None:
    flaky = Flaky(Err("execution_failed", "busy", retryable=retryable), "ready")

    outcome = await execute_one(flaky.tool(), retries=AT_ONCE)

    assert outcome.ok is retryable
    assert outcome.attempts == attempts


async def test_arguments_that_the_handler_itself_refuses_are_not_tried_again() -> None:
    flaky = Flaky(InvalidToolArgsError("no such column", tool="flaky"), "never asked")

    outcome = await execute_one(flaky.tool(), retries=AT_ONCE)

    assert (err(outcome).code, outcome.attempts) == ("input_invalid", 1)


async def test_a_call_that_is_refused_was_never_tried() -> None:
    outcome = await execute_one(Flaky("never asked").tool(), "{", retries=AT_ONCE)

    assert (err(outcome).code, outcome.attempts) == ("input_invalid", 0)


async def test_no_retries_means_one_try() -> None:
    outcome = await execute_one(Flaky(OSError(), "never asked").tool(), retries=Retries(times=0))

    assert outcome.attempts == 1


def test_twice_more_after_a_tenth_and_a_fifth_of_a_second_is_the_default() -> None:
    async def main() -> None:
        flaky = Flaky(OSError(), OSError(), OSError())
        outcome = await execute_one(flaky.tool())
        assert outcome.attempts == 3
        first, second, third = flaky.times
        assert (second - first, third - second) == (pytest.approx(0.1), pytest.approx(0.2))

    assert simulated(main) == pytest.approx(0.3)


def test_each_wait_is_twice_as_long_until_the_longest() -> None:
    async def main() -> None:
        flaky = Flaky(*[OSError()] * 7)
        retries = Retries(times=6, first_wait_seconds=1, max_wait_seconds=10)
        await execute_one(flaky.tool(), retries=retries)
        waits = [later - earlier for earlier, later in zip(flaky.times, flaky.times[1:], strict=False)]
        assert waits == [pytest.approx(each) for each in (1, 2, 4, 8, 10, 10)]

    assert simulated(main) == pytest.approx(35)


def test_a_wait_is_a_number_however_often_was_tried() -> None:
    assert Retries(first_wait_seconds=0.5).wait_seconds(5_000) == 5.0


def test_all_tries_together_have_one_deadline() -> None:
    async def main() -> None:
        attempts: list[int] = []

        async def slow(_args: Any, _ctx: Any, _meta: Any) -> None:
            attempts.append(1)
            await trio.sleep(8)
            raise OSError

        outcome = await execute_one(make("slow", slow, idempotent=True), timeout_seconds=20, retries=Retries(times=9))
        assert (err(outcome).code, outcome.attempts, len(attempts)) == ("timed_out", 3, 3)

    assert simulated(main) == pytest.approx(20)


def test_a_retry_beyond_the_deadline_is_not_waited_for() -> None:
    async def main() -> None:
        flaky = Flaky(OSError(), OSError("last"), "never asked")
        retries = Retries(times=5, first_wait_seconds=6, max_wait_seconds=60)
        outcome = await execute_one(flaky.tool(), timeout_seconds=10, retries=retries)
        assert (err(outcome).code, outcome.attempts) == ("execution_failed", 2)

    assert simulated(main) == pytest.approx(6)


async def test_a_call_that_ran_out_of_time_is_not_tried_again() -> None:
    runs: list[int] = []

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> None:
        runs.append(1)
        await anyio.sleep_forever()

    outcome = await execute_one(make("hang", hang, idempotent=True), timeout_seconds=0.02, retries=AT_ONCE)

    assert (err(outcome).code, outcome.attempts, len(runs)) == ("timed_out", 1, 1)


async def test_cancelling_the_caller_ends_the_wait_for_a_retry() -> None:
    waiting = anyio.Event()

    async def fail(_args: Any, _ctx: Any, _meta: Any) -> None:
        waiting.set()
        raise OSError

    executor = Executor(
        ToolRegistry([make("fail", fail, idempotent=True)]),
        retries=Retries(first_wait_seconds=60),
        timeout_seconds=None,
    )

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute_parallel, [call("fail")], ToolContext())
            await waiting.wait()
            group.cancel_scope.cancel()


async def test_every_try_is_the_same_call_to_the_handler_and_to_observers() -> None:
    seen: list[tuple[Any, Any, Any]] = []
    reported: list[str] = []
    events = Events()
    events.on("tool_execution_start", lambda _event: reported.append("start"))
    events.on("tool_execution_end", lambda event: reported.append(f"end {event.is_error}"))

    async def work(_args: Any, ctx: ToolContext, _meta: Any) -> Ok:
        seen.append((ctx.tool_call_id, ctx.checksum, ctx.idempotency_key))
        if len(seen) < 3:
            raise OSError
        return Ok("done")

    outcome = await execute_one(make("work", work, idempotent=True), ctx=ToolContext(events=events), retries=AT_ONCE)

    assert outcome.attempts == 3
    assert len(set(seen)) == 1
    assert reported == ["start", "end False"]


async def test_a_call_that_is_tried_again_holds_up_no_sibling() -> None:
    done = threading.Event()

    async def unlucky(_args: Any, _ctx: Any, _meta: Any) -> str:
        if not done.is_set():
            raise OSError
        return "at last"

    async def other(_args: Any, _ctx: Any, _meta: Any) -> str:
        done.set()
        return "fine"

    tools = [make("unlucky", unlucky, idempotent=True), make("other", other)]

    outcomes = await execute(
        tools, [call("unlucky"), call("other", call_id="c2")], retries=Retries(first_wait_seconds=0.01)
    )

    assert [ok(outcome).value for outcome in outcomes] == ["at last", "fine"]


async def test_every_try_is_of_the_same_arguments() -> None:
    seen: list[list[int]] = []

    async def work(args: Any, _ctx: Any, _meta: Any) -> str:
        seen.append(list(args["list"]))
        args["list"].append(2)
        raise OSError

    await execute_one(make("work", work, idempotent=True), {"list": [1]}, retries=AT_ONCE)

    assert seen == [[1]] * 3
