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

from spindle.errors import JournalError, JournalLockedError, UsageError
from spindle.journal.journal import Journal
from tests.journal.backends.programs import holding, output_of
from tests.journal.sample_calls import finished, intent, states

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("wrong", ["", "nul\0byte", ":memory:", 5, None, b"bytes"])
def test_what_is_no_path_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Journal.sqlite(wrong)

    assert caught.value.field == "path"


def test_a_choice_that_is_none_is_refused(path: Path) -> None:
    choice: Any = "overwrite"
    with pytest.raises(UsageError) as caught:
        Journal.sqlite(path, on_damage=choice)

    assert caught.value.field == "on_damage"


def test_making_a_journal_touches_nothing(path: Path) -> None:
    Journal.sqlite(path)

    assert list(path.parent.iterdir()) == []


async def test_the_file_is_made_with_its_folder_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "journal.db"
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("a")])
        modes = {near.name: stat.S_IMODE(near.stat().st_mode) for near in path.parent.iterdir()}

    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600, "journal.db.lock": 0o600}


async def test_each_commit_is_in_the_log_at_once(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("a")])
        with closing(sqlite3.connect(path)) as outside:
            assert outside.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert outside.execute("SELECT tool_call_id, state FROM calls").fetchall() == [("a", "started")]


async def test_closing_leaves_one_database_and_its_lock(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("a")])

    assert sorted(near.name for near in path.parent.iterdir()) == ["journal.db", "journal.db.lock"]


async def test_an_empty_file_that_never_was_a_journal_becomes_one(tmp_path: Path) -> None:
    with NamedTemporaryFile(dir=tmp_path) as file:
        async with Journal.sqlite(file.name) as journal:
            assert await journal.begin([intent("a")]) == [None]


async def test_a_second_process_is_refused_and_told_who_has_it(path: Path) -> None:
    with holding(path) as pid:
        with pytest.raises(JournalLockedError) as caught:
            async with Journal.sqlite(path):
                pass
        refused = Journal.sqlite(path)
        with pytest.raises(JournalLockedError):
            await refused.begin([intent("a")])
        assert (caught.value.path, caught.value.holder_pid) == (str(path), pid)

    # The same journal works as soon as the other process has ended.
    assert await refused.begin([intent("a")]) == [None]
    assert states(await refused.list()) == [("a", "started"), ("held", "interrupted")]
    await refused.aclose()


async def test_every_caller_of_a_refused_journal_is_told(path: Path) -> None:
    told: list[JournalLockedError] = []

    async def begin(journal: Journal, name: str) -> None:
        with pytest.raises(JournalLockedError) as caught:
            await journal.begin([intent(name)])
        told.append(caught.value)

    with holding(path), anyio.fail_after(30):
        journal = Journal.sqlite(path)
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(begin, journal, f"{number}")
        await journal.aclose()

    assert len({id(error) for error in told}) == 20


async def test_another_name_of_the_same_file_is_the_same_journal(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)

    async with Journal.sqlite(path) as one, Journal.sqlite(link) as other:
        await one.begin([intent("a")])
        assert states(await other.list()) == [("a", "started")]


async def test_the_last_of_those_who_share_a_file_closes_it(path: Path) -> None:
    log = path.with_name("journal.db-wal")
    one, other = Journal.sqlite(path), Journal.sqlite(path)
    await one.begin([intent("a")])
    await other.begin([intent("b")])
    await one.aclose()
    assert log.exists()
    await other.begin([intent("c")])
    await other.aclose()

    assert not log.exists()


async def test_opening_and_closing_in_a_hurry_never_locks_itself_out(path: Path) -> None:
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


async def test_a_journal_that_is_forgotten_lets_go_of_its_file(path: Path) -> None:
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


async def test_the_event_loop_goes_on_while_the_journal_waits_for_its_file(path: Path) -> None:
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
    # Its caller gave up while it was being written: it is told as cancelled, never as running.
    assert states(listed) == [("b", "started"), ("a", "finished")]
    assert (listed[1].code, listed[1].attempts) == ("cancelled", 0)


async def test_a_caller_that_gives_up_while_it_queues_leaves_nothing(path: Path) -> None:
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


async def test_a_value_that_sqlite_refuses_costs_only_the_call_that_brought_it(path: Path) -> None:
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
        started = await journal.list("started")

    assert refused == ["7"]
    assert states(started) == [("7", "started")]


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
    """How many commits the log holds: a frame that ends one tells the size of the database."""
    log = path.with_name("journal.db-wal").read_bytes()[32:]
    return sum(log[at + 4 : at + 8] != b"\0\0\0\0" for at in range(0, len(log), 24 + 4096))


async def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(JournalError):
        async with Journal.sqlite(tmp_path / "file" / "journal.db"):
            pass
    with pytest.raises(JournalError):
        async with Journal.sqlite(tmp_path):
            pass


def test_a_full_disk_is_told_to_those_who_wait_and_the_journal_can_still_be_used(path: Path) -> None:
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


def test_a_forked_child_never_touches_the_file_of_its_parent(path: Path) -> None:
    printed = output_of(
        """
        async def in_child(journal):
            try:
                await journal.begin([intent("child")])
            except errors.JournalLockedError as error:
                print("refused", error.holder_pid == os.getppid(), flush=True)
            await journal.aclose()
        async def main(journal):
            await journal.begin([intent("parent")])
        journal = Journal.sqlite(path)
        anyio.run(main, journal)
        child = os.fork()
        if child == 0:
            anyio.run(in_child, journal)
            os._exit(0)
        os.waitpid(child, 0)
        async def after():
            await journal.finish([finished("parent")])
            print(states(await journal.list()))
            await journal.aclose()
        anyio.run(after)
        """,
        path,
    )

    assert printed == ["refused True", str([("parent", "finished")])]


def test_a_forked_child_does_not_keep_the_lock_of_a_parent_that_is_gone(path: Path) -> None:
    printed = output_of(
        """
        async def begin(name):
            journal = Journal.sqlite(path)
            await journal.begin([intent(name)])
            return journal
        reader, writer = os.pipe()
        middle = os.fork()
        if middle == 0:
            kept = anyio.run(begin, "parent")
            child = os.fork()
            if child:
                os.kill(os.getpid(), 9)
            os.read(reader, 1)
            os._exit(0)
        os.waitpid(middle, 0)
        async def main():
            async with Journal.sqlite(path) as journal:
                print(states(await journal.list()))
        anyio.run(main)
        os.write(writer, b"x")
        """,
        path,
    )

    assert printed == [str([("parent", "interrupted")])]


async def test_a_program_that_ends_without_closing_has_lost_nothing(path: Path) -> None:
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
