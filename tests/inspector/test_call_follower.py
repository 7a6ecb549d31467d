"""The counts of a journal: old calls, new ones, and those that end later."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from spindle import Journal
from spindle.errors import JournalError
from spindle.inspector import call_follower
from spindle.inspector.activity import build_activity
from spindle.inspector.call_follower import JournalCounter
from spindle.inspector.call_stats import CallStats
from spindle.journal import FinishedCall, Intent

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
OpenJournal = Callable[[], Journal]


@pytest.fixture(params=["memory", "sqlite"])
def open_journal(request: pytest.FixtureRequest, tmp_path: Path) -> OpenJournal:
    if request.param == "memory":
        journal = Journal.memory()
        return lambda: journal
    return lambda: Journal.sqlite(tmp_path / "journal.db")


class MovingClock:
    def __init__(self) -> None:
        self.now = NOW.timestamp()

    def __call__(self) -> float:
        return self.now


def intent(key: str, tool: str = "search", *, ago: timedelta = timedelta(), repeat: bool = False) -> Intent:
    return Intent(
        tool_call_id=key,
        tool=tool,
        checksum="0",
        idempotency_key=key,
        args={},
        started_at=NOW - ago,
        repeat=repeat,
    )


def outcome(key: str, *, ago: timedelta = timedelta(), code: str | None = None, chars: int = 10) -> FinishedCall:
    ended = NOW - ago + timedelta(milliseconds=100)
    return FinishedCall(idempotency_key=key, ended_at=ended, code=code, result_chars=chars, cost_usd=0.25)


async def write(journal: Journal, *intents: Intent, code: str | None = None) -> None:
    await journal.begin(intents)
    await journal.finish([outcome(each.idempotency_key, ago=NOW - each.started_at, code=code) for each in intents])


async def read(follower: JournalCounter, clock: MovingClock) -> None:
    clock.now += call_follower.POLL_SECONDS
    with anyio.fail_after(30):
        await follower.read_all()


async def test_old_new_and_late_calls_are_counted_once(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_follower, "STEP_CALLS", 7)
    clock = MovingClock()
    async with open_journal() as journal:
        await write(journal, intent("ancient", ago=timedelta(days=9)))
        await write(journal, *(intent(f"old {n}", ago=timedelta(hours=30 - n)) for n in range(25)))
        await journal.begin([intent("late"), intent("later", "fetch")])
        follower = JournalCounter(journal, CallStats(), clock=clock)
        await read(follower, clock)
        before = await build_activity(follower, "7d", clock)

        await journal.finish([outcome("late", code="timeout")])
        await write(journal, *(intent(f"new {n}") for n in range(30)))
        await read(follower, clock)
        after = await build_activity(follower, "7d", clock)
        await read(follower, clock)
        await read(follower, clock)
        again = await build_activity(follower, "7d", clock)

    assert (before.total.calls, before.total.running, before.total.errors) == (27, 2, 0)
    assert before.progress.is_complete
    assert (after.total.calls, after.total.running, after.total.errors) == (57, 1, 1)
    assert (after.total.result_chars, after.total.cost_usd) == (56 * 10, 56 * 0.25)
    assert [(row.tool, row.code, row.count) for row in after.errors] == [("search", "timeout", 1)]
    assert again == after
    assert sum(point.calls for point in after.points) == 57


async def test_calls_of_other_processes_count(tmp_path: Path) -> None:
    clock = MovingClock()
    async with Journal.sqlite(tmp_path / "journal.db") as ours, Journal.sqlite(tmp_path / "journal.db") as theirs:
        follower = JournalCounter(ours, CallStats(), clock=clock)
        await read(follower, clock)
        await theirs.begin([intent("theirs")])
        await read(follower, clock)
        running = await build_activity(follower, "1h", clock)
        await theirs.finish([outcome("theirs")])
        await read(follower, clock)
        ended = await build_activity(follower, "1h", clock)

    assert (running.total.calls, running.total.running) == (1, 1)
    assert (ended.total.calls, ended.total.running, ended.total.max_ms) == (1, 0, 100)


async def test_a_call_that_is_begun_again_is_another_one(open_journal: OpenJournal) -> None:
    clock = MovingClock()
    async with open_journal() as journal:
        await journal.begin([intent("one")])
        follower = JournalCounter(journal, CallStats(), clock=clock)
        await read(follower, clock)
        await journal.begin([intent("one", repeat=True)])
        await journal.finish([outcome("one")])
        await read(follower, clock)
        found = await build_activity(follower, "1h", clock)

    assert (found.total.calls, found.total.running, found.total.interrupted, found.total.errors) == (2, 0, 1, 0)


async def test_recent_calls_are_known_before_the_journal_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_follower, "STEP_CALLS", 5)
    clock, reached, go_on = MovingClock(), anyio.Event(), anyio.Event()
    async with Journal.memory() as journal:
        await write(journal, *(intent(f"old {n}", ago=timedelta(hours=80 - n)) for n in range(60)))
        await write(journal, *(intent(f"new {n}") for n in range(5)))
        search = journal.search

        async def slow(*args: object, **options: object) -> object:
            if options.get("cursor") is not None:
                reached.set()
                await go_on.wait()
            return await search(*args, **options)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(journal, "search", slow)
        follower = JournalCounter(journal, CallStats(), clock=clock)
        with anyio.fail_after(30):
            await follower.update()
            await reached.wait()
            hour, week = await build_activity(follower, "1h", clock), await build_activity(follower, "7d", clock)
            go_on.set()
            while not follower.get_progress().is_complete:
                await follower.update()
        complete = await build_activity(follower, "7d", clock)

    assert (hour.total.calls, week.total.calls, week.progress.is_complete) == (5, 5, False)
    assert (complete.total.calls, complete.progress.is_complete, complete.progress.calls) == (65, True, 65)


async def test_a_journal_that_cannot_be_read_is_a_problem_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovingClock()
    async with Journal.memory() as journal:
        await write(journal, intent("one"))
        search = journal.search

        async def fail(*_args: object, **_options: object) -> None:
            raise JournalError("the disk is gone")

        follower = JournalCounter(journal, CallStats(), clock=clock)
        monkeypatch.setattr(journal, "search", fail)
        await read(follower, clock)
        broken = follower.get_progress()
        monkeypatch.setattr(journal, "search", search)
        await read(follower, clock)

    assert (broken.problem, broken.is_current) == ("the disk is gone", False)
    assert (follower.get_progress().problem, follower.get_progress().calls) == (None, 1)


async def test_running_calls_that_are_followed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_follower, "MAX_RUNNING", 3)
    clock = MovingClock()
    async with Journal.memory() as journal:
        await journal.begin([intent(f"call {n}") for n in range(10)])
        follower = JournalCounter(journal, CallStats(), clock=clock)
        await read(follower, clock)
        await journal.finish([outcome(f"call {n}") for n in range(10)])
        await read(follower, clock)
        found = await build_activity(follower, "1h", clock)
    assert (found.total.calls, found.total.running) == (10, 7)
