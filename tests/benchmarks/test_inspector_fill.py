"""The calls that the benchmarks of the page are measured with are like those of an executor."""

from pathlib import Path

import pytest

from benchmarks.inspector.fill import RARE_TOOL, build_calls, fill
from spindle import Journal
from spindle.execution import CallTiming
from spindle.journal import CallQuery

pytestmark = pytest.mark.anyio


async def test_a_filled_journal_has_finished_calls_with_timings(tmp_path: Path) -> None:
    await fill(tmp_path / "journal.sqlite", 60)

    async with Journal.sqlite(tmp_path / "journal.sqlite") as journal:
        entries = await journal.list()
        rare = await journal.search(CallQuery(tool=RARE_TOOL))
    assert len(entries) == 60
    assert {entry.state for entry in entries} == {"finished"}
    assert any(entry.code for entry in entries)
    assert all(CallTiming.read(entry) is not None for entry in entries)
    assert len(rare.calls) == 1


def test_the_same_calls_are_built_each_time() -> None:
    first, second = ([intent.idempotency_key for intent, _ in build_calls(20)] for _ in range(2))

    assert first == second
