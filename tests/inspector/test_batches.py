"""The calls of a batch are found from any of them, and no others."""

from datetime import UTC, datetime

import anyio
import pytest

from spindle import Executor, Journal, ToolContext, ToolRegistry
from spindle.inspector.batches import FoundBatch, find_batch
from spindle.journal import FinishedCall, Intent
from tests.execution.calling import call, giving, make
from tests.execution.journals import WatchedStore
from tests.journal.conftest import Place, place

__all__ = ["place"]

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


async def find(journal: Journal, call_id: str) -> FoundBatch:
    entry = await journal.get(call_id)
    assert entry is not None
    return await find_batch(journal, entry)


def get_ids(batch: FoundBatch) -> list[str]:
    return [member.entry.tool_call_id for member in batch.members]


async def test_a_batch_is_found_from_each_of_its_calls(place: Place) -> None:
    async with place.journal() as journal:
        executor = Executor(ToolRegistry([giving("x")]), journal=journal)
        for name in "abc":  # other batches of the same turn, before and after
            calls = [call("give", {"n": number}, f"{name}{number}") for number in range(3)]
            await executor.execute_parallel([*calls, call("nobody", {}, f"{name}9")], ToolContext("s1", turn_id="t1"))
        found = [await find(journal, f"b{number}") for number in (0, 2, 9)]

    assert [get_ids(batch) for batch in found] == [["b0", "b1", "b2", "b9"]] * 3
    assert all(batch.is_complete for batch in found)


async def test_calls_of_other_turns_do_not_belong_to_a_batch() -> None:
    journal = Journal.memory()
    executor = Executor(ToolRegistry([giving("x")]), journal=journal)
    for turn in (None, "t1"):
        await executor.execute_parallel([call("give", {}, f"c{turn}")], ToolContext("s1", turn_id=turn))

    assert get_ids(await find(journal, "cNone")) == ["cNone"]


async def test_running_calls_of_the_batch_come_last_without_a_timing() -> None:
    store, may_end = WatchedStore(), anyio.Event()
    journal = store.journal

    async def wait(_args: object, _ctx: object, _meta: object) -> str:
        await may_end.wait()
        return "waited"

    executor = Executor(ToolRegistry([giving("x"), make("wait", wait)]), journal=journal)
    calls = [call("wait", {}, "c1"), call("give", {}, "c2")]
    batch: list[FoundBatch] = []
    async with anyio.create_task_group() as group:
        group.start_soon(executor.execute_parallel, calls, ToolContext("s1"))
        with anyio.fail_after(30):
            await store.wait_for(1)
        batch.append(await find(journal, "c2"))
        may_end.set()

    assert [(member.entry.tool_call_id, member.timing is None) for member in batch[0].members] == [
        ("c2", False),
        ("c1", True),
    ]


async def test_a_call_without_a_timing_is_alone() -> None:
    journal = Journal.memory()
    intent = Intent(tool_call_id="c1", tool="t", checksum="c", idempotency_key="k", args={}, started_at=NOON)
    await journal.begin([intent])
    await journal.finish([FinishedCall(idempotency_key="k", ended_at=NOON, result={"value": "x"})])

    batch = await find(journal, "c1")

    assert (get_ids(batch), batch.is_complete, batch.members[0].timing) == (["c1"], True, None)
