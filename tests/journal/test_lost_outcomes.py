"""Outcomes that could not be written, over every backend: their calls are interrupted, not running for ever."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from spindle import Journal, Ok, ToolContext
from spindle.errors import JournalError
from spindle.journal import FinishedCall
from tests.execution.calling import call, counting, err, execute, make, ok
from tests.journal.conftest import Place
from tests.journal.sample_calls import finished, intent, states

pytestmark = pytest.mark.anyio


class BrokenDisk:
    """A store that cannot write outcomes until it is repaired; everything else reaches the real one."""

    def __init__(self, store: Any, *, hides: Sequence[str] = ()) -> None:
        self._store = store
        self._hides = hides
        self.is_broken = True

    def __getattr__(self, name: str) -> Any:
        if name in self._hides:
            raise AttributeError(name)
        return getattr(self._store, name)

    async def finish(self, outcomes: Sequence[Any]) -> list[bool]:
        if self.is_broken:
            raise JournalError("the disk is full")
        return await self._store.finish(outcomes)


def break_disk(place: Place, *, hides: Sequence[str] = ()) -> tuple[Journal, BrokenDisk]:
    disk = BrokenDisk(cast("Any", place.journal())._store, hides=hides)
    return Journal(cast("Any", disk)), disk


async def test_a_call_whose_outcome_was_lost_is_interrupted_in_the_same_process(place: Place) -> None:
    journal, disk = break_disk(place)
    async with journal:
        await journal.begin([intent("a"), intent("b")])
        with pytest.raises(JournalError):
            await journal.finish([finished("a")])
        disk.is_broken = False

        [entry] = await journal.begin([intent("a")])
        listed, lost = await journal.list(), await journal.interrupted()
        found = await journal.find(intent("a").idempotency_key)

    assert entry is not None
    assert found == entry
    assert entry.state == "interrupted"
    assert states(listed) == [("b", "started"), ("a", "interrupted")]
    assert states(lost) == [("a", "interrupted")]


async def test_another_journal_of_the_process_reads_it_as_interrupted_too(place: Place) -> None:
    journal, disk = break_disk(place)
    async with journal, place.journal() as other:
        await journal.begin([intent("a")])
        with pytest.raises(JournalError):
            await journal.finish([finished("a")])
        disk.is_broken = False
        [entry] = await other.begin([intent("a")])

    assert entry is not None
    assert entry.state == "interrupted"


async def test_an_outcome_that_is_written_at_the_second_attempt_is_kept(place: Place) -> None:
    journal, disk = break_disk(place)
    async with journal:
        await journal.begin([intent("a"), intent("b")])
        with pytest.raises(JournalError):
            await journal.finish([finished("a"), finished("b")])
        disk.is_broken = False
        await journal.finish([finished("a")])
        before = await journal.list()
        await journal.finish([finished("b")])
        after = await journal.list()

    assert states(before) == [("b", "interrupted"), ("a", "finished")]
    assert states(after) == [("b", "finished"), ("a", "finished")]


async def test_a_lost_call_that_runs_again_is_running(place: Place) -> None:
    journal, disk = break_disk(place)
    async with journal:
        await journal.begin([intent("a")])
        with pytest.raises(JournalError):
            await journal.finish([finished("a")])
        disk.is_broken = False
        assert await journal.begin([intent("a", repeat=True)]) == [None]
        running = await journal.list()
        await journal.finish([finished("a")])
        ended = await journal.list()

    assert states(running) == [("a", "started")]
    assert states(ended) == [("a", "finished")]


async def test_a_lost_call_is_interrupted_after_a_restart(place: Place) -> None:
    journal, _ = break_disk(place)
    async with journal:
        await journal.begin([intent("a")])
        with pytest.raises(JournalError):
            await journal.finish([finished("a")])
    async with place.restarted() as journal:
        assert states(await journal.interrupted()) == [("a", "interrupted")]


async def test_a_store_that_cannot_mark_calls_shows_them_as_interrupted(place: Place) -> None:
    journal, disk = break_disk(place, hides=("interrupt", "lost_calls"))
    async with journal:
        await journal.begin([intent("a")])
        with pytest.raises(JournalError):
            await journal.finish([finished("a")])
        disk.is_broken = False
        [entry] = await journal.begin([intent("a")])
        listed = await journal.list()
        assert await journal.begin([intent("a", repeat=True)]) == [None]
        running = await journal.list()

    assert entry is not None
    assert entry.state == "interrupted"
    assert (states(listed), states(running)) == ([("a", "interrupted")], [("a", "started")])


async def test_an_outcome_that_cannot_be_stored_leaves_its_call_interrupted(place: Place) -> None:
    async with place.journal() as journal:
        await journal.begin([intent("a")])
        not_json = cast("Any", {"value": object()})
        outcome = finished("a")
        with pytest.raises(Exception, match="not JSON"):
            await journal.finish(
                [FinishedCall(idempotency_key=outcome.idempotency_key, ended_at=outcome.ended_at, result=not_json)]
            )
        assert states(await journal.interrupted()) == [("a", "interrupted")]


def build_reconcile(found: Any) -> Callable[..., Any]:
    async def reconcile(_key: str, _ctx: ToolContext) -> Any:
        return found

    return reconcile


async def test_a_call_whose_outcome_was_lost_is_reconciled_as_after_a_crash(place: Place) -> None:
    journal, disk = break_disk(place)
    plain, runs = counting()
    again, repeated = counting("again", idempotent=True)

    async def pay(_args: Any, _ctx: Any, _meta: Any) -> str:
        return "paid"

    known = make("pay", pay, reconcile=build_reconcile(Ok("paid before")))
    tools = [plain, again, known]
    calls = [call("count", {}, "c1"), call("again", {}, "c2"), call("pay", {}, "c3")]
    async with journal:
        first = await execute(tools, calls, journal=journal)
        disk.is_broken = False
        second = await execute(tools, calls, journal=journal)
        third = await execute(tools, calls, journal=journal)
        entries = {entry.tool_call_id: entry.state for entry in await journal.list()}

    assert [ok(each).value for each in first] == ["ran", "ran", "paid"]
    for outcomes in (second, third):
        assert err(outcomes[0]).code == "interrupted"
        assert [ok(each).value for each in outcomes[1:]] == ["ran", "paid before"]
    assert (len(runs), len(repeated)) == (1, 2)
    assert entries == {"c1": "interrupted", "c2": "finished", "c3": "finished"}
