"""A SQLite file as a place for tools' values."""

import sqlite3
import sys
from pathlib import Path

import anyio
import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.storage.store import Storage, StorageBackend
from spindle.errors import StorageError

pytestmark = pytest.mark.anyio


def opened(backend: StorageBackend) -> Storage:
    return backend.open("tool", CallScope(tool="notes", session_id="s1"))


PROGRAM = """
import sys, anyio
from spindle.capabilities.declare import CallScope
from spindle.capabilities.storage.store import StorageBackend

async def main():
    storage = StorageBackend.sqlite(sys.argv[1]).open("tool", CallScope(tool="notes", session_id="s"))
    for number in range(15):
        await storage.set(f"{sys.argv[2]} {number}", number)

anyio.run(main)
"""


async def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "storage.db"
    ended: list[int] = []

    async def run(name: str) -> None:
        ended.append((await anyio.run_process([sys.executable, "-c", PROGRAM, str(path), name])).returncode)

    with anyio.fail_after(50):
        async with anyio.create_task_group() as group:
            group.start_soon(run, "a")
            group.start_soon(run, "b")

    assert ended == [0, 0]
    assert len(await opened(StorageBackend.sqlite(path)).keys()) == 30
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to look like a file of some kind" * 20, None]
)
async def test_a_file_of_someone_else_is_left_alone(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "storage.db"
    if content is None:
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE theirs (x)")
        db.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()

    with pytest.raises(StorageError) as caught:
        await opened(StorageBackend.sqlite(path)).set("a", 1)

    assert caught.value.field == "storage"
    assert path.read_bytes() == before


async def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StorageError) as caught:
        await opened(StorageBackend.sqlite(tmp_path / "file" / "storage.db")).get("a")

    assert caught.value.field == "storage"
