"""The API tells where the time of the calls of a batch went."""

import pytest
from starlette.requests import Request

from spindle import Budget, Executor, Journal, Spool, ToolContext, ToolRegistry
from spindle.errors import UnknownItemError
from spindle.inspector.api.batches import BatchDetail, BatchParams, read_batch
from spindle.inspector.endpoints import ApiRequest, NoInput, PageUser
from spindle.inspector.workbench import Workbench
from tests.execution.calling import call, giving

pytestmark = pytest.mark.anyio


async def ask(executor: Executor, journal: Journal, key: str) -> BatchDetail:
    bench = Workbench(registry=ToolRegistry([]), executor=executor, journal=journal, spool=Spool.memory())
    user = PageUser(session="s", role="viewer", by="ada")
    http = Request({"type": "http", "method": "GET", "path": "/", "headers": []})
    return await read_batch(ApiRequest(bench=bench, user=user, params=BatchParams(key=key), body=NoInput(), http=http))


async def test_the_batch_of_a_call_is_described_with_spans_and_budget() -> None:
    journal = Journal.memory()
    executor = Executor(ToolRegistry([giving("x" * 300), giving("y", "short")]), journal=journal, budget=Budget(200))
    await executor.execute_parallel([call("give"), call("short", {}, "c2")], ToolContext("s1"))
    entry = await journal.get("c2")
    assert entry is not None

    batch = await ask(executor, journal, entry.idempotency_key)

    assert batch.batch_id is not None
    assert (batch.call_count, batch.is_complete) == (2, True)
    long, short = batch.calls
    assert (long.tool, long.position, long.is_truncated, long.is_spooled) == ("give", 0, True, True)
    assert (short.share_chars, short.used_chars) == (100, 1)
    assert batch.duration_ms is not None
    assert all(0 <= span.start_ms < span.end_ms for each in batch.calls for span in each.spans)
    assert BatchDetail.model_validate_json(batch.model_dump_json()) == batch


async def test_an_unknown_call_is_refused() -> None:
    journal = Journal.memory()

    with pytest.raises(UnknownItemError):
        await ask(Executor(ToolRegistry([]), journal=journal), journal, "nobody")
