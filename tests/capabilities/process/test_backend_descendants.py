"""Nothing of a command outlives it: neither its group, nor what left the group, nor what refuses to end."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from spindle.capabilities.process.backend_sandbox import SandboxKind
from tests.capabilities.confined import HOLD, KINDS, handle, is_held, run_python

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop, pytest.mark.parametrize("kind", KINDS)]

GRANDCHILDREN = (
    HOLD
    + """
import signal
hold('lock')
ready, told = os.pipe()
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not os.fork():
        os.write(told, b'1')
        time.sleep(600)
    time.sleep(600)
os.read(ready, 1)
"""
)
"""A child and a grandchild that ignore the request to end, and are there when this text is done."""

DAEMON = (
    HOLD
    + """
import signal
hold('lock')
ready, told = os.pipe()
if not os.fork():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not os.fork():
        os.setsid()
        null = os.open('/dev/null', os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.write(told, b'1')
        time.sleep(600)
    os._exit(0)
os.read(ready, 1)
"""
)
"""A daemon as the books have it: forked twice, in a session of its own, its streams let go."""


@pytest.mark.slow
@pytest.mark.parametrize("left", [GRANDCHILDREN, DAEMON], ids=["grandchildren", "daemon"])
async def test_a_command_that_ends_leaves_no_descendant(left: str, kind: SandboxKind, tmp_path: Path) -> None:
    with anyio.fail_after(30):
        done = await run_python(handle(tmp_path, kind, grace_seconds=0.1), left + "print('done')")

    assert (done.exit_code, done.stdout, done.notes) == (0, "done\n", ())
    assert not is_held(tmp_path / "lock")


@pytest.mark.slow
@pytest.mark.parametrize("left", [GRANDCHILDREN, DAEMON], ids=["grandchildren", "daemon"])
async def test_cancelling_leaves_no_descendant(left: str, kind: SandboxKind, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    code = left + "open('fifo', 'w').close(); time.sleep(600)"
    process = handle(tmp_path, kind, grace_seconds=0.1)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_python, process, code)
            await anyio.to_thread.run_sync((tmp_path / "fifo").read_bytes)
            assert is_held(tmp_path / "lock")
            tasks.cancel_scope.cancel()

    assert not is_held(tmp_path / "lock")


@pytest.mark.slow  # waits for the timeout; cancelling ends it in the same way
async def test_a_daemon_does_not_outlive_a_timeout(kind: SandboxKind, tmp_path: Path) -> None:
    with anyio.fail_after(30):
        done = await run_python(
            handle(tmp_path, kind, grace_seconds=0.1), DAEMON + "time.sleep(600)", timeout_seconds=2
        )

    assert done.timed_out
    assert not is_held(tmp_path / "lock")


HOST = """
import sys
from pathlib import Path
import anyio
from tests.capabilities.confined import handle, run_python
anyio.run(run_python, handle(Path(sys.argv[1]), sys.argv[2]), sys.argv[3])
"""


@pytest.mark.slow
async def test_a_command_does_not_outlive_the_program_that_started_it(kind: SandboxKind, tmp_path: Path) -> None:
    handle(tmp_path, kind)  # skips if that sandbox is not available
    os.mkfifo(tmp_path / "fifo")
    code = DAEMON + "open('fifo', 'w').close(); time.sleep(600)"
    repository = Path(__file__).parents[3]

    def die() -> None:
        words = [sys.executable, "-c", HOST, str(tmp_path), kind, code]
        with subprocess.Popen(words, cwd=repository, env={"PYTHONPATH": str(repository)}) as host:
            (tmp_path / "fifo").read_bytes()
            host.kill()

    with anyio.fail_after(30):
        await anyio.to_thread.run_sync(die)
        while is_held(tmp_path / "lock"):
            await anyio.lowlevel.checkpoint()
