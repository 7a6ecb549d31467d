"""What only a journal in PostgreSQL does; what every journal does is in the port suite."""

import asyncio
import gc
import sys

import anyio
import pytest
from anyio.to_thread import run_sync
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle import Call, Executor, ToolContext, ToolRegistry, tool
from spindle.errors import JournalError, MissingExtraError
from spindle.journal.backends.memory import MemoryJournalStore
from spindle.journal.backends.postgres import PostgresJournalStore
from spindle.journal.backends.postgres_worker import end_all
from spindle.journal.journal import Journal
from tests.journal.backends.test_memory import act
from tests.journal.postgres_fixtures import execute
from tests.journal.postgres_server import PASSWORD, Server
from tests.journal.sample_calls import finished, intent, states

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'spindle journal'"
STEPS = ["begin", "repeat", "finish", "unrun", "note", "restart"]


async def all_gone(dsn: str) -> None:
    """Wait until the server has no session of a journal; it does not announce when it has noticed."""
    with anyio.fail_after(30):
        while await run_sync(asyncio.run, execute(dsn, SESSIONS)):
            gc.collect()
            await anyio.sleep(0.01)


@pytest.fixture
def without_asyncpg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("spindle.journal.backends.PostgresJournalStore", raising=False)  # kept by the lazy door
    for name in [name for name in sys.modules if name.startswith("spindle.journal.backends.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)


@pytest.mark.usefixtures("without_asyncpg")
def test_missing_extra_is_reported() -> None:
    with pytest.raises(MissingExtraError) as caught:
        Journal.postgres("postgresql://ada:secret@host/db")

    assert ".[postgres]" in str(caught.value)


@pytest.mark.anyio
async def test_unreachable_server_is_named_in_the_error() -> None:
    journal = Journal.postgres("postgresql://ada:secret@127.0.0.1:1/calls")
    with pytest.raises(JournalError) as caught:
        await journal.begin([intent("a")])
    with pytest.raises(JournalError):
        await journal.list()
    await journal.aclose()

    assert "127.0.0.1:1/calls" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    "wrong",
    [
        {"password": "wr@ng one"},
        {"database": "no_such_database"},
        {"schema": "no_such_schema"},
        {"schema": "public&no_such_setting=1"},
        {"schema": "public&sslmode=no-such-mode"},
        {"schema": "public&sslmode=require"},
    ],
    ids=["password", "database", "schema", "setting", "mode", "tls"],
)
async def test_open_error_names_the_address_without_the_password(postgres: Server, wrong: dict[str, str]) -> None:
    with pytest.raises(JournalError) as caught:
        async with Journal.postgres(postgres.dsn(**wrong)):
            pass

    assert f"127.0.0.1:{postgres.port}/" in str(caught.value)
    assert not any(word in str(caught.value) for word in (PASSWORD, "wr@ng", "wr%40ng"))


@pytest.mark.slow
@pytest.mark.anyio
async def test_value_out_of_range_fails_only_its_own_call(postgres_dsn: str) -> None:
    failures: list[JournalError] = []

    async def finish(journal: Journal, name: str, result_chars: int) -> None:
        try:
            await journal.finish([finished(name, result_chars=result_chars)])
        except JournalError as error:
            failures.append(error)

    async with Journal.postgres(postgres_dsn) as journal:
        await journal.begin([intent("a"), intent("b"), intent("c")])
        async with anyio.create_task_group() as tasks:
            for name, result_chars in (("a", 1), ("b", 2**70), ("c", 1)):
                tasks.start_soon(finish, journal, name, result_chars)
        listed = await journal.list()

    assert len(failures) == 1
    assert states(listed) == [("c", "finished"), ("b", "interrupted"), ("a", "finished")]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_batch_with_one_key_many_times_is_answered_in_its_order(postgres_dsn: str) -> None:
    batch = [intent("a"), intent("b"), intent("a"), intent("a", repeat=True), intent("a"), intent("a", repeat=True)]
    async with Journal.postgres(postgres_dsn) as journal, Journal.memory() as memory:
        for _ in range(2):
            assert await journal.begin(batch) == await memory.begin(batch)
            assert await journal.list() == await memory.list()


@pytest.mark.slow
@pytest.mark.anyio
async def test_journals_of_one_dsn_share_a_connection_and_the_last_one_closes_it(postgres_dsn: str) -> None:
    async with Journal.postgres(postgres_dsn) as one, Journal.postgres(postgres_dsn) as other:
        await one.begin([intent("a")])
        await other.finish([finished("a")])
        shared = await run_sync(asyncio.run, execute(postgres_dsn, SESSIONS))
    await all_gone(postgres_dsn)

    assert len(shared) == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_garbage_collected_journal_closes_its_connection(postgres_dsn: str) -> None:
    journal = Journal.postgres(postgres_dsn)
    await journal.list()
    del journal
    await all_gone(postgres_dsn)


@pytest.mark.slow
@pytest.mark.anyio
async def test_executor_answers_a_call_of_another_run_from_the_journal(postgres_dsn: str) -> None:
    paid: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        return f"paid {amount}"

    turn = ToolContext("session", turn_id="turn")
    for _ in range(2):
        async with Journal.postgres(postgres_dsn) as journal:
            executor = Executor(ToolRegistry([pay]), journal=journal)
            [outcome] = await executor.execute_parallel([Call("call_1", "pay", {"amount": 5})], turn)
            assert outcome.ok
        end_all()

    assert paid == [5]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from("abc")), max_size=25))
def test_memory_and_postgres_give_the_same_answers(steps: list[tuple[str, str]], postgres_dsn: str) -> None:
    async def report() -> None:
        memory = MemoryJournalStore()
        journals = [Journal(memory), Journal(PostgresJournalStore(postgres_dsn, grace_seconds=0))]
        for step, name in steps:
            if step == "restart":
                memory.mark_process_lost()
                end_all()
                journals[1] = Journal(PostgresJournalStore(postgres_dsn, grace_seconds=0))
            reported = [await act(journal, step, name) for journal in journals]
            assert reported[0] == reported[1]
            assert await journals[0].list() == await journals[1].list()
        await journals[1].aclose()
        end_all()

    asyncio.run(report())
    asyncio.run(execute(postgres_dsn, "DROP TABLE IF EXISTS spindle_calls, spindle_states, spindle_journal"))
