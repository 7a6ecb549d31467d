"""What belongs to one event loop is not used on another."""

import weakref
from typing import Any

import anyio
import pytest

from spindle import concurrency
from spindle.concurrency import BackgroundTask, PerLoop, get_asyncio_task, spawn_background, start_background


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_value_is_made_once_for_each_event_loop(backend: str) -> None:
    made = PerLoop(object)

    async def twice() -> tuple[object, object]:
        return made.get(), made.get()

    first, again = anyio.run(twice, backend=backend)
    other, _ = anyio.run(twice, backend=backend)

    assert first is again
    assert other is not first


@pytest.mark.anyio
async def test_background_task_outlives_its_caller_and_keeps_its_error() -> None:
    go = anyio.Event()

    async def fail() -> None:
        await go.wait()
        raise SystemExit(3)

    tasks: list[BackgroundTask] = []
    with anyio.CancelScope() as scope:
        tasks.append(spawn_background(fail, name="test"))
        scope.cancel()
        await anyio.sleep_forever()
    (task,) = tasks
    assert not task.is_done
    go.set()
    with anyio.fail_after(30):
        await task.wait()

    assert isinstance(task.error, SystemExit)


@pytest.mark.anyio
async def test_background_task_can_be_cancelled() -> None:
    task = spawn_background(anyio.sleep_forever, name="test")
    task.cancel()
    with anyio.fail_after(30):
        await task.wait()

    assert task.error is None


def test_background_task_needs_an_event_loop() -> None:
    with pytest.raises(RuntimeError):
        spawn_background(anyio.sleep_forever, name="test")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("is_reused", [True, False])
async def test_started_tasks_run_in_their_own_scopes_whether_or_not_they_are_reused(
    is_reused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def note_task() -> None:
        ran.append(weakref.ref(get_asyncio_task()))  # a task that someone refers to is not used again

    def find_nothing(_task: object) -> None:
        return None

    caller, ran = get_asyncio_task(), list[weakref.ref[Any]]()
    if not is_reused:  # as if anyio kept its state of a task elsewhere
        monkeypatch.setattr(concurrency, "_find_task_state", find_nothing)
    start_background(note_task, caller=caller, name="test")
    ran.clear()

    assert start_background(note_task, caller=caller, name="test") is None
    assert start_background(note_task, caller=caller, name="test") is None
    waiting = start_background(anyio.sleep_forever, caller=caller, name="test")
    assert waiting is not None
    waiting.cancel()
    with anyio.fail_after(30):
        await waiting.wait()

    assert waiting.error is None
    assert weakref.ref(caller) not in ran
    assert (ran[0] is ran[1]) is is_reused  # a living object has one plain weak reference
    assert get_asyncio_task() is caller
