"""A file keeps its permissions when it is replaced, and missing permissions are reported."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from tests.capabilities.reaching import everything

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", [0o640, 0o755, 0o600, 0o444])
async def test_a_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "run.sh"
    place.write_text("old")
    place.chmod(mode)
    if not os.access(place, os.W_OK):
        pytest.skip("only root can write to a read-only file")

    await everything(tmp_path).write_text("run.sh", "new")

    assert place.read_text() == "new"
    assert place.stat().st_mode & 0o7777 == mode


async def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    await everything(tmp_path).write_text("ours", "x")

    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


async def test_writing_to_a_program_takes_its_set_user_id(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("old")
    (tmp_path / "run").chmod(0o4755)

    await everything(tmp_path).write_text("run", "new")

    assert (tmp_path / "run").stat().st_mode & 0o7777 == 0o755


DENIED = """
import os, sys, anyio
from spindle.capabilities.files.backend import FilesBackend
from spindle.capabilities.declare import FileReach
from spindle.capabilities.declare import CallScope
from spindle.errors import FileAccessError

async def main():
    files = FilesBackend(sys.argv[1]).open(FileReach(read=["."], write=["."]), CallScope(tool="t", session_id="s"))
    for attempt in (files.read_bytes("hidden"), files.write_bytes("hidden", b"x"), files.write_bytes("fixed", b"x"),
                    files.write_bytes("closed/new", b"x"), files.remove("closed/old"), files.list("dark")):
        try:
            print(await attempt)
        except FileAccessError as error:
            print(error.reason)

if os.getuid() == 0:  # root is permitted everything
    anyio.run(anyio.to_thread.run_sync, int)
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
anyio.run(main)
"""


async def test_missing_permissions_are_reported(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for name in ("hidden", "fixed", "closed/old", "dark/x"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("x")
        for path in (root, root / "closed"):
            path.chmod(0o755 if path == root else 0o555)
        modes = {"hidden": 0o000, "fixed": 0o444, "dark": 0o111}
        for name, mode in modes.items():
            (root / name).chmod(mode)
        done = await anyio.run_process([sys.executable, "-c", DENIED, place], stderr=subprocess.STDOUT)
        for path in (root / "closed", root / "dark"):
            path.chmod(0o755)
        assert (root / "hidden").stat().st_size == 1
        assert (root / "closed" / "old").exists()

    assert done.stdout.decode().split() == ["denied"] * 6
