"""What only the SQLite journal does: its file, its processes, its thread."""

import gc
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import anyio
import anyio.to_thread
import pytest

from spindle.errors import JournalError, UsageError
from spindle.journal.journal import Journal
from tests.journal.backends.programs import output_of
from tests.journal.sample_calls import finished, intent, states

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("wrong", ["", "nul\0byte", ":memory:", 5, None, b"bytes"])
def test_invalid_path_is_rejected(wrong: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Journal.sqlite(wrong)

    assert caught.value.field == "path"


def test_unknown_on_damage_is_rejected(path: Path) -> None:
    choice: Any = "overwrite"
    with pytest.raises(UsageError) as caught:
        Journal.sqlite(path, on_damage=choice)

    assert caught.value.field == "on_damage"


def test_constructor_creates_no_files(path: Path) -> None:
    Journal.sqlite(path)

    assert list(path.parent.iterdir()) == []


async def test_the_file_is_made_with_its_folder_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "journal.db"
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("a")])
        modes = {near.name.partition("run-")[0]: stat.S_IMODE(near.stat().st_mode) for near in path.parent.iterdir()}

    names = ["journal.db", "journal.db-wal", "journal.db-shm", "journal.db.lock", "journal.db."]
    assert modes == dict.fromkeys(names, 0o600)


async def test_each_commit_is_in_the_log_at_once(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("a")])
        with closing(sqlite3.connect(path)) as outside:
            assert outside.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert outside.execute("SELECT tool_call_id, state FROM calls").fetchall() == [("a", "started")]


async def test_closing_leaves_the_database_and_its_lock_file(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("a")])
        await journal.finish([finished("a")])

    assert sorted(near.name for near in path.parent.iterdir()) == ["journal.db", "journal.db.lock"]


async def test_an_empty_file_that_never_was_a_journal_becomes_one(tmp_path: Path) -> None:
    with NamedTemporaryFile(dir=tmp_path) as file:
        async with Journal.sqlite(file.name) as journal:
            assert await journal.begin([intent("a")]) == [None]


async def test_another_name_of_the_same_file_is_the_same_journal(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)

    async with Journal.sqlite(path) as one, Journal.sqlite(link) as other:
        await one.begin([intent("a")])
        assert states(await other.list()) == [("a", "started")]


async def test_last_user_of_a_shared_file_closes_it(path: Path) -> None:
    log = path.with_name("journal.db-wal")
    one, other = Journal.sqlite(path), Journal.sqlite(path)
    await one.begin([intent("a")])
    await other.begin([intent("b")])
    await one.aclose()
    assert log.exists()
    await other.begin([intent("c")])
    await other.aclose()

    assert not log.exists()


async def test_concurrent_opening_and_closing_never_locks_itself_out(path: Path) -> None:
    async def use(number: int) -> None:
        async with Journal.sqlite(path) as journal:
            await journal.begin([intent(f"{number}")])

    with anyio.fail_after(30):
        for start in range(0, 40, 8):
            async with anyio.create_task_group() as tasks:
                for number in range(start, start + 8):
                    tasks.start_soon(use, number)

    async with Journal.sqlite(path) as journal:
        assert len(await journal.list()) == 40


async def test_garbage_collected_journal_closes_its_file(path: Path) -> None:
    journal = Journal.sqlite(path)
    await journal.begin([intent("a")])
    ours = [thread for thread in threading.enumerate() if thread.name == "spindle-journal"]
    del journal
    gc.collect()

    for thread in ours:
        await anyio.to_thread.run_sync(thread.join, 5)
    assert not path.with_name("journal.db-wal").exists()


def test_loops_in_several_threads_share_one_file(path: Path) -> None:
    journal = Journal.sqlite(path)

    async def use(number: int) -> None:
        for step in range(10):
            name = f"{number}.{step}"
            assert await journal.begin([intent(name)]) == [None]
            await journal.finish([finished(name)])

    def run(number: int) -> None:
        anyio.run(use, number, backend=("asyncio", "trio")[number % 2])

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(run, range(6), timeout=30))

    assert len(anyio.run(listed_then_closed, journal)) == 60


async def listed_then_closed(journal: Journal) -> list[Any]:
    entries = await journal.list("finished", limit=None)
    await journal.aclose()
    return list(entries)


