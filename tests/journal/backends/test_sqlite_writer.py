"""The thread that owns a SQLite database."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

import anyio
import pytest

from spindle.errors import JournalError
from spindle.journal.backends.sqlite_database import Database
from spindle.journal.backends.sqlite_locks import FileLock, RunLease
from spindle.journal.backends.sqlite_recovery import open_database
from spindle.journal.backends.sqlite_schema import connect, create
from spindle.journal.backends.sqlite_writer import SqliteTicket, SqliteWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
def writer(tmp_path: Path) -> SqliteWriter[Database]:
    return SqliteWriter(lambda: open_database(tmp_path / "journal.db", "raise"))


async def done(*tickets: SqliteTicket[Database, int, int]) -> None:
    with anyio.fail_after(30):
        for ticket in tickets:
            await ticket.done.wait()


def doubled(_: Database, numbers: Sequence[int]) -> list[int]:
    return [2 * number for number in numbers]


async def test_tickets_are_executed_in_order(writer: SqliteWriter[Database]) -> None:
    seen: list[int] = []

    def note(_: Database, numbers: Sequence[int]) -> list[int]:
        seen.extend(numbers)
        return []

    tickets = [SqliteTicket(note, [number]) for number in range(600)]
    assert all(writer.submit(ticket) for ticket in tickets)
    await done(*tickets)
    writer.remove_user()

    assert seen == list(range(600))


async def test_failing_ticket_does_not_fail_others(writer: SqliteWriter[Database]) -> None:
    def fail(_: Database, numbers: Sequence[int]) -> list[int]:
        raise ZeroDivisionError(numbers)

    tickets = [SqliteTicket(fail if number == 5 else doubled, [number]) for number in range(10)]
    for ticket in tickets:
        writer.submit(ticket)
    await done(*tickets)
    writer.remove_user()

    assert [ticket.answers for ticket in tickets if ticket.error is None] == [[2 * n] for n in range(10) if n != 5]
    assert isinstance(tickets[5].error, ZeroDivisionError)


async def test_error_of_opening_is_reported_to_every_caller() -> None:
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


async def test_last_close_waits_for_all_queued_tickets(writer: SqliteWriter[Database]) -> None:
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


async def test_close_before_the_first_ticket_returns_at_once(writer: SqliteWriter[Database]) -> None:
    farewell = SqliteTicket(doubled, [])
    writer.remove_user(farewell)

    await done(farewell)
    writer.join()


async def test_queued_ticket_can_be_withdrawn(writer: SqliteWriter[Database]) -> None:
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


def test_ticket_of_a_closed_event_loop_does_not_stop_the_thread(writer: SqliteWriter[Database]) -> None:
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


async def test_only_synced_tickets_wait_for_the_disk(tmp_path: Path) -> None:
    create(tmp_path / "journal.db")
    opened: list[sqlite3.Connection] = []

    def open_here() -> Database:
        opened.append(connect(tmp_path / "journal.db"))
        path = tmp_path / "journal.db"
        return Database(opened[0], FileLock(path), RunLease.acquire(path))

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
