"""Time that stands still until a test moves it."""

from collections.abc import Callable

import anyio
import pytest

from spindle import Backends, Capabilities, Spool, ToolContext, tool
from spindle.capabilities import StorageBackend
from spindle.errors import UsageError
from spindle.mcp import Clock
from spindle.testing import FakeClock, call

pytestmark = pytest.mark.anyio


@tool(capabilities=Capabilities(storage="session"))
async def remember(ctx: ToolContext, word: str | None = None) -> str:
    """Keep a word for a minute, or say which one is kept."""
    if word is not None:
        await ctx.storage.set("word", word, ttl_seconds=60)
    return str(await ctx.storage.get("word"))


def test_clock_stands_still_until_it_is_advanced() -> None:
    clock = FakeClock(100)
    clock.advance(2.5)
    clock.advance(0)

    assert (clock(), clock.now()) == (102.5, 102.5)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")], ids=["back", "nan", "for-ever"])
def test_clock_rejects_negative_and_infinite_steps(seconds: float) -> None:
    clock = FakeClock(100)

    with pytest.raises(UsageError):
        clock.advance(seconds)
    assert clock() == 100


async def test_stored_value_expires_by_the_clock() -> None:
    clock = FakeClock()
    backends = Backends(storage=StorageBackend.memory(clock=clock))

    await call(remember, word="fig", backends=backends)
    clock.advance(59)
    assert (await call(remember, backends=backends)).to_record().results == "fig"
    clock.advance(2)
    assert (await call(remember, backends=backends)).to_record().results == "None"


async def test_spool_entries_expire_by_the_clock() -> None:
    clock = FakeClock()
    spool = Spool.memory(clock=clock)
    await spool.write("a", b"old")

    clock.advance(11)

    assert await spool.prune(max_age_seconds=10) == 1


async def test_sleepers_wake_at_their_time() -> None:
    clock = FakeClock()
    port: Clock = clock
    woken: list[float] = []

    async def nap(seconds: float) -> None:
        await port.sleep(seconds)
        woken.append(seconds)

    async with anyio.create_task_group() as group:
        group.start_soon(nap, 0)
        group.start_soon(nap, 10)
        group.start_soon(nap, 20)
        await clock.asleep(2)
        await anyio.wait_all_tasks_blocked()
        assert woken == [0]
        clock.advance(10)
        await clock.asleep(1)
        await anyio.wait_all_tasks_blocked()
        assert woken == [0, 10]
        clock.advance(10)

    assert woken == [0, 10, 20]


@pytest.mark.parametrize("leave", [True, False], ids=["cancelled", "woken"])
async def test_awakened_or_cancelled_sleeper_is_not_counted(leave: bool) -> None:
    clock = FakeClock()

    async with anyio.create_task_group() as group:
        group.start_soon(clock.sleep, 10)
        await clock.asleep()
        end: Callable[[], None] = group.cancel_scope.cancel if leave else lambda: clock.advance(10)
        end()

    with pytest.raises(TimeoutError):
        await clock.asleep(timeout_seconds=0)
