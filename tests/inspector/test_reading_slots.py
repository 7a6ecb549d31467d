"""Readers of the page cannot take all threads and processes from the calls of clients, or from each other."""

from typing import Any

import anyio
import pytest

from spindle.artifacts import TableArtifact
from spindle.artifacts.backends import SqlAnswer
from spindle.inspector.reading_slots import MAX_WAITING
from tests.inspector.benching import TOKEN, Bench, PageClient

pytestmark = pytest.mark.anyio


async def test_queries_of_one_profile_run_one_by_one_and_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(roles={"reader": "viewer"})
    running, most, statuses = 0, 0, list[int]()
    asked, go_on = anyio.Event(), anyio.Event()

    async def hold(_self: TableArtifact, sql: str, *, max_rows: int) -> SqlAnswer:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if "other" in sql:
            asked.set()
        await go_on.wait()
        running -= 1
        return SqlAnswer(columns=(), rows=(), is_cut=False)

    async def allow(*_args: Any) -> bool:
        return True

    monkeypatch.setattr(TableArtifact, "sql", hold)
    monkeypatch.setattr("spindle.inspector.api.artifact_formats.may_see_artifact", allow)
    await bench.bench.spool.write("t", b"a,b\n1,2\n", turn_id="t")

    async def ask(client: PageClient, sql: str) -> None:
        headers = client.headers or {"Authorization": f"Bearer {TOKEN}"}
        answer = await client.http.get("/api/v1/artifacts/table", params={"id": "t", "sql": sql}, headers=headers)
        statuses.append(answer.status_code)
        if len(statuses) == 5:  # those that did not fit
            other.start_soon(ask, reader, "other")

    server = bench.build_server()
    with anyio.fail_after(30):
        async with (
            bench.log_in(server) as owner,
            bench.connect(server) as reader,
            anyio.create_task_group() as other,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(MAX_WAITING + 5):
                tasks.start_soon(ask, owner, "SELECT 1")
            await asked.wait()
            assert most == 2
            go_on.set()

    assert statuses[:5] == [409] * 5
    assert statuses[5:] == [200] * (MAX_WAITING + 1)
    assert most == 2
