"""Small versions are durable after one sync of their note, which holds their bytes; large ones sync both files."""

import os
from pathlib import Path

import pytest

from spindle.artifacts import backends
from spindle.artifacts.backends import small_notes
from spindle.artifacts.backends.small_notes import SMALL_BYTES
from spindle.artifacts.spool import Spool

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

needs_boot_id = pytest.mark.skipif(small_notes.get_boot_id() is None, reason="this system has no boot id")


def find_file(folder: Path, suffix: str) -> Path:
    (found,) = folder.glob(f"*/*{suffix}")
    return found


def kinds(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.glob("*/*"))


def count_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each sync from now on."""
    synced: list[int] = []
    sync = os.fsync

    def note_sync(handle: int) -> None:
        synced.append(handle)
        sync(handle)

    monkeypatch.setattr(os, "fsync", note_sync)
    return synced


async def text_of(folder: Path, id: str) -> bytes | None:
    reader = await Spool.files(folder).read(id)
    return None if reader is None else await reader.read_all()


def restart_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_notes, "get_boot_id", lambda: b"-" * 36)


def lose_data(data: Path, loss: str) -> None:
    match loss:
        case "gone":
            data.unlink()
        case "cut":
            os.truncate(data, 3)
        case _:
            data.write_bytes(bytes(data.stat().st_size))


@needs_boot_id
@pytest.mark.parametrize(("size", "syncs"), [(0, 2), (1_000, 2), (SMALL_BYTES, 2), (SMALL_BYTES + 1, 3)])
async def test_a_small_version_syncs_its_note_and_the_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, syncs: int
) -> None:
    spool = Spool.files(tmp_path)
    await spool.write("id", "first")  # creates the folder
    synced = count_syncs(monkeypatch)

    await spool.write("id", b"x" * size)

    assert len(synced) == syncs
    assert await text_of(tmp_path, "id") == b"x" * size


@needs_boot_id
@pytest.mark.parametrize("loss", ["gone", "cut", "zeros"])
async def test_a_small_version_survives_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    await Spool.files(tmp_path).write("id", "the bytes\nof a result")
    lose_data(find_file(tmp_path, ".data"), loss)
    restart_machine(monkeypatch)

    assert await text_of(tmp_path, "id") == b"the bytes\nof a result"
    assert kinds(tmp_path) == [".data", ".note"]
    assert find_file(tmp_path, ".data").read_bytes() == b"the bytes\nof a result"


@needs_boot_id
async def test_a_replaced_small_version_is_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool.files(tmp_path)
    await spool.write("id", "old")
    old = find_file(tmp_path, ".data")
    await spool.write("id", "new")
    old.unlink()
    restart_machine(monkeypatch)

    assert await text_of(tmp_path, "id") == b"new"
    assert not old.exists()


@needs_boot_id
async def test_a_damaged_copy_in_a_note_is_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await Spool.files(tmp_path).write("id", "the bytes")
    note = find_file(tmp_path, ".note")
    whole = note.read_bytes()
    note.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    find_file(tmp_path, ".data").unlink()
    restart_machine(monkeypatch)

    assert await text_of(tmp_path, "id") is None


@needs_boot_id
@pytest.mark.parametrize("length", [b"zzzzzzzz", b"00000000", b"ffffffff"])
async def test_a_note_with_a_wrong_length_is_not_trusted(tmp_path: Path, length: bytes) -> None:
    await Spool.files(tmp_path).write("id", "the bytes")
    note = find_file(tmp_path, ".note")
    whole = note.read_bytes()
    start = len(b"spindle small 1\n") + 36
    note.write_bytes(whole[:start] + length + whole[start + 8 :])

    assert await text_of(tmp_path, "id") is None


async def test_without_a_boot_id_both_files_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "get_boot_id", lambda: None)
    spool = Spool.files(tmp_path)
    await spool.write("id", "first")
    synced = count_syncs(monkeypatch)

    await spool.write("id", "second")

    assert len(synced) == 3
    assert await text_of(tmp_path, "id") == b"second"
