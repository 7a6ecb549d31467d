"""A stream that blocks is read in threads, and whoever leaves it does not wait."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import anyio
import pytest

from spindle.bridges.sdk_client import iterate_blocking_stream

pytestmark = pytest.mark.anyio


class Slow:
    """Gives two items; the third comes when it is allowed to, or the stream is shut."""

    def __init__(self) -> None:
        self.waits, self.may_go_on, self.is_closed = Event(), Event(), Event()
        self.is_shut = False

    def __iter__(self) -> Iterator[Any]:
        yield 1
        yield 2
        self.waits.set()
        self.may_go_on.wait(30)
        if self.is_shut:
            raise OSError("shut")
        yield 3

    def close(self) -> None:
        self.is_closed.set()

    def shut(self) -> None:
        self.is_shut = True
        self.may_go_on.set()


async def happened(event: Event) -> None:
    with anyio.fail_after(30):
        assert await anyio.to_thread.run_sync(event.wait, 30)


async def test_all_items_are_given_and_the_stream_is_closed() -> None:
    slow = Slow()
    slow.may_go_on.set()

    async with iterate_blocking_stream(lambda: slow, interrupt=Slow.shut) as items:
        assert [item async for item in items] == [1, 2, 3]

    assert slow.is_closed.is_set()
    assert not slow.is_shut


async def test_who_leaves_between_items_closes_the_stream() -> None:
    slow = Slow()

    async with iterate_blocking_stream(lambda: slow, interrupt=Slow.shut) as items:
        assert await anext(items) == 1

    assert slow.is_closed.is_set()


async def test_who_leaves_while_an_item_is_waited_for_wakes_the_thread() -> None:
    slow = Slow()

    async def read() -> None:
        async with iterate_blocking_stream(lambda: slow, interrupt=Slow.shut) as items:
            async for _ in items:
                pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await happened(slow.waits)
        tasks.cancel_scope.cancel()

    await happened(slow.is_closed)
    assert slow.is_shut


async def test_who_leaves_before_the_stream_is_open_has_it_closed_then() -> None:
    slow, asked, may_open = Slow(), Event(), Event()

    def open_slowly() -> Slow:
        asked.set()
        may_open.wait(30)
        return slow

    async def read() -> None:
        async with iterate_blocking_stream(open_slowly, interrupt=Slow.shut):
            raise AssertionError("it never opens")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await happened(asked)
        tasks.cancel_scope.cancel()
    assert not slow.is_closed.is_set()
    may_open.set()

    await happened(slow.is_closed)


async def test_what_goes_wrong_is_raised_and_the_stream_is_closed() -> None:
    slow = Slow()
    slow.shut()

    async def read() -> None:
        async with iterate_blocking_stream(lambda: slow, interrupt=Slow.shut) as items:
            async for _ in items:
                pass

    with pytest.raises(OSError, match="shut"):
        await read()

    assert slow.is_closed.is_set()


async def test_a_stream_that_cannot_be_opened_raises() -> None:
    def fail() -> Slow:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        async with iterate_blocking_stream(fail, interrupt=Slow.shut):
            raise AssertionError("it never opens")
