"""The ledger of upstream tasks: by call, server and tool, in memory and in the journal."""

import pytest

from spindle import Journal
from spindle.errors import JournalError
from spindle.mcp import TaskLedger

pytestmark = pytest.mark.anyio


async def test_a_task_is_found_only_by_its_call_server_and_tool() -> None:
    ledger = TaskLedger()
    await ledger.keep("c", server="s", tool="t", task="1")
    await ledger.keep(None, server="s", tool="t", task="2")
    found = [await ledger.find(call, server=server, tool="t") for call, server in (("c", "s"), ("c", "x"), ("d", "s"))]
    assert found == ["1", None, None]
    assert await ledger.find(None, server="s", tool="t") is None


async def test_another_process_finds_a_task_until_it_has_ended_or_was_moved() -> None:
    states = Journal.memory().states
    await TaskLedger(states).keep("c", server="s", tool="t", task="1")
    other = TaskLedger(states)
    before = await other.has("c")
    await other.move("c", "d")
    moved = [await TaskLedger(states).find(call, server="s", tool="t") for call in ("c", "d")]
    await other.drop("d")
    assert before
    assert moved == [None, "1"]
    assert not await TaskLedger(states).has("d")


def test_only_a_task_that_another_process_could_find_goes_on_without_its_call() -> None:
    durable, lost = TaskLedger(Journal.memory().states), TaskLedger()
    for ledger in (durable, lost):
        ledger.hold("c")
    assert (durable.is_held("c"), lost.is_held("c"), durable.is_held("d")) == (True, False, False)
    durable.release("c")
    assert not durable.is_held("c")


async def test_a_journal_that_cannot_be_written_does_not_fail_the_call() -> None:
    class Broken:
        async def insert(self, _record: object) -> None:
            raise JournalError("no room")

        async def delete(self, _kind: str, _id: str) -> bool:
            raise JournalError("no room")

    ledger = TaskLedger(Broken())  # pyright: ignore[reportArgumentType]
    await ledger.keep("c", server="s", tool="t", task="1")
    assert await ledger.find("c", server="s", tool="t") == "1"
    await ledger.drop("c")
