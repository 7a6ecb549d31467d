"""Several processes share one SQLite journal; test_sqlite_recovery.py kills some of them."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from spindle.errors import JournalDamagedError, JournalError, JournalLockedError
from spindle.journal import Journal
from spindle.journal.backends import sqlite_locks
from spindle.journal.backends.sqlite_locks import FileLock, RunLease
from spindle.journal.backends.sqlite_schema import MIGRATIONS
from tests.journal.backends.programs import holding, output_of
from tests.journal.sample_calls import finished, intent, states

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


async def test_two_processes_write_one_journal(path: Path) -> None:
    with holding(path):
        async with Journal.sqlite(path) as journal:
            assert await journal.begin([intent("here")]) == [None]
            await journal.finish([finished("here")])
            assert states(await journal.list()) == [("here", "finished"), ("held", "started")]


async def test_call_of_a_live_process_is_started_and_only_that_process_can_end_it(path: Path) -> None:
    with holding(path):
        async with Journal.sqlite(path) as journal:
            [standing] = await journal.begin([intent("held")])
            assert standing is not None
            assert standing.state == "started"
            await journal.begin([intent("here")])
            with pytest.raises(JournalError) as caught:
                await journal.finish([finished("held"), finished("here")])
            assert caught.value.field == "idempotency_key"
            assert states(await journal.list()) == [("here", "finished"), ("held", "started")]


async def test_call_is_interrupted_as_soon_as_its_process_was_killed(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        with holding(path) as pid:
            assert states(await journal.interrupted()) == []
            os.kill(pid, signal.SIGKILL)

        [standing] = await journal.begin([intent("held")])
        assert standing is not None
        assert standing.state == "interrupted"
        assert states(await journal.interrupted()) == [("held", "interrupted")]
        await journal.finish([finished("held")])
        assert states(await journal.list()) == [("held", "finished")]


async def test_outcome_is_accepted_for_a_call_whose_process_was_just_killed(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        with holding(path) as pid:
            os.kill(pid, signal.SIGKILL)

        await journal.finish([finished("held")])
        assert states(await journal.list()) == [("held", "finished")]


@pytest.mark.slow
async def test_stopped_process_keeps_its_calls(path: Path) -> None:
    with holding(path) as pid:
        os.kill(pid, signal.SIGSTOP)
        try:
            async with Journal.sqlite(path) as journal:
                assert states(await journal.list()) == [("held", "started")]
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_closed_journal_keeps_the_calls_of_its_process_until_the_process_ends(path: Path) -> None:
    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("mine")])

    seen = "async def main():\n    print(states(await Journal.sqlite(path).list()))\nanyio.run(main)"
    assert output_of(seen, path) == [str([("mine", "started")])]
    async with Journal.sqlite(path) as journal:
        await journal.finish([finished("mine")])
    assert not list(path.parent.glob("*.run-*"))


async def test_lock_files_of_killed_processes_are_removed(path: Path) -> None:
    with holding(path) as pid:
        os.kill(pid, signal.SIGKILL)
    assert list(path.parent.glob("*.run-*"))

    async with Journal.sqlite(path) as journal:
        await journal.list()

    assert not list(path.parent.glob("*.run-*"))


async def test_damaged_file_is_not_renamed_while_another_process_has_it_open(path: Path) -> None:
    with holding(path):
        overwrite(path)
        for on_damage in ("raise", "set_aside"):
            with pytest.raises(JournalDamagedError) as caught:
                async with Journal.sqlite(path, on_damage=on_damage):
                    pass
            assert caught.value.aside is None
        assert is_overwritten(path)


def overwrite(path: Path) -> None:
    path.write_bytes(b"not a database" * 300)


def is_overwritten(path: Path) -> bool:
    return path.read_bytes() == b"not a database" * 300


async def test_file_of_an_older_version_is_upgraded(path: Path) -> None:
    with holding(path):
        pass
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE states")
        for index in ("by_session", "by_turn", "failed"):
            other.execute(f"DROP INDEX calls_{index}")
        other.execute("ALTER TABLE calls DROP COLUMN caller")
        other.execute("PRAGMA user_version = 1")

    async with Journal.sqlite(path) as journal:
        [entry] = await journal.list()
        assert states([entry]) == [("held", "interrupted")]
        assert entry.caller is None
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


async def test_lock_that_is_not_released_is_reported_to_every_caller(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[JournalLockedError] = []

    async def begin(journal: Journal, name: str) -> None:
        with pytest.raises(JournalLockedError) as caught:
            await journal.begin([intent(name)])
        errors.append(caught.value)

    async with Journal.sqlite(path) as journal:
        await journal.begin([intent("before")])
        monkeypatch.setattr(sqlite_locks, "LOCK_SECONDS", 0.1)
        with FileLock(path).hold(), anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for number in range(200):
                    tasks.start_soon(begin, journal, f"{number}")
            with pytest.raises(JournalLockedError):
                await Journal.sqlite(path.with_name("journal.db")).begin([intent("again")])
        monkeypatch.undo()
        await journal.begin([intent("after")])
        assert states(await journal.list()) == [("after", "started"), ("before", "started")]

    assert len({id(error) for error in errors}) == 200
    assert {(error.path, error.holder_pid) for error in errors} == {(str(path), os.getpid())}


def test_lock_excludes_others_after_its_file_was_deleted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_locks, "LOCK_SECONDS", 0.0)
    first = FileLock(path)
    path.with_name("journal.db.lock").unlink()
    second = FileLock(path)

    monkeypatch.setattr(sqlite_locks, "LOCK_SECONDS", 5.0)
    with first.hold():
        monkeypatch.setattr(sqlite_locks, "LOCK_SECONDS", 0.0)
        with pytest.raises(JournalLockedError), second.hold():
            pass
    with second.hold():
        pass
    first.close()
    second.close()


def test_lock_is_never_taken_through_a_link(path: Path) -> None:
    (path.parent / "precious").write_text("keep")
    path.with_name("journal.db.lock").symlink_to(path.parent / "precious")

    with pytest.raises(OSError, match=r"."):
        FileLock(path)
    assert (path.parent / "precious").read_text() == "keep"


def test_run_id_from_a_file_is_not_used_as_a_path(path: Path) -> None:
    (path.parent / "journal.db.run-x").mkdir()
    (path.parent / "precious").write_text("keep")
    lease = RunLease.acquire(path)

    assert lease.has_ended("x/../../precious")
    assert lease.find_others() == set()
    assert (path.parent / "precious").read_text() == "keep"
    lease.release()


def test_file_system_without_locks_is_reported(path: Path) -> None:
    printed = output_of(
        """
        import errno, fcntl
        def flock(handle, operation):
            raise OSError(errno.ENOLCK, "No locks available")
        fcntl.flock = flock
        async def main():
            try:
                await Journal.sqlite(path).list()
            except errors.JournalError as error:
                print(error.code, "file locks" in str(error))
        anyio.run(main)
        """,
        path,
    )

    assert printed == ["E_JOURNAL True"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into every folder")
def test_folder_without_write_permission_is_reported(path: Path) -> None:
    path.parent.chmod(0o555)
    printed = output_of(
        """
        async def main():
            try:
                await Journal.sqlite(path).list()
            except errors.JournalError as error:
                print(error.code, type(error.__cause__).__name__)
        anyio.run(main)
        """,
        path,
    )

    assert printed == ["E_JOURNAL PermissionError"]


def test_forked_child_cannot_use_a_journal_that_its_parent_has_open(path: Path) -> None:
    printed = output_of(
        """
        async def in_child(journal):
            for one in (journal, Journal.sqlite(path)):
                try:
                    await one.begin([intent("child")])
                except errors.JournalLockedError as error:
                    print("refused", error.holder_pid == os.getppid(), flush=True)
                await one.aclose()
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

    assert printed == ["refused True", "refused True", str([("parent", "finished")])]


def test_forked_child_can_use_a_journal_that_its_parent_has_closed(path: Path) -> None:
    printed = output_of(
        """
        async def use(name):
            async with Journal.sqlite(path) as journal:
                await journal.begin([intent(name)])
                print(states(await journal.list()), flush=True)
        anyio.run(use, "parent")
        child = os.fork()
        if child == 0:
            anyio.run(use, "child")
            os._exit(0)
        os.waitpid(child, 0)
        anyio.run(use, "after")
        """,
        path,
    )

    assert printed == [
        str([("parent", "started")]),
        str([("child", "started"), ("parent", "started")]),
        str([("after", "started"), ("child", "interrupted"), ("parent", "started")]),
    ]


def test_forked_child_does_not_keep_the_calls_of_a_dead_parent_alive(path: Path) -> None:
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
