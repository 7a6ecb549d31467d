"""Callers that leave: the process is gone, with everything in its group."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import anyio
import pytest

from spindle.errors import WorkerDiedError
from spindle.execution.backends import processes as exits
from spindle.execution.backends.child import ChildLink
from spindle.execution.backends.processes import ProcessRunner

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches deaths by pidfd")]


def children() -> set[str]:
    """The processes this one has to reap, zombies too."""
    found: set[str] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        # Processes of others come and go while we look.
        with suppress(OSError):
            parent = status.read_text().rpartition(")")[2].split()[1]
            if parent == str(os.getpid()):
                found.add(status.parent.name)
    return found


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Watched:
    """Processes that name themselves; their exits can be awaited, whichever process reaps them."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.pidfds: dict[str, int] = {}
        self.born = anyio.Event()

    def on_message(self, message: tuple[str, int]) -> None:
        name, pid = message
        self.pids[name] = pid
        self.pidfds[name] = os.pidfd_open(pid)
        if name == "last":
            self.born.set()

    def dead_within(self, seconds: float) -> bool:
        """Whether all of them die in time."""
        for pidfd in self.pidfds.values():
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if not poll.poll(seconds * 1000):
                return False
            os.close(pidfd)
        return True


def hang(link: ChildLink) -> NoReturn:
    link.send(("last", os.getpid()))
    while True:
        signal.pause()


def hang_with_children(link: ChildLink) -> NoReturn:
    sleeper = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    link.send(("started", sleeper.pid))
    forked = os.fork()
    if forked == 0:
        while True:
            signal.pause()
    link.send(("forked", forked))
    hang(link)


def hang_deaf(link: ChildLink) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hang(link)


@pytest.mark.slow
@pytest.mark.parametrize("handler", [hang, hang_with_children, hang_deaf])
async def test_a_cancelled_callers_process_is_gone_with_its_children(handler: Callable[[ChildLink], NoReturn]) -> None:
    pool, watched = ProcessRunner(1), Watched()

    async def call() -> None:
        await pool.run(handler, on_message=watched.on_message)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await watched.born.wait()
            group.cancel_scope.cancel()

    assert str(watched.pids["last"]) not in children()
    assert watched.dead_within(30)
    assert await pool.run(lambda link: "the slot is free") == "the slot is free"


async def test_a_deadline_ends_a_process_that_never_would() -> None:
    before = children()
    with anyio.fail_after(30), anyio.move_on_after(0.05) as scope:
        await ProcessRunner(1).run(hang)

    assert scope.cancelled_caught
    assert children() <= before


@pytest.mark.parametrize("steps", [range(0, 40, 5), pytest.param(range(40), marks=pytest.mark.slow)])
async def test_a_cancellation_at_any_early_instant_leaves_no_process_and_no_long_wait(steps: range) -> None:
    pool, before = ProcessRunner(2), children()

    for step in steps:
        with anyio.fail_after(30), anyio.move_on_after(step * 0.0002):
            await pool.run(hang)
        assert children() <= before


@pytest.mark.slow
async def test_processes_left_by_a_worker_are_killed_when_it_answers_or_dies() -> None:
    pool = ProcessRunner(1)

    def answer(link: ChildLink) -> str:
        start_child(link)
        return "answered"

    def die(link: ChildLink) -> NoReturn:
        start_child(link)
        os._exit(5)

    def start_child(link: ChildLink) -> None:
        # Forked, so that it holds our pipe open: its end alone would never come.
        pid = os.fork()
        if pid == 0:
            while True:
                signal.pause()
        link.send(("last", pid))

    with anyio.fail_after(30):
        watched = Watched()
        assert await pool.run(answer, on_message=watched.on_message) == "answered"
        assert watched.dead_within(30)
        watched = Watched()
        with pytest.raises(WorkerDiedError) as caught:
            await pool.run(die, on_message=watched.on_message)
        assert caught.value.exit_code == 5
        assert watched.dead_within(30)


