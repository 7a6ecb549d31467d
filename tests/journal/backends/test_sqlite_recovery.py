"""Opening a SQLite journal: damaged files are reported and kept, and calls of killed processes are interrupted."""

import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from spindle.errors import JournalDamagedError
from spindle.journal import Journal, JournalEntry
from spindle.journal.backends import sqlite_recovery
from spindle.journal.backends.sqlite_recovery import set_aside
from tests.journal.backends.programs import Workers, running_workers
from tests.journal.sample_calls import finished, intent, states

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

Harm = Callable[[Path], None]


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 500)


def a_short_text(path: Path) -> None:
    path.write_bytes(b"x")


def cut_in_the_header(path: Path) -> None:
    os.truncate(path, 60)


def cut_in_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1000)


def cut_by_pages(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8192)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def overwritten_in_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096 : 4096 + 12_000] = b"\xa5" * 12_000
    path.write_bytes(content)


def overwritten_where(path: Path, text: bytes) -> None:
    """Spoil the pages of the table, not those of an index, that hold a text."""
    content = path.read_bytes()
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    path.write_bytes(b"".join(b"\xa5" * 4096 if text in page and b"xxxxxxxx" in page else page for page in pages))


def header_zeroed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[:100] = bytes(100)
    path.write_bytes(content)


def table_gone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE calls")
        other.commit()


