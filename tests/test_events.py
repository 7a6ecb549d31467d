import logging
from typing import Any, cast

import pytest
from anyio.lowlevel import checkpoint

from spindle import Events
from spindle.errors import UnknownEventError, UsageError

pytestmark = pytest.mark.anyio


async def test_sync_and_async_observers_are_told_in_order() -> None:
    events, seen = Events(), list[str]()

    async def slow(payload: Any) -> None:
        await checkpoint()
        seen.append(f"slow {payload}")

    events.on("log", lambda payload: seen.append(f"quick {payload}"))
    events.on("log", slow)
    await events.emit("log", 1)
    await events.emit("log", 2)

    assert seen == ["quick 1", "slow 1", "quick 2", "slow 2"]


async def test_unsubscribing_stops_one_subscription_and_is_harmless_twice() -> None:
    events, seen = Events(), list[int]()
    stop = events.on("log", seen.append)
    events.on("log", seen.append)

    await events.emit("log", 1)
    stop()
    stop()
    await events.emit("log", 2)

    assert seen == [1, 1, 2]
    assert events.heard("log")


async def test_nobody_listening_is_known() -> None:
    events = Events()
    stop = events.on("log", print)
    assert events.heard("log")
    stop()
    assert not events.heard("log")


@pytest.mark.parametrize("name", [None, 5], ids=["none", "number"])
def test_an_event_that_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(UnknownEventError):
        Events().on(name, print)


def test_an_observer_that_cannot_be_called_is_refused() -> None:
    events = Events()

    with pytest.raises(UsageError) as caught:
        events.on("log", cast("Any", None))

    assert caught.value.field == "fn"
    assert not events.heard("log")


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


async def test_without_anyone_to_warn_the_log_has_it(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()

    def broken(payload: Any) -> None:
        raise LookupError

    events.on("message", broken)
    events.on("warning", broken)
    with caplog.at_level(logging.WARNING, "spindle"):
        await events.emit("message", 1)

    assert "warning" in caplog.text


async def test_an_observer_may_unsubscribe_itself_while_being_told() -> None:
    events, seen = Events(), list[int]()

    def once(payload: int) -> None:
        seen.append(payload)
        stop()

    stop = events.on("log", once)
    await events.emit("log", 1)
    await events.emit("log", 2)

    assert seen == [1]


async def test_async_observers_told_by_notify_are_awaited_by_flush() -> None:
    events, seen = Events(), list[int]()

    async def later(payload: int) -> None:
        seen.append(payload)

    events.on("log", later)
    events.notify("log", 1)
    assert seen == []
    await events.flush()
    assert seen == [1]
