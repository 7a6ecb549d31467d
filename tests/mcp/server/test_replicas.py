"""Replicas that share a journal in memory: signs of life, messages and notices."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from spindle.execution import StateKey
from spindle.journal import Journal, StateQuery
from spindle.mcp.server.replicas import Replica

pytestmark = pytest.mark.anyio

NOTHING: dict[str, Any] = {}
QUICK = {"beat_seconds": 0.02, "gone_seconds": 0.2}


def build(journal: Journal, key: str = "k", **options: Any) -> Replica:
    states, notices = journal.states, journal.notices
    assert states is not None
    assert notices is not None
    return Replica(states, notices, StateKey(key), **{**QUICK, **options})


class Handled:
    """What a replica has received, and what it replies."""

    def __init__(self, reply: dict[str, Any] | None = None) -> None:
        self.contents: list[dict[str, Any]] = []
        self.reply = reply
        self.arrived = anyio.Event()

    async def __call__(self, content: dict[str, Any]) -> dict[str, Any] | None:
        self.contents.append(content)
        self.arrived.set()
        return self.reply


@asynccontextmanager
async def opened(*replicas: Replica) -> AsyncGenerator[None]:
    with anyio.fail_after(30):
        async with AsyncExitStack() as stack:
            for each in replicas:
                await stack.enter_async_context(each.open())
            yield


async def test_a_notice_reaches_all_others_and_not_its_sender() -> None:
    journal = Journal.memory()
    sender, first, second = build(journal), build(journal), build(journal)
    own, heard, too = Handled(), Handled(), Handled()
    for replica, handler in ((sender, own), (first, heard), (second, too)):
        replica.on("news", handler)
    async with opened(sender, first, second):
        sender.post("news", {"number": 1})
        await heard.arrived.wait()
        await too.arrived.wait()

    assert [each["number"] for each in heard.contents] == [1]
    assert own.contents == []


async def test_a_request_is_replied_by_the_replica_it_is_sent_to() -> None:
    journal = Journal.memory()
    asking, asked = build(journal), build(journal)
    handler = Handled({"answer": 42})
    asked.on("question", handler)
    async with opened(asking, asked):
        reply = await asking.request(asked.id, "question", {"secret": "hunter22"})

    assert reply == {"answer": 42}
    assert handler.contents[0]["secret"] == "hunter22"


async def test_what_is_sent_is_encrypted_and_read_once() -> None:
    journal = Journal.memory()
    sender, receiver = build(journal), build(journal)
    states = journal.states
    assert states is not None
    handler = Handled()
    receiver.on("secret", handler)
    async with opened(sender):
        await sender.send(receiver.id, "secret", {"value": "hunter22"})
        [kept] = await states.select(StateQuery("replica_message"))
        async with opened(receiver):
            await handler.arrived.wait()

    assert b"hunter22" not in (kept.sealed or b"")
    assert "hunter22" not in kept.data
    assert len(handler.contents) == 1
    assert await states.select(StateQuery("replica_message")) == []


async def test_a_message_with_another_key_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal.memory()
    sender, receiver = build(journal, "one"), build(journal, "another")
    handler, last = Handled(), Handled()
    receiver.on("secret", handler)
    receiver.on("last", last)
    async with opened(sender, receiver):
        await sender.send(receiver.id, "secret", {})
        while "cannot be read" not in caplog.text:  # noqa: ASYNC110  a log has no event
            await anyio.sleep(0.01)

    assert handler.contents == []
    assert "SPINDLE_STATE_KEY" in caplog.text


async def test_a_replica_that_has_left_is_gone_and_a_request_to_it_ends() -> None:
    journal = Journal.memory()
    here, there = build(journal, beat_seconds=5.0, gone_seconds=60.0), build(journal)
    async with opened(here):
        async with opened(there):
            assert not await here.is_gone(there.id)
            assert here.others == 1
        while not await here.is_gone(there.id):  # noqa: ASYNC110  it hears of it by a notice
            await anyio.sleep(0.01)
        reply = await here.request(there.id, "question", {})

    assert reply is None
    assert here.others == 0


async def test_a_replica_without_a_sign_is_gone_and_back_with_the_next_one() -> None:
    journal = Journal.memory()
    here, there = build(journal), build(journal)
    states = journal.states
    assert states is not None
    async with opened(here):
        async with opened(there):
            record = await states.get("replica", there.id)
            assert record is not None
        await states.insert(record)  # as a process that was killed leaves it
        while not await here.is_gone(there.id):  # noqa: ASYNC110
            await anyio.sleep(0.01)
        assert await here.request(there.id, "question", {}) is None
        await states.replace(record._replace(version=record.version + 1))
        while await here.is_gone(there.id):  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_a_cancelled_request_cancels_the_work() -> None:
    journal = Journal.memory()
    asking, asked = build(journal), build(journal)
    begun, cancelled = anyio.Event(), anyio.Event()

    async def work(_content: dict[str, Any]) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    asked.on("work", work)
    async with opened(asking, asked):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.request, asked.id, "work", NOTHING)
            await begun.wait()
            tasks.cancel_scope.cancel()
        await cancelled.wait()


async def test_a_handler_that_fails_gives_an_empty_reply() -> None:
    journal = Journal.memory()
    asking, asked = build(journal), build(journal)

    async def fail(_content: dict[str, Any]) -> None:
        raise ValueError("no")

    asked.on("question", fail)
    async with opened(asking, asked):
        assert await asking.request(asked.id, "question", {}) == {}
