"""What a forked worker is, and what it does not have of the program."""

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle.execution.backends.child import ChildLink
from spindle.execution.backends.processes import ProcessRunner

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")]


@pytest.fixture
def pool() -> ProcessRunner:
    return ProcessRunner(4)


@pytest.mark.slow
async def test_too_much_memory_is_refused_inside_the_limit_and_not_without(pool: ProcessRunner) -> None:
    def allocate(link: ChildLink) -> int:
        return len(bytearray(200_000_000))

    with pytest.raises(MemoryError):
        await pool.run(allocate, max_memory_bytes=50_000_000)

    assert await pool.run(allocate, max_memory_bytes=500_000_000) == 200_000_000
    assert await pool.run(allocate) == 200_000_000


def heed(number: int, frame: object) -> None:
    """A handler of the program, which a worker must not have."""


async def test_the_worker_leads_its_own_session_with_default_signals_and_empty_input(pool: ProcessRunner) -> None:
    def look(link: ChildLink) -> tuple[Any, ...]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
        return os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), handlers, sys.stdin.read(), os.read(0, 1)

    before = signal.signal(signal.SIGTERM, heed)
    try:
        leads_session, leads_group, handlers, typed, raw = await pool.run(look)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert leads_session
    assert leads_group
    assert handlers == [signal.SIG_DFL] * 3
    assert (typed, raw) == ("", b"")


async def test_the_worker_holds_no_socket_of_the_parent_and_files_stay_open(
    pool: ProcessRunner, tmp_path: Path
) -> None:
    near, far = socket.socketpair()
    file = (tmp_path / "file").open("w")

    def use(link: ChildLink) -> str:
        file.write("written by the worker")
        file.flush()
        try:
            near.send(b"x")
        except OSError:
            return "no socket"
        return "sent"

    with near, far, file:
        assert await pool.run(use) == "no socket"
        near.send(b"y")
        assert far.recv(10) == b"y"
    assert (tmp_path / "file").read_text() == "written by the worker"


async def test_a_handler_may_run_an_event_loop_of_its_own(pool: ProcessRunner) -> None:
    async def answer() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    assert await pool.run(lambda link: anyio.run(answer)) == 7
    assert await pool.run(lambda link: anyio.run(answer, backend="trio")) == 7


async def test_a_worker_may_have_workers(pool: ProcessRunner) -> None:
    def nest(link: ChildLink) -> list[int]:
        def name(link: ChildLink) -> int:
            return os.getppid()

        return [anyio.run(pool.run, name), os.getpid()]

    parent, worker = await pool.run(nest)

    assert parent == worker


async def test_output_of_the_worker_is_written_once(pool: ProcessRunner, capfd: pytest.CaptureFixture[str]) -> None:
    with os.fdopen(os.dup(1), "w") as buffered:
        before, sys.stdout = sys.stdout, buffered
        try:
            sys.stdout.write("parent ")
            await pool.run(lambda link: sys.stdout.write("worker "))
        finally:
            sys.stdout = before

    assert capfd.readouterr().out.split() == ["parent", "worker"]
