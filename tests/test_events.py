import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from spindle import Events
from spindle.errors import UnknownEventError, UsageError

pytestmark = pytest.mark.anyio


async def test_sync_and_async_observers_are_called_in_order() -> None:
    events, seen = Events(), list[str]()

    async def slow(payload: Any) -> None:
        await checkpoint()
        seen.append(f"slow {payload}")

    events.on("log", lambda payload: seen.append(f"quick {payload}"))
    events.on("log", slow)
    await events.emit("log", 1)
    await events.emit("log", 2)

    assert seen == ["quick 1", "slow 1", "quick 2", "slow 2"]


async def test_unsubscribing_removes_one_subscription_and_may_be_repeated() -> None:
    events, seen = Events(), list[int]()
    stop = events.on("log", seen.append)
    events.on("log", seen.append)

    await events.emit("log", 1)
    stop()
    stop()
    await events.emit("log", 2)

    assert seen == [1, 1, 2]
    assert events.has_observer("log")


async def test_has_observer_is_false_without_observers() -> None:
    events = Events()
    stop = events.on("log", print)
    assert events.has_observer("log")
    stop()
    assert not events.has_observer("log")


@pytest.mark.parametrize("name", [None, 5], ids=["none", "number"])
def test_event_name_that_is_not_text_is_rejected(name: Any) -> None:
    with pytest.raises(UnknownEventError):
        Events().on(name, print)


def _yield_payload(payload: object) -> Iterator[object]:
    yield payload


@pytest.mark.parametrize("wrong", [None, "print", list, _yield_payload])
def test_observer_that_would_never_run_is_rejected(wrong: Any) -> None:
    events = Events()

    with pytest.raises(UsageError) as caught:
        events.on("log", wrong)

    assert caught.value.field == "fn"
    assert not events.has_observer("log")


def test_an_unknown_event_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownEventError) as caught:
        Events().on("tool_progres", print)

    assert "tool_progress" in str(caught.value)


async def test_failing_observers_become_warnings() -> None:
    events, warnings, seen = Events(), list[Any](), list[Any]()

    def broken(payload: Any) -> None:
        raise LookupError("sync")

    async def broken_later(payload: Any) -> None:
        await checkpoint()
        raise LookupError("async")

    events.on("warning", warnings.append)
    for fn in (broken, broken_later, seen.append):
        events.on("message", fn)
    await events.emit("message", "hello")

    assert seen == ["hello"]
    assert [str(each.error) for each in warnings] == ["sync", "async"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, ValueError])
@pytest.mark.parametrize("is_async", [True, False])
async def test_whatever_an_observer_raises_becomes_a_warning_and_the_others_are_called(
    error: type[BaseException], is_async: bool
) -> None:
    events, seen, warnings = Events(), list[Any](), list[Any]()

    def fail(_payload: object) -> None:
        raise error

    async def fail_later(_payload: object) -> None:
        raise error

    async def see(payload: object) -> None:
        seen.append(payload)

    events.on("warning", warnings.append)
    events.on("log", fail_later if is_async else fail)
    events.on("log", see)
    with anyio.fail_after(30):
        events.notify("log", 1)
        await events.flush()
        await events.emit("log", 2)

    assert seen == [1, 2]
    assert [type(each.error) for each in warnings] == [error] * 2


async def test_an_observer_that_is_cancelled_with_its_caller_has_not_failed() -> None:
    events, warnings = Events(), list[Any]()

    async def hang(_payload: object) -> None:
        await anyio.sleep_forever()

    events.on("warning", warnings.append)
    events.on("log", hang)
    with anyio.move_on_after(0.01) as scope:
        await events.emit_now("log", 1)

    assert scope.cancelled_caught
    assert warnings == []


async def test_warning_without_observers_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()

    def broken(payload: Any) -> None:
        raise LookupError

    events.on("message", broken)
    events.on("warning", broken)
    with caplog.at_level(logging.WARNING, "spindle"):
        await events.emit("message", 1)

    assert "warning" in caplog.text


async def test_observer_may_unsubscribe_itself_while_it_is_called() -> None:
    events, seen = Events(), list[int]()

    def once(payload: int) -> None:
        seen.append(payload)
        stop()

    stop = events.on("log", once)
    await events.emit("log", 1)
    await events.emit("log", 2)

    assert seen == [1]


async def test_async_observers_called_by_notify_are_awaited_by_flush() -> None:
    events, seen = Events(), list[int]()

    async def later(payload: int) -> None:
        seen.append(payload)

    events.on("log", later)
    events.notify("log", 1)
    assert seen == []
    await events.flush()
    assert seen == [1]


async def test_async_observers_run_in_order_without_a_flush() -> None:
    events, seen, done = Events(), list[int](), anyio.Event()

    async def later(payload: int) -> None:
        await checkpoint()
        seen.append(payload)
        if payload == 3:
            done.set()

    events.on("log", later)
    for number in (1, 2, 3):
        events.notify("log", number)
    with anyio.fail_after(30):
        await done.wait()

    assert seen == [1, 2, 3]


async def test_flush_inside_an_observer_returns_instead_of_waiting_for_itself() -> None:
    events, seen = Events(), list[int]()

    async def nested(payload: int) -> None:
        await events.flush()
        if payload == 1:
            await events.emit("log", 2)
        seen.append(payload)

    events.on("log", nested)
    events.notify("log", 1)
    with anyio.fail_after(30):
        await events.flush()

    assert seen == [2, 1]


async def test_cancelled_flush_leaves_the_observer_running() -> None:
    events, go, done = Events(), anyio.Event(), anyio.Event()

    async def slow(payload: int) -> None:
        await go.wait()
        done.set()

    events.on("log", slow)
    events.notify("log", 1)
    with anyio.move_on_after(0):
        await events.flush()
    go.set()
    with anyio.fail_after(30):
        await done.wait()