@pytest.mark.slow
async def test_a_call_cancelled_in_the_queue_never_starts_a_process(tmp_path: Path) -> None:
    pool, watched = ProcessRunner(1), Watched()

    def touch(link: ChildLink) -> None:
        (tmp_path / "ran").touch()

    async def call(handler: Callable[[ChildLink], object]) -> None:
        await pool.run(handler, on_message=watched.on_message)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(call, hang)
            await watched.born.wait()
            async with anyio.create_task_group() as queued:
                queued.start_soon(call, touch)
                await anyio.wait_all_tasks_blocked()
                queued.cancel_scope.cancel()
            group.cancel_scope.cancel()

    assert watched.dead_within(30)
    assert await pool.run(lambda link: 1) == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
async def test_without_pidfd_a_thread_notices_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ProcessRunner(1)
    await pool.run(lambda link: 1)
    fds, born, pids = open_descriptors(), anyio.Event(), list[int]()

    def on_message(message: tuple[str, int]) -> None:
        pids.append(message[1])
        born.set()

    def unknown(pid: int) -> NoReturn:
        raise OSError("forbidden here")

    def leave_a_child(link: ChildLink) -> NoReturn:
        if os.fork() == 0:
            while True:
                signal.pause()
        os._exit(3)

    with monkeypatch.context() as patch, anyio.fail_after(30):
        patch.setattr(exits.os, "pidfd_open", unknown)
        assert await pool.run(lambda link: 1) == 1
        with pytest.raises(WorkerDiedError) as caught:
            await pool.run(leave_a_child)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: pool.run(hang, on_message=on_message))
            await born.wait()
            group.cancel_scope.cancel()

    assert caught.value.exit_code == 3
    assert str(pids[0]) not in children()
    assert open_descriptors() == fds


@pytest.mark.slow
async def test_the_answer_arrives_even_if_the_system_reaps_children() -> None:
    pool = ProcessRunner(1)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert await pool.run(lambda link: 1) == 1
        with pytest.raises(WorkerDiedError) as caught:
            await pool.run(lambda link: os._exit(3))
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert (caught.value.exit_code, caught.value.signal) == (None, None)


@pytest.mark.slow
async def test_a_fork_that_fails_fails_the_call_and_leaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ProcessRunner(1)
    await pool.run(lambda link: 1)
    fds = open_descriptors()

    def refuse() -> NoReturn:
        raise BlockingIOError(11, "no more processes")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        with pytest.raises(BlockingIOError):
            await pool.run(lambda link: 1)

    assert open_descriptors() == fds
    assert await pool.run(lambda link: list(signal.pthread_sigmask(signal.SIG_BLOCK, ()))) == []


HANG_IN_WORKER = """
import anyio, signal, sys
from spindle.execution.backends.processes import ProcessRunner

def hang(link):
    import os
    link.send(os.getpid())
    while True:
        signal.pause()

anyio.run(lambda: ProcessRunner(1).run(hang, on_message=lambda pid: print(pid, flush=True)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a process of its parent's death")
def test_a_worker_does_not_outlive_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HANG_IN_WORKER], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        watched = Watched()
        watched.on_message(("worker", int(parent.stdout.readline())))
        parent.kill()

    assert watched.dead_within(30)


INTERRUPTED_BESIDE_WORKER = """
import anyio, os, signal
from spindle.execution.backends.processes import ProcessRunner

reading, writing = os.pipe()
signal.signal(signal.SIGINT, lambda *_: os.write(writing, b"x"))

def wait(link):
    link.send("ready")
    return os.read(reading, 1)

async def tick():
    while True:  # a signal that comes just before the loop waits is handled when it wakes
        await anyio.sleep(0.05)

async def main():
    async with anyio.create_task_group() as beside:
        beside.start_soon(tick)
        print(await ProcessRunner(1).run(wait, on_message=lambda text: print(text, flush=True)))
        beside.cancel_scope.cancel()

anyio.run(main)
"""


@pytest.mark.slow
def test_a_signal_to_the_programs_group_is_handled_by_the_program_and_spares_the_worker() -> None:
    command = [sys.executable, "-c", INTERRUPTED_BESIDE_WORKER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        os.killpg(program.pid, signal.SIGINT)
        assert program.stdout.read() == "b'x'\n"

    assert program.returncode == 0
