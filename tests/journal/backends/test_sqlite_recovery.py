"""A file that cannot be used is named as such and kept; going on without it is somebody's choice."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from spindle.errors import JournalDamagedError
from spindle.journal.backends import sqlite_recovery
from spindle.journal.backends.sqlite_recovery import set_aside
from spindle.journal.journal import Journal
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
    near = [file for file in path.parent.iterdir() if not file.name.endswith((".lock", "-shm"))]
    return {file.read_bytes() for file in near}


async def refusal(path: Path) -> JournalDamagedError:
    with pytest.raises(JournalDamagedError) as caught:
        async with Journal.sqlite(path):
            pass
    assert caught.value.path == str(path)
    return caught.value


@pytest.mark.parametrize("harm", HARMS)
async def test_a_damaged_file_is_refused_kept_aside_and_never_replaced_unasked(path: Path, harm: Harm) -> None:
    harm(path)
    before = contents(path)

    error = await refusal(path)
    again = await refusal(path)

    assert error.aside == again.aside
    assert error.aside is not None
    assert error.aside.startswith(f"{path}.damaged-")
    assert contents(path) == before


@pytest.mark.parametrize("harm", [*HARMS, *READABLE])
async def test_who_chooses_so_goes_on_with_a_fresh_journal_and_the_old_one_is_kept(path: Path, harm: Harm) -> None:
    harm(path)
    before = contents(path)

    async with Journal.sqlite(path, on_damage="set_aside") as journal:
        assert await journal.list() == []
        await journal.begin([intent("new")])
    async with Journal.sqlite(path) as journal:
        assert states(await journal.list()) == [("new", "started")]

    assert before <= contents(path)


async def test_after_a_refusal_the_choice_can_still_be_made(path: Path) -> None:
    garbage(path)
    error = await refusal(path)

    async with Journal.sqlite(path, on_damage="set_aside") as journal:
        await journal.begin([intent("new")])
    async with Journal.sqlite(path) as journal:
        assert len(await journal.list()) == 1
    assert error.aside in {str(near) for near in path.parent.iterdir()}


@pytest.mark.parametrize("harm", READABLE)
async def test_what_others_can_still_use_is_left_where_it_is(path: Path, harm: Harm) -> None:
    harm(path)
    before = contents(path)

    error = await refusal(path)

    assert error.aside is None
    assert contents(path) == before


async def test_a_journal_that_was_put_back_in_its_place_is_used_again(path: Path) -> None:
    sound = contents(path).pop()
    garbage(path)
    await refusal(path)
    restored(path, sound)

    async with Journal.sqlite(path) as journal:
        assert len(await journal.list("finished")) == 50


def restored(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_a_journal_that_was_deleted_begins_anew(path: Path) -> None:
    deleted(path)

    async with Journal.sqlite(path) as journal:
        assert await journal.list() == []


def deleted(path: Path) -> None:
    path.unlink()


async def test_damage_that_is_met_later_is_told_as_such(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_recovery, "CHECKED_BYTES", 0)
    overwritten_where(path, intent("25").idempotency_key.encode())

    async with Journal.sqlite(path) as journal:
        with pytest.raises(JournalDamagedError) as caught:
            await journal.list(limit=None)
        assert len(await journal.list("started")) == 10

    assert (caught.value.path, caught.value.aside) == (str(path), None)


def test_names_that_are_taken_are_never_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    asides: list[Path] = []
    for number in range(5):
        path.write_text(f"{number}")
        path.with_name("journal.db-wal").write_text(f"log {number}")
        asides.append(set_aside(path))

    assert [aside.read_text() for aside in asides] == ["0", "1", "2", "3", "4"]
    assert [aside.with_name(f"{aside.name}-wal").read_text() for aside in asides] == [f"log {n}" for n in range(5)]
