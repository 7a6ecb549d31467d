"""The thread that owns a database: it takes turns, ends when nobody needs it, and tells everyone who waits."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

import anyio
import pytest

from spindle.errors import JournalError
from spindle.journal.backends.sqlite_database import Database, connect, create
from spindle.journal.backends.sqlite_recovery import open_database
from spindle.journal.backends.sqlite_writer import SqliteTicket, SqliteWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
def writer(tmp_path: Path) -> SqliteWriter:
    return SqliteWriter(lambda: open_database(tmp_path / "journal.db", "run", "raise"))


async def done(*tickets: SqliteTicket[int, int]) -> None:
    with anyio.fail_after(30):
        for ticket in tickets:
            await ticket.done.wait()


def doubled(_: Database, numbers: Sequence[int]) -> list[int]:
    return [2 * number for number in numbers]


async def test_tickets_are_done_in_the_order_they_came(writer: SqliteWriter) -> None:
    seen: list[int] = []

    def note(_: Database, numbers: Sequence[int]) -> list[int]:
        seen.extend(numbers)
        return []

    tickets = [SqliteTicket(note, [number]) for number in range(600)]
    assert all(writer.submit(ticket) for ticket in tickets)
    await done(*tickets)
    writer.remove_user()

    assert seen == list(range(600))


async def test_a_ticket_that_fails_costs_no_other(writer: SqliteWriter) -> None:
    def fail(_: Database, numbers: Sequence[int]) -> list[int]:
        raise ZeroDivisionError(numbers)

    tickets = [SqliteTicket(fail if number == 5 else doubled, [number]) for number in range(10)]
    for ticket in tickets:
        writer.submit(ticket)
    await done(*tickets)
    writer.remove_user()

    assert [ticket.answers for ticket in tickets if ticket.error is None] == [[2 * n] for n in range(10) if n != 5]
    assert isinstance(tickets[5].error, ZeroDivisionError)


async def test_when_the_file_cannot_be_opened_everyone_is_told_and_nobody_waits_for_ever() -> None:
    go = Event()

    def refuse() -> Database:
        go.wait(30)
        raise JournalError("no")

    writer = SqliteWriter(refuse)
    tickets = [SqliteTicket(doubled, [number]) for number in range(10)]
    for ticket in tickets:
        assert writer.submit(ticket)
    go.set()
    await done(*tickets)

    assert [type(ticket.error) for ticket in tickets] == [JournalError] * 10
    assert not writer.submit(SqliteTicket(doubled, [1]))
    assert not writer.add_user()
    farewell = SqliteTicket(doubled, [])
    writer.remove_user(farewell)
    await done(farewell)


async def test_the_last_to_leave_waits_for_all_that_was_asked(writer: SqliteWriter) -> None:
    assert writer.add_user()
    first, tickets, last = (
        SqliteTicket(doubled, []),
        [SqliteTicket(doubled, [n]) for n in range(300)],
        SqliteTicket(doubled, []),
    )
    for ticket in tickets:
        writer.submit(ticket)
    writer.remove_user(first)
    assert writer.submit(SqliteTicket(doubled, [1]))
    writer.remove_user(last)
    assert not writer.submit(SqliteTicket(doubled, [1]))
    await done(last)

    assert [ticket.answers for ticket in tickets] == [[2 * number] for number in range(300)]
    await done(first)


async def test_who_leaves_before_asking_anything_waits_for_nothing(writer: SqliteWriter) -> None:
    farewell = SqliteTicket(doubled, [])
    writer.remove_user(farewell)

    await done(farewell)
    writer.join()


async def test_a_ticket_can_be_taken_back_until_its_turn_comes(writer: SqliteWriter) -> None:
    hold, held = Event(), Event()

    def wait(_: Database, numbers: Sequence[int]) -> list[int]:
        held.set()
        hold.wait(30)
        return list(numbers)

    running, waiting = SqliteTicket(wait, [1]), SqliteTicket(doubled, [2])
    writer.submit(running)
    assert held.wait(30)
    writer.submit(waiting)

    assert writer.withdraw(waiting)
    assert not writer.withdraw(waiting)
    assert not writer.withdraw(running)
    hold.set()
    await done(running)
    writer.remove_user()
    assert waiting.answers == []


def test_a_loop_that_has_ended_does_not_trouble_the_thread(writer: SqliteWriter) -> None:
    hold = Event()

    def wait(_: Database, numbers: Sequence[int]) -> list[int]:
        hold.wait(30)
        return list(numbers)

    async def ask_and_go() -> None:
        writer.submit(SqliteTicket(wait, [1]))

    async def ask() -> list[int]:
        ticket = SqliteTicket(doubled, [2])
        writer.submit(ticket)
        await done(ticket)
        return ticket.answers

    for backend in ("asyncio", "trio"):
        hold.clear()
        thread = Thread(target=anyio.run, args=(ask_and_go,), kwargs={"backend": backend})
        thread.start()
        thread.join(30)
        hold.set()
        assert anyio.run(ask, backend=backend) == [4]
    writer.end(timeout_seconds=5)


async def test_only_what_must_survive_lost_power_waits_for_the_disk(tmp_path: Path) -> None:
    create(tmp_path / "journal.db")
    opened: list[sqlite3.Connection] = []

    def open_here() -> Database:
        opened.append(connect(tmp_path / "journal.db"))
        return Database(opened[0], run_id="run", on_close=lambda: None)

    def synced(_: Database, numbers: Sequence[int]) -> list[int]:
        return [opened[0].execute("PRAGMA synchronous").fetchone()[0] for _ in numbers]

    writer = SqliteWriter(open_here)
    seen: list[int] = []
    for must in (False, True, True, False):
        ticket = SqliteTicket(synced, [1], is_synced=must)
        writer.submit(ticket)
        await done(ticket)
        seen += ticket.answers
    writer.remove_user()

    normal, full = 1, 2
    assert seen == [normal, full, full, normal]
