"""Callers that leave: the hanging call is left behind, its slot is not."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

import anyio
import anyio.lowlevel
import pytest

from spindle.execution.backends.threads import Post, ThreadRunner

pytestmark = pytest.mark.anyio


def forty_two(post: Post) -> int:
    return 42


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What hanging handlers wait for; set at the end, so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()


class Hanging:
    """A handler that has begun and does not end."""

    def __init__(self, release: threading.Event) -> None:
        self.release = release
        self.begun = anyio.Event()
        self.thread: threading.Thread | None = None

    def __call__(self, post: Post) -> str:
        self.thread = threading.current_thread()
        post(self.begun.set)
        self.release.wait()
        return "late"

    def join(self) -> None:
        """Wait until the thread has ended, which it does soon for want of work."""
        assert self.thread is not None
        self.thread.join(30)
        assert not self.thread.is_alive()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def test_a_cancelled_caller_leaves_a_hanging_call_behind_at_once(release: threading.Event) -> None:
    pool = ThreadRunner(1, idle_seconds=0.001)
    hanging = Hanging(release)
    reported: list[str] = []

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                await pool.run(hanging, on_abandon=lambda: reported.append("abandoned"))

            group.start_soon(call)
            await hanging.begun.wait()
            group.cancel_scope.cancel()

    assert reported == ["abandoned"]
    assert pool.abandoned == 1
    assert await pool.run(lambda post: "the slot is free") == "the slot is free"
    release.set()
    hanging.join()
    assert pool.abandoned == 0


async def test_a_deadline_ends_the_wait_and_not_the_thread(release: threading.Event) -> None:
    pool = ThreadRunner(1)
    hanging = Hanging(release)

    with anyio.move_on_after(0.001) as scope:
        await pool.run(hanging)

    assert scope.cancelled_caught
    assert pool.abandoned <= 1


async def test_many_hanging_calls_are_all_counted_and_block_no_other_call(release: threading.Event) -> None:
    pool = ThreadRunner(2)
    hanging = [Hanging(release) for _ in range(6)]

    for one in hanging:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(pool.run, one)
                await one.begun.wait()
                group.cancel_scope.cancel()

    assert pool.abandoned == 6
    release.set()
    await until(lambda: pool.abandoned == 0)


async def test_an_abandoned_calls_posts_and_errors_are_dropped(release: threading.Event) -> None:
    pool = ThreadRunner(1, idle_seconds=0.001)
    begun = anyio.Event()
    threads: list[threading.Thread] = []
    received: list[str] = []

    def hang_then_shout(post: Post) -> NoReturn:
        threads.append(threading.current_thread())
        post(begun.set)
        release.wait()
        post(lambda: received.append("late"))
        raise SystemExit("late")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(pool.run, hang_then_shout)
            await begun.wait()
            group.cancel_scope.cancel()
    release.set()
    threads[0].join(30)
    await anyio.lowlevel.checkpoint()

    assert received == []
    assert not threads[0].is_alive()


def test_a_result_after_the_loop_is_closed_is_dropped_silently(anyio_backend: str, release: threading.Event) -> None:
    pool = ThreadRunner(1, idle_seconds=0.001)
    kept: list[Hanging] = []

    async def main() -> None:
        hanging = Hanging(release)
        kept.append(hanging)
        async with anyio.create_task_group() as group:
            group.start_soon(pool.run, hanging)
            await hanging.begun.wait()
            group.cancel_scope.cancel()

    anyio.run(main, backend=anyio_backend)
    release.set()
    kept[0].join()

    assert pool.abandoned == 0
    assert anyio.run(pool.run, forty_two, backend=anyio_backend) == 42


async def test_calls_are_served_in_the_order_they_came(release: threading.Event) -> None:
    pool = ThreadRunner(1)
    hanging = Hanging(release)
    served: list[int] = []

    async def call(number: int) -> None:
        await pool.run(lambda post: served.append(number))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(pool.run, hanging)
            await hanging.begun.wait()
            for number in range(10):
                group.start_soon(call, number)
                await anyio.wait_all_tasks_blocked()
            release.set()

    assert served == list(range(10))


async def test_a_call_cancelled_in_the_queue_never_runs_and_is_not_abandoned(release: threading.Event) -> None:
    pool = ThreadRunner(1)
    hanging = Hanging(release)
    ran: list[str] = []
    reported: list[str] = []

    async def call() -> None:
        await pool.run(lambda post: ran.append("queued"), on_abandon=lambda: reported.append("abandoned"))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(pool.run, hanging)
            await hanging.begun.wait()
            async with anyio.create_task_group() as queued:
                queued.start_soon(call)
                await anyio.wait_all_tasks_blocked()
                queued.cancel_scope.cancel()
            assert pool.abandoned == 0
            release.set()
    assert await pool.run(lambda post: "next") == "next"

    assert (ran, reported) == ([], [])


async def test_the_slot_of_an_abandoned_call_goes_to_the_next_in_the_row(release: threading.Event) -> None:
    pool = ThreadRunner(1)
    hanging = Hanging(release)
    answers: list[str] = []

    async def call() -> None:
        answers.append(await pool.run(lambda post: "served"))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group, anyio.create_task_group() as doomed:
            doomed.start_soon(pool.run, hanging)
            await hanging.begun.wait()
            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            doomed.cancel_scope.cancel()

    assert answers == ["served"]
    assert pool.abandoned == 1


HANG_AND_LEAVE = """
import anyio, threading
from spindle.execution.backends.threads import ThreadRunner

async def main():
    pool, begun = ThreadRunner(1), anyio.Event()
    def hang(post):
        post(begun.set)
        threading.Event().wait()
    async with anyio.create_task_group() as group:
        group.start_soon(pool.run, hang)
        await begun.wait()
        group.cancel_scope.cancel()
    print("left", pool.abandoned)

anyio.run(main, backend={backend!r})
"""


@pytest.mark.slow
def test_a_hanging_handler_does_not_keep_the_interpreter_from_exiting(anyio_backend: str) -> None:
    code = HANG_AND_LEAVE.format(backend=anyio_backend)

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert ended.stdout.split() == ["left", "1"]
    assert not ended.stderr
