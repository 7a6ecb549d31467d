"""The sync door: the same answers without `await`, one event loop for a program, and the way home from a handler."""

import inspect
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Backends, Call, Capabilities, Ok, ToolContext, ToolRegistry, tool
from spindle import Executor as AsyncExecutor
from spindle import TurnRunner as AsyncTurnRunner
from spindle.blocking import Executor, TurnRunner, run
from spindle.capabilities import FileReach
from spindle.errors import InvalidContextError, UsageError
from spindle.testing import ScriptedModel


@tool
async def double(number: int) -> str:
    """Double a number."""
    return str(2 * number)


def test_calls_are_answered_without_an_event_loop() -> None:
    executor = Executor(ToolRegistry([double]), concurrency=2)

    outcomes = executor.execute_parallel(
        [Call("a", "double", {"number": 2}), Call("b", "nothing", {})], ToolContext(session_id="s")
    )

    assert [(each.tool_call_id, each.ok) for each in outcomes] == [("a", True), ("b", False)]
    with pytest.raises(InvalidContextError):
        executor.execute_parallel([], "no context")  # pyright: ignore[reportArgumentType]  callers may be untyped


def test_a_turn_runs_to_its_end() -> None:
    model = ScriptedModel([[Call("a", "double", {"number": 4})], "eight"])
    reported: list[Any] = []
    runner = TurnRunner(executor_callback=model, tools=[double])
    runner.on("tool_execution_end", reported.append)

    report = runner.run(messages=["What is twice four?"])

    assert report.status == "ok"
    assert len(report.tool_calls) == 1
    assert len(reported) == 1


def test_all_of_a_program_goes_to_one_loop() -> None:
    async def loop() -> tuple[Any, int]:
        return anyio.lowlevel.current_token(), threading.get_ident()

    first, second = run(loop), run(loop)

    assert first == second
    assert first[1] != threading.get_ident()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_exceptions_reach_the_caller_and_end_nothing_else(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        run(fail)

    async def one() -> int:
        return 1

    assert run(one) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: run(anyio.sleep, 0), "await sleep(…)"),
        (
            lambda: Executor(ToolRegistry([double])).execute_parallel([], ToolContext()),
            "from spindle import Executor",
        ),
        (lambda: TurnRunner(executor_callback=ScriptedModel("a")).run(), "from spindle import TurnRunner"),
    ],
)
async def test_inside_an_event_loop_the_error_names_what_to_use_instead(
    call: Callable[[], object], remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        call()

    assert remedy in str(caught.value)


def test_constructors_take_the_arguments_of_the_async_classes() -> None:
    assert inspect.signature(Executor) == inspect.signature(AsyncExecutor)
    assert inspect.signature(TurnRunner) == inspect.signature(AsyncTurnRunner)


def test_a_turn_takes_the_arguments_of_the_async_runner(tmp_path: Path) -> None:
    blocking = inspect.signature(TurnRunner.run).parameters
    assert blocking.keys() == inspect.signature(AsyncTurnRunner.run).parameters.keys()

    model = ScriptedModel([[Call("a", "double", {"number": 4})], "eight"])
    report = TurnRunner(executor_callback=model, tools=[double]).run(dry_run=True, working_dir=tmp_path)

    assert "[dry-run]" in str(report.tool_calls[0].results)


def test_a_threading_event_cancels_a_turn() -> None:
    cancel = threading.Event()

    async def callback(ctx: Any) -> None:
        cancel.set()
        await anyio.sleep_forever()

    report = TurnRunner(executor_callback=callback, abort_grace_seconds=0).run(cancel=cancel)

    assert report.status == "aborted"


@pytest.mark.anyio
async def test_a_sync_handler_uses_what_it_was_granted(tmp_path: Any) -> None:
    (tmp_path / "note.txt").write_text("remember")
    loops: list[Any] = []

    async def where() -> None:
        loops.append(anyio.lowlevel.current_token())

    @tool(capabilities=Capabilities(files=FileReach(read=["."])))
    def read(path: str, *, ctx: ToolContext) -> str:
        """Read a file."""
        run(where)
        return run(ctx.files.read_text, path)

    executor = AsyncExecutor(ToolRegistry([read]), backends=Backends.local(tmp_path))
    with anyio.fail_after(30):
        [outcome] = await executor.execute_parallel(
            [Call("a", "read", {"path": "note.txt"})], ToolContext(session_id="s")
        )

    assert isinstance(outcome.result, Ok), outcome.result
    assert outcome.result.value == "remember"
    assert loops == [anyio.lowlevel.current_token()]


WAITS = """
import os, signal, threading, anyio
from spindle.blocking import run

async def wait():
    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
    try:
        await anyio.sleep_forever()
    finally:
        os.write(1, b"cancelled\\n")

try:
    run(wait)
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_cancels_what_is_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"cancelled", "interrupted"}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    async def pid() -> int:
        return os.getpid()

    assert run(pid) == os.getpid()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
        child = os.fork()
    if not child:
        os.write(writing, str(run(pid)).encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reading, 20) == str(child).encode()