def table_of_others(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE calls")
        other.execute("CREATE TABLE calls (who TEXT)")
        other.commit()


def log_of_garbage(path: Path) -> None:
    path.with_name(f"{path.name}-wal").write_bytes(b"this is no log" * 500)


def log_without_database(path: Path) -> None:
    path.with_name(f"{path.name}-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(5000))
    path.unlink()


HARMS: list[Harm] = [
    garbage,
    a_short_text,
    cut_in_the_header,
    cut_in_a_page,
    cut_by_pages,
    emptied,
    overwritten_in_the_middle,
    header_zeroed,
    table_gone,
    table_of_others,
    log_of_garbage,
    log_without_database,
]


def of_another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE orders (id)")


def of_a_newer_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")


READABLE: list[Harm] = [of_another_program, of_a_newer_version]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A journal with some calls in it, closed."""
    place = tmp_path / "journal.db"
    async with Journal.sqlite(place) as journal:
        await journal.begin([intent(f"{number}", args={"text": "x" * 500}) for number in range(60)])
        await journal.finish([finished(f"{number}") for number in range(50)])
    return place


def contents(path: Path) -> set[bytes]:
    """What lies in the folder, whatever it is called; SQLite's index of a log holds nothing of its own."""
    near = [
        file for file in path.parent.iterdir() if not file.name.endswith((".lock", "-shm")) and ".run-" not in file.name
    ]
    return {file.read_bytes() for file in near}


async def refusal(path: Path) -> JournalDamagedError:
    with pytest.raises(JournalDamagedError) as caught:
        async with Journal.sqlite(path):
            pass
    assert caught.value.path == str(path)
    return caught.value


@pytest.mark.parametrize("harm", HARMS)
async def test_damaged_file_is_set_aside_and_not_replaced_by_default(path: Path, harm: Harm) -> None:
    harm(path)
    before = contents(path)

    error = await refusal(path)
    again = await refusal(path)

    assert error.aside == again.aside
    assert error.aside is not None
    assert error.aside.startswith(f"{path}.damaged-")
    assert contents(path) == before


@pytest.mark.slow
@pytest.mark.parametrize("harm", [*HARMS, *READABLE])
async def test_set_aside_starts_a_new_journal_and_keeps_the_damaged_one(path: Path, harm: Harm) -> None:
    harm(path)
    before = contents(path)

    async with Journal.sqlite(path, on_damage="set_aside") as journal:
        assert await journal.list() == []
        await journal.begin([intent("new")])
    async with Journal.sqlite(path) as journal:
        assert states(await journal.list()) == [("new", "started")]

    assert before <= contents(path)


async def test_set_aside_works_after_an_earlier_error(path: Path) -> None:
    garbage(path)
    error = await refusal(path)

    async with Journal.sqlite(path, on_damage="set_aside") as journal:
        await journal.begin([intent("new")])
    async with Journal.sqlite(path) as journal:
        assert len(await journal.list()) == 1
    assert error.aside in {str(near) for near in path.parent.iterdir()}


@pytest.mark.parametrize("harm", READABLE)
async def test_file_of_another_program_or_version_is_not_moved(path: Path, harm: Harm) -> None:
    harm(path)
    before = contents(path)

    error = await refusal(path)

    assert error.aside is None
    assert contents(path) == before


async def test_restored_journal_is_used_again(path: Path) -> None:
    sound = contents(path).pop()
    garbage(path)
    await refusal(path)
    restored(path, sound)

    async with Journal.sqlite(path) as journal:
        assert len(await journal.list("finished")) == 50


def restored(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_deleted_journal_is_created_again(path: Path) -> None:
    deleted(path)

    async with Journal.sqlite(path) as journal:
        assert await journal.list() == []


def deleted(path: Path) -> None:
    path.unlink()


async def test_damage_found_after_opening_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_recovery, "CHECKED_BYTES", 0)
    overwritten_where(path, intent("25").idempotency_key.encode())

    async with Journal.sqlite(path) as journal:
        with pytest.raises(JournalDamagedError) as caught:
            await journal.list(limit=None)
        assert len(await journal.list("started")) == 10

    assert (caught.value.path, caught.value.aside) == (str(path), None)


def test_set_aside_never_reuses_a_name(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    asides: list[Path] = []
    for number in range(5):
        path.write_text(f"{number}")
        path.with_name("journal.db-wal").write_text(f"log {number}")
        asides.append(set_aside(path))

    assert [aside.read_text() for aside in asides] == ["0", "1", "2", "3", "4"]
    assert [aside.with_name(f"{aside.name}-wal").read_text() for aside in asides] == [f"log {n}" for n in range(5)]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with running_workers(tmp_path / "journal.db") as workers:
        yield workers


def pid_of(entry: JournalEntry) -> int | None:
    """Return the process that began a call, if its name says so."""
    first = entry.tool_call_id.partition(".")[0]
    return int(first) if first.isdigit() else None


async def check_while_others_write(workers: Workers) -> None:
    async with Journal.sqlite(workers.path) as journal:
        interrupted = await journal.interrupted()

    assert {pid_of(entry) for entry in interrupted} - {None} <= workers.dead, "a call of a live process was interrupted"


async def check_all(workers: Workers) -> int:
    """Compare what the killed processes knew with the journal; return the number of interrupted calls."""
    said = workers.said()
    known = {kind: {name for each, name, *_ in said if each == kind} for kind in "ibfx"}
    winners = [(name, pid) for kind, name, *pid in said if kind == "w"]
    async with Journal.sqlite(workers.path) as journal:
        entries = {entry.tool_call_id: entry for entry in await journal.list(limit=None)}
        interrupted = {entry.tool_call_id for entry in await journal.interrupted()}
    with closing(sqlite3.connect(workers.path)) as outside:
        assert outside.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    done = {name for name, entry in entries.items() if entry.state == "finished"}
    shared = {name for name in entries if name.startswith("shared.")}
    assert not known["x"], "a call of a live process was not started"
    assert known["f"] <= done, "an acknowledged outcome was lost"
    assert known["b"] <= entries.keys(), "an acknowledged intent was lost"
    assert entries.keys() - shared <= known["i"], "a call was invented"
    assert interrupted == entries.keys() - done, "a call has no outcome and is not interrupted"
    assert all(entries[name].result == {"value": name * 50} for name in done - shared)
    assert len({name for name, _ in winners}) == len(winners), "two processes ran one call"
    assert all(entries[name].result in (None, {"value": pid}) for name, [pid] in winners)
    return len(interrupted)


async def kill_and_check(workers: Workers, *, rounds: int) -> int:
    chance = random.Random("kills")
    workers.start(3)
    for number in range(rounds):
        workers.wait_for_work(lines=chance.randrange(60))
        workers.wait(chance.random() * 0.02)
        # Now and then all at once: then several processes find the same calls interrupted when they open the file.
        workers.kill(3 if number % 5 == 4 else 1)
        await check_while_others_write(workers)
        workers.start(3 - len(workers.alive))
    workers.kill(3)
    return await check_all(workers)


@pytest.mark.slow
async def test_processes_that_share_a_journal_are_killed_and_nothing_is_lost(workers: Workers) -> None:
    assert await kill_and_check(workers, rounds=3)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_many_processes_that_share_a_journal_are_killed_and_nothing_is_lost(workers: Workers) -> None:
    assert await kill_and_check(workers, rounds=60)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
async def test_process_killed_while_it_creates_a_journal_leaves_one_that_opens(workers: Workers, number: int) -> None:
    workers.start(2)
    workers.wait(random.Random(number).random() * 0.05)
    workers.kill(2)

    await check_all(workers)
