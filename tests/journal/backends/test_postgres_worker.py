"""Lost connections: no outcome is lost, and no call runs twice."""

import asyncio
import signal
import struct

import anyio
import pytest
from anyio.to_thread import run_sync

from spindle.errors import JournalError
from spindle.journal.backends import postgres_worker
from spindle.journal.backends.postgres import PostgresJournalStore
from spindle.journal.journal import Journal
from tests.journal.backends.meddling_line import KEY_DATA, meddling_line
from tests.journal.postgres_fixtures import execute
from tests.journal.postgres_server import Server
from tests.journal.sample_calls import finished, intent, states

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def at_once(dsn: str) -> Journal:
    """A journal that takes others for gone as soon as they are."""
    return Journal(PostgresJournalStore(dsn, grace_seconds=0))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["in good order", "like a power cut"])
async def test_a_restart_of_the_server_interrupts_no_call_of_a_living_process(
    postgres: Server, postgres_dsn: str, how: signal.Signals
) -> None:
    other_dsn = f"{postgres_dsn}&application_name=other"  # another dsn, so another connection and another run
    with anyio.fail_after(60):
        async with Journal.postgres(postgres_dsn) as one, Journal.postgres(other_dsn) as other:
            await one.begin([intent("a")])
            await other.begin([intent("b")])
            await run_sync(postgres.stop, how)
            await run_sync(postgres.start)

            assert states(await one.list()) == states(await other.list()) == [("b", "started"), ("a", "started")]
            await one.finish([finished("a")])
            assert await other.begin([intent("a"), intent("b"), intent("c")]) != [None, None, None]
            await other.finish([finished("b"), finished("c")])
            assert {state for _, state in states(await one.list())} == {"finished"}


async def test_operations_during_a_restart_complete_after_it(postgres: Server, postgres_dsn: str) -> None:
    answers: list[object] = []

    async def begin(journal: Journal) -> None:
        answers.append(await journal.begin([intent("b")]))

    with anyio.fail_after(60):
        async with Journal.postgres(postgres_dsn) as journal:
            await journal.begin([intent("a")])
            await run_sync(postgres.stop)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(begin, journal)
                tasks.start_soon(journal.finish, [finished("a")])
                await run_sync(postgres.start)

            assert answers == [[None]]
            assert states(await journal.list()) == [("b", "started"), ("a", "finished")]


async def test_begin_fails_while_the_server_is_down(
    postgres: Server, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_worker, "RECONNECT_SECONDS", 0.1)
    with anyio.fail_after(60):
        async with Journal.postgres(postgres_dsn) as journal:
            await journal.begin([intent("a")])
            await run_sync(postgres.stop)
            try:
                with pytest.raises(JournalError) as caught:
                    await journal.begin([intent("b")])
            finally:
                await run_sync(postgres.start)

            assert isinstance(caught.value.__cause__, OSError)
            assert states(await journal.list()) == [("a", "started")]


async def test_a_call_whose_begin_was_written_but_not_answered_is_begun_once(postgres_dsn: str) -> None:
    with anyio.fail_after(30), meddling_line(postgres_dsn) as (line, dsn):
        async with at_once(dsn) as journal:
            for repeat in (False, True):
                line.lose_answer_to = b"COMMIT;"
                assert await journal.begin([intent("a", repeat=repeat), intent("b", repeat=repeat)]) == [None, None]
                assert line.lose_answer_to is None
            entry = await journal.get("a")
            line.lose_answer_to = b"COMMIT;"
            await journal.finish([finished("a"), finished("b")])
            listed = await journal.list()

    assert line.connections == 4
    assert entry is not None
    assert (entry.state, entry.attempts) == ("started", 2)
    assert states(listed) == [("b", "finished"), ("a", "finished")]


async def test_a_begin_that_was_written_but_never_answered_ends_as_cancelled(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_worker, "RECONNECT_SECONDS", 0.1)

    with anyio.fail_after(30), meddling_line(postgres_dsn) as (line, dsn):
        async with at_once(dsn) as journal:
            line.lose_answer_to, line.goes_down_then = b"COMMIT;", True
            with pytest.raises(JournalError):
                await journal.begin([intent("a")])
            written = await run_sync(asyncio.run, execute(postgres_dsn, "SELECT state FROM spindle_calls"))
            line.is_down = False
            listed = await journal.list()

    assert written == [("started",)]
    assert [(entry.state, entry.code, entry.attempts) for entry in listed] == [("finished", "cancelled", 0)]


async def test_reconnect_ends_the_previous_connection_of_the_run(postgres_dsn: str) -> None:
    with anyio.fail_after(30), meddling_line(postgres_dsn) as (line, dsn):
        async with at_once(dsn) as journal, at_once(postgres_dsn) as other:
            await journal.begin([intent("a")])
            line.sever_client()
            await journal.begin([intent("b")])

            assert states(await other.list()) == [("b", "started"), ("a", "started")]
            await journal.finish([finished("a"), finished("b")])


def another_number(said: bytes) -> bytes:
    """Name another process of the server, as a pooler does."""
    head, found, tail = said.partition(KEY_DATA)
    return head + found + struct.pack("!i", 1) + tail[4:] if found else said


async def test_a_pooler_is_refused(postgres_dsn: str) -> None:
    with anyio.fail_after(30), meddling_line(postgres_dsn) as (line, dsn):
        line.rewrite = another_number
        with pytest.raises(JournalError):
            async with at_once(dsn):
                pass