@pytest.mark.slow
async def test_event_loop_runs_while_the_journal_waits_for_its_file(path: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.sleep(0.001)

    async with Journal.sqlite(path) as journal:
        await journal.list()  # by now its thread runs
        with closing(sqlite3.connect(path, isolation_level=None)) as outside:
            outside.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tick)
                with anyio.move_on_after(1) as held:
                    await journal.begin([intent("a")])
                assert held.cancelled_caught
                outside.execute("ROLLBACK")
                with anyio.fail_after(30):
                    await journal.begin([intent("b")])
                tasks.cancel_scope.cancel()
        listed = await journal.list()

    assert ticks > 10
    # Its caller gave up while it was being written: it is shown as cancelled, never as running.
    assert states(listed) == [("b", "started"), ("a", "finished")]
    assert (listed[1].code, listed[1].attempts) == ("cancelled", 0)


async def test_begin_cancelled_in_the_queue_writes_nothing(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        with closing(sqlite3.connect(path, isolation_level=None)) as outside:
            outside.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(journal.begin, [intent("first")])
                await anyio.wait_all_tasks_blocked()
                with anyio.move_on_after(0.05):
                    await journal.begin([intent("queued")])
                outside.execute("ROLLBACK")
        listed = await journal.list()

    assert ("queued", "started") not in states(listed)
    assert ("first", "started") in states(listed)


async def test_value_out_of_range_fails_only_its_own_call(path: Path) -> None:
    refused: list[str] = []

    async def finish(journal: Journal, name: str, size: int) -> None:
        try:
            await journal.finish([finished(name, result_chars=size)])
        except JournalError:
            refused.append(name)

    names = [f"{number}" for number in range(20)]
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent(name) for name in names])
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(finish, journal, name, 2**70 if name == "7" else 1)
        lost = await journal.interrupted()

    assert refused == ["7"]
    assert states(lost) == [("7", "interrupted")]


async def test_concurrent_callers_share_commits(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("first")])
        before = commits(path)
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(journal.begin, [intent(f"{number}")])
        shared = commits(path) - before

    assert 1 <= shared < 100


def commits(path: Path) -> int:
    """How many commits the log holds: a frame that ends one contains the size of the database."""
    log = path.with_name("journal.db-wal").read_bytes()[32:]
    return sum(log[at + 4 : at + 8] != b"\0\0\0\0" for at in range(0, len(log), 24 + 4096))


async def test_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(JournalError):
        async with Journal.sqlite(tmp_path / "file" / "journal.db"):
            pass
    with pytest.raises(JournalError):
        async with Journal.sqlite(tmp_path):
            pass


def test_full_disk_is_reported_and_the_journal_remains_usable(path: Path) -> None:
    printed = output_of(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        async def main():
            async with Journal.sqlite(path) as journal:
                await journal.begin([intent("before")])
                size = os.stat(path + "-wal").st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + 9000, resource.RLIM_INFINITY))
                told = []
                async def begin(name):
                    try:
                        await journal.begin([intent(name, args={"long": "x" * 40_000})])
                    except errors.JournalError as error:
                        told.append(type(error.__cause__).__name__)
                async with anyio.create_task_group() as tasks:
                    for number in range(5):
                        tasks.start_soon(begin, str(number))
                print(*told)
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                await journal.finish([finished("before")])
                await journal.begin([intent("after")])
                print(states(await journal.list()))
        anyio.run(main)
        """,
        path,
    )

    assert printed == [" ".join(["OperationalError"] * 5), str([("after", "started"), ("before", "finished")])]


async def test_program_that_exits_without_closing_loses_nothing(path: Path) -> None:
    output_of(
        """
        journal = Journal.sqlite(path)
        async def main():
            await journal.begin([intent("a"), intent("b")])
            await journal.finish([finished("a")])
        anyio.run(main)
        """,
        path,
    )

    assert not path.with_name("journal.db-wal").exists(), "it was not closed at exit"
    async with Journal.sqlite(path) as journal:
        assert states(await journal.list()) == [("b", "interrupted"), ("a", "finished")]


def test_importing_spindle_does_not_load_sqlite(path: Path) -> None:
    assert output_of("print('sqlite3' in sys.modules)", path) == ["False"]
