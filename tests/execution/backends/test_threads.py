"""Sync handlers in threads of our own: values, failures, being left behind, the order of service."""

import asyncio
import contextvars
import gc
import os
import threading
import weakref
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import pytest
import trio

from spindle.errors import HandlerFailedError, UsageError
from spindle.execution.backends.threads import Post, ThreadRunner

pytestmark = pytest.mark.anyio


def forty_two(post: Post) -> int:
    return 42


async def test_a_call_runs_in_a_daemon_thread_and_its_value_comes_back() -> None:
    pool = ThreadRunner(2)

    thread = await pool.run(lambda post: threading.current_thread())

    assert thread is not threading.current_thread()
    assert thread.daemon
    assert pool.abandoned == 0


async def test_calls_one_after_another_share_one_thread() -> None:
    pool = ThreadRunner(8)

    threads = {await pool.run(lambda post: threading.get_ident()) for _ in range(20)}

    assert len(threads) == 1


async def test_a_thread_without_work_ends() -> None:
    pool = ThreadRunner(1, idle_seconds=0.001)

    first = await pool.run(lambda post: threading.current_thread())
    first.join(30)

    assert not first.is_alive()
    assert await pool.run(lambda post: threading.current_thread()) is not first


async def test_threads_that_end_at_once_lose_no_call() -> None:
    pool = ThreadRunner(4, idle_seconds=0.0)
    total = 0

    async def add() -> None:
        nonlocal total
        for _ in range(50):
            one = await pool.run(lambda post: 1)
            total += one

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(add)

    assert total == 400


async def test_the_handler_sees_the_callers_context_variables_and_cannot_change_them() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller")

    def look_and_set(post: Post) -> str:
        seen = variable.get()
        variable.set("handler")
        return seen

    assert await ThreadRunner(1).run(look_and_set) == "caller"
    assert variable.get() == "caller"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), BaseException("bare")])
async def test_exceptions_of_a_call_arrive_unchanged(error: BaseException) -> None:
    def fail(post: Post) -> NoReturn:
        raise error

    with pytest.raises(type(error)) as caught:
        await ThreadRunner(1).run(fail)

    assert caught.value is error
    assert [entry.name for entry in caught.traceback][-1] == "fail"


async def test_exceptions_with_a_meaning_for_the_event_loop_arrive_wrapped() -> None:
    pool = ThreadRunner(1)
    steering: list[BaseException] = [StopIteration("a"), StopAsyncIteration("b"), GeneratorExit("c")]
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        steering.append(asyncio.CancelledError("d"))

    for error in steering:

        def fail(post: Post, error: BaseException = error) -> NoReturn:
            raise error

        with pytest.raises(HandlerFailedError) as caught:
            await pool.run(fail)

        assert caught.value.__cause__ is error
        assert (caught.value.class_name, caught.value.text) == (type(error).__name__, str(error))


async def test_a_cancellation_of_trio_raised_by_a_handler_is_not_a_cancellation_of_the_caller() -> None:
    def cancel_itself(post: Post) -> None:
        async def main() -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                except trio.Cancelled as error:
                    kept.append(error)
                    raise

        trio.run(main)
        raise kept[0]

    kept: list[BaseException] = []
    expected = HandlerFailedError if anyio.get_cancelled_exc_class() is trio.Cancelled else trio.Cancelled

    with pytest.raises(expected):
        await ThreadRunner(1).run(cancel_itself)


async def test_a_failed_call_keeps_nothing_alive() -> None:
    class Big:
        pass

    alive: list[weakref.ref[Big]] = []

    def fail(post: Post) -> NoReturn:
        big = Big()
        alive.append(weakref.ref(big))
        raise ValueError(big)

    gc.disable()
    try:
        with pytest.raises(ValueError, match="Big") as caught:
            await ThreadRunner(1).run(fail)
        del caught
        assert alive[0]() is None
    finally:
        gc.enable()


async def test_a_handler_may_run_an_event_loop_of_its_own() -> None:
    async def answer() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    pool = ThreadRunner(1)

    assert await pool.run(lambda post: anyio.run(answer)) == 7
    assert await pool.run(lambda post: anyio.run(answer, backend="trio")) == 7


async def test_a_call_that_is_cancelled_before_it_begins_never_begins() -> None:
    begun: list[int] = []

    with anyio.CancelScope() as scope:
        scope.cancel()
        await ThreadRunner(1).run(lambda post: begun.append(1))

    assert not begun


async def test_no_more_threads_run_at_once_than_allowed_and_all_of_them_do() -> None:
    pool = ThreadRunner(3)
    barrier = threading.Barrier(3)
    lock = threading.Lock()
    running = most = 0

    def overlap(post: Post) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait(30)
        with lock:
            running -= 1

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(pool.run, overlap)

    assert most == 3


async def test_posted_functions_run_on_the_loop_in_order_before_the_call_returns() -> None:
    received: list[tuple[int, int]] = []

    def chatter(post: Post) -> str:
        for number in range(100):
            post(lambda number=number: received.append((number, threading.get_ident())))
        return "done"

    assert await ThreadRunner(1).run(chatter) == "done"
    assert received == [(number, threading.get_ident()) for number in range(100)]


async def test_a_posted_function_that_raises_fails_the_call_and_not_the_loop() -> None:
    def fail() -> NoReturn:
        raise LookupError("observer")

    def chatter(post: Post) -> str:
        post(fail)
        return "done"

    with pytest.raises(LookupError, match="observer"):
        await ThreadRunner(1).run(chatter)


async def test_a_stray_post_after_the_call_is_dropped() -> None:
    received: list[str] = []
    posts: list[Post] = []

    await ThreadRunner(1).run(posts.append)
    posts[0](lambda: received.append("stray"))
    await anyio.wait_all_tasks_blocked()

    assert not received


async def test_without_a_new_thread_the_call_fails_and_the_pool_survives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = ThreadRunner(1)

    def refuse(self: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await pool.run(lambda post: 1)

    assert await pool.run(lambda post: 2) == 2


def test_two_event_loops_may_share_a_pool() -> None:
    pool = ThreadRunner(1)
    answers: list[Any] = []

    async def main() -> None:
        for _ in range(50):
            answers.append(await pool.run(lambda post: 1))

    loops = [
        threading.Thread(target=anyio.run, args=(main,), kwargs={"backend": backend}) for backend in ("asyncio", "trio")
    ]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(30)

    assert answers == [1] * 100


@pytest.mark.parametrize("max_threads", [0, -1])
def test_a_pool_without_threads_is_refused(max_threads: int) -> None:
    with pytest.raises(UsageError) as caught:
        ThreadRunner(max_threads)

    assert caught.value.field == "max_threads"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 and later: there are threads, on purpose
async def test_a_pool_works_in_a_forked_child() -> None:
    pool = ThreadRunner(1)
    await pool.run(lambda post: "so that a thread is idle")

    def fork_and_use(post: Post) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(anyio.run(pool.run, forty_two))
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    # From a thread that runs no event loop, so that the child may run its own.
    assert await ThreadRunner(1).run(fork_and_use) == 42
