"""The client of an SDK: the caller's own, or one that only looks like it."""

from collections.abc import AsyncIterator, Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anthropic import Anthropic
from openai import OpenAI

from spindle import TurnRunner
from spindle.bridges import anthropic, openai
from spindle.bridges.sdk_client import iterate_blocking_stream
from spindle.errors import UsageError
from tests.bridges.chat_wire import saying

pytestmark = pytest.mark.anyio


def test_a_client_that_would_block_the_event_loop_is_refused() -> None:
    with OpenAI(api_key="key") as chat, Anthropic(api_key="key") as messages:
        for make, client in ((openai.chat, chat), (openai.responses, chat), (anthropic.messages, messages)):
            blocking: Any = client
            with pytest.raises(UsageError) as caught:
                make(model="m", client=blocking)
            assert caught.value.field == "client"


@pytest.mark.anyio
async def test_a_substitute_client_needs_only_the_request_method() -> None:
    asked: list[Any] = []

    async def events() -> AsyncIterator[Any]:
        for event in saying("Hello."):
            yield event

    async def create(**request: Any) -> AsyncIterator[Any]:
        asked.append(request)
        return events()

    client: Any = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    report = await TurnRunner(executor_callback=openai.chat(model="m", client=client)).run(messages=["Hi."])

    assert (report.status, report.text) == ("ok", "Hello.")
    assert asked[0]["model"] == "m"


# --- A stream that blocks is read in threads, and a reader that leaves does not wait


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


async def test_leaving_between_items_closes_the_stream() -> None:
    slow = Slow()

    async with iterate_blocking_stream(lambda: slow, interrupt=Slow.shut) as items:
        assert await anext(items) == 1

    assert slow.is_closed.is_set()


async def test_leaving_while_waiting_for_an_item_wakes_the_thread() -> None:
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


async def test_leaving_before_the_stream_is_open_closes_it_later() -> None:
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


async def test_failures_are_raised_and_the_stream_is_closed() -> None:
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
