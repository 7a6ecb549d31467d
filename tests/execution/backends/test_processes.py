"""Sync handlers in processes of their own: values, failures, messages, limits, and nothing left behind."""

import contextvars
import os
import pickle
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Protocol

import anyio
import pytest

from spindle.errors import HandlerFailedError, InvalidStashError, NotSendableError, UsageError, WorkerDiedError
from spindle.execution.backends.child import ChildLink
from spindle.execution.backends.processes import ProcessRunner

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")]
FDS = Path("/proc/self/fd")


@pytest.fixture
def pool() -> ProcessRunner:
    return ProcessRunner(4)


class NeedsTwo(Exception):
    """An exception whose constructor does not take its own `args`."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)
        self.one = one


class TurnsIntoText(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        return str, ("not an exception",)


class BreaksWhenRead:
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    def __reduce__(self) -> NoReturn:
        raise RuntimeError


def open_descriptors() -> int:
    return len(list(FDS.iterdir()))


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


class FailMaker(Protocol):
    def __call__(self, link: ChildLink) -> NoReturn: ...


def raising(error: BaseException) -> FailMaker:
    def fail(link: ChildLink) -> NoReturn:
        raise error

    return fail


async def test_a_closure_runs_in_another_process_and_its_value_comes_back(pool: ProcessRunner) -> None:
    here = {"answer": 42}

    pid, answer = await pool.run(lambda link: (os.getpid(), here["answer"]))

    assert pid != os.getpid()
    assert answer == 42


async def test_changes_of_the_handler_stay_in_its_process(pool: ProcessRunner) -> None:
    numbers = [1]

    assert await pool.run(lambda link: (numbers.append(2), len(numbers))[1]) == 2
    assert numbers == [1]


async def test_a_large_result_arrives_whole(pool: ProcessRunner) -> None:
    assert await pool.run(lambda link: b"x" * 5_000_000) == b"x" * 5_000_000


async def test_the_handler_sees_the_callers_context_variables(pool: ProcessRunner) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller")

    assert await pool.run(lambda link: variable.get()) == "caller"


async def test_messages_arrive_on_the_loop_in_order_before_the_result(pool: ProcessRunner) -> None:
    received: list[tuple[int, int]] = []

    def chatter(link: ChildLink) -> str:
        for number in range(100):
            link.send(number)
        return "done"

    assert await pool.run(chatter, on_message=lambda n: received.append((n, threading.get_ident()))) == "done"
    assert received == [(number, threading.get_ident()) for number in range(100)]


async def test_messages_without_a_listener_are_dropped(pool: ProcessRunner) -> None:
    assert await pool.run(lambda link: (link.send("hello"), "done")[1]) == "done"


@pytest.mark.slow
@pytest.mark.parametrize("error", [ValueError("no", 3), SystemExit(3), KeyboardInterrupt(), InvalidStashError("x")])
async def test_exceptions_of_a_call_arrive_with_attributes_and_traceback(
    pool: ProcessRunner, error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught:
        await pool.run(raising(error))

    assert caught.value.args == error.args
    assert any("in fail" in note for note in caught.value.__notes__)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [NeedsTwo("a", "b"), TurnsIntoText("c"), Unprintable()], ids=lambda e: type(e).__name__
)
async def test_an_exception_of_a_known_class_is_rebuilt_without_running_its_code(
    pool: ProcessRunner, error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught:
        await pool.run(raising(error))

    assert caught.value.args == error.args
    assert getattr(caught.value, "one", "a") == "a"


async def test_an_exception_of_a_class_that_only_the_worker_knows_is_described(pool: ProcessRunner) -> None:
    with pytest.raises(HandlerFailedError) as caught:
        await pool.run(raising(type("Local", (Exception,), {})("d")))

    assert (caught.value.class_name, caught.value.text) == ("Local", "d")
    assert pickle.loads(pickle.dumps(caught.value)).text == "d"


async def test_exceptions_with_a_meaning_for_the_event_loop_arrive_wrapped(pool: ProcessRunner) -> None:
    with pytest.raises(HandlerFailedError) as caught:
        await pool.run(raising(StopIteration(1)))

    assert caught.value.class_name == "StopIteration"
    assert isinstance(caught.value.__cause__, StopIteration)


@pytest.mark.slow
@pytest.mark.parametrize("value", [threading.Lock(), lambda: None, (part for part in "ab")])
async def test_a_result_that_is_not_data_says_what_it_was(pool: ProcessRunner, value: object) -> None:
    with pytest.raises(NotSendableError) as caught:
        await pool.run(lambda link: value)

    assert caught.value.type_name == type(value).__name__


async def test_a_result_or_a_message_that_breaks_when_it_is_read_is_refused(pool: ProcessRunner) -> None:
    with pytest.raises(NotSendableError):
        await pool.run(lambda link: BreaksWhenRead())
    with pytest.raises(NotSendableError):
        await pool.run(lambda link: link.send(BreaksWhenRead()), on_message=print)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exit_code", "number"), [(0, None), (3, None), (None, signal.SIGKILL), (None, signal.SIGTERM)]
)
async def test_a_worker_that_dies_by_itself_says_how(
    pool: ProcessRunner, exit_code: int | None, number: int | None
) -> None:
    def die(link: ChildLink) -> None:
        if number is not None:
            os.kill(os.getpid(), number)
        os._exit(exit_code or 0)

    with pytest.raises(WorkerDiedError) as caught:
        await pool.run(die)

    assert (caught.value.exit_code, caught.value.signal) == (exit_code, number)


async def test_messages_of_a_worker_that_dies_are_not_lost(pool: ProcessRunner) -> None:
    received: list[int] = []

    def die(link: ChildLink) -> None:
        for number in range(10):
            link.send(number)
        os._exit(1)

    with pytest.raises(WorkerDiedError):
        await pool.run(die, on_message=received.append)

    assert received == list(range(10))


@pytest.mark.slow
@pytest.mark.skipif(not FDS.exists(), reason="counts descriptors in /proc")
async def test_many_runs_leave_no_child_and_no_descriptor(pool: ProcessRunner) -> None:
    # A fork costs by the size of the process that forks, and a worker that has run every other test is a large one.
    await pool.run(lambda link: 1)
    before = open_descriptors(), children()

    for number in range(8):
        assert await pool.run(lambda link, number=number: number) == number

    assert (open_descriptors(), children()) == before


@pytest.mark.parametrize("runs", [5, pytest.param(20, marks=pytest.mark.slow)])
async def test_runs_at_once_overlap_and_each_gets_its_own_answer(runs: int) -> None:
    wide = ProcessRunner(runs)
    answers: dict[int, int] = {}
    begun = 0
    reading, writing = os.pipe()

    def count(message: object) -> None:
        nonlocal begun
        begun += 1
        if begun == runs:
            os.write(writing, b"x" * runs)

    def wait_for_all(link: ChildLink, number: int) -> int:
        link.send("here")
        os.read(reading, 1)
        return number

    async def call(number: int) -> None:
        answers[number] = await wide.run(lambda link: wait_for_all(link, number), on_message=count)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(runs):
                group.start_soon(call, number)
    os.close(reading)
    os.close(writing)

    assert answers == {number: number for number in range(runs)}


@pytest.mark.parametrize("max_processes", [0, -1])
def test_a_pool_without_processes_is_refused(max_processes: int) -> None:
    with pytest.raises(UsageError) as caught:
        ProcessRunner(max_processes)

    assert caught.value.field == "max_processes"


def test_a_system_without_fork_gets_an_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")

    with pytest.raises(UsageError) as caught:
        ProcessRunner(1)

    assert caught.value.field == "isolation"
