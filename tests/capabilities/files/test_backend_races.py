"""Swapping names while they are used gives nothing away, and no reader sees half a file."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from spindle.capabilities.files import parse_path
from spindle.capabilities.files.backend import FilesBackend, FilesHandle
from spindle.capabilities.files.backend_disk import Disk
from spindle.capabilities.files.paths import ReadTracker
from spindle.errors import FileAccessError, FileMissingError, PathNotReachableError
from tests.bounds import PATIENCE_SECONDS
from tests.capabilities.reaching import SECRET, contents, handle, names_in

pytestmark = pytest.mark.anyio

ROUNDS = 1_000
SWAPPER = """
import ctypes, sys, time
rename = ctypes.CDLL(None).renameat2
one, other, until = sys.argv[1].encode(), sys.argv[2].encode(), time.monotonic() + 100
print("ready", flush=True)
while time.monotonic() < until:
    for _ in range(100):
        rename(-100, one, -100, other, 2)  # RENAME_EXCHANGE: at no moment is either name missing
"""


@contextmanager
def swapping(one: Path, other: Path) -> Generator[None]:
    """Swap two names as fast as can be, in a process of its own: a thread would wait for the one it races with."""
    argv = [sys.executable, "-c", SWAPPER, str(one), str(other)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            swapper.kill()


def trial(folder: Path) -> tuple[Path, Path]:
    """A root with a folder and its evil twin, and the outside that the twin leads to."""
    outside, root = folder / "outside", folder / "root"
    (outside / "deep").mkdir(parents=True)
    (outside / "a.txt").write_bytes(SECRET)
    (outside / "deep" / "a.txt").write_bytes(SECRET)
    (root / "data" / "sub" / "deep").mkdir(parents=True)
    (root / "data" / "sub" / "a.txt").write_bytes(b"inside")
    (root / "data" / "sub" / "deep" / "a.txt").write_bytes(b"inside")
    (root / "data" / "twin").symlink_to(outside)
    (root / "data" / "file.txt").write_bytes(b"inside")
    (root / "data" / "file-twin").symlink_to(outside / "a.txt")
    return root, outside


class Tally:
    """What became of many attempts."""

    def __init__(self) -> None:
        self.done = self.refused = 0

    def attempt(self, act: Callable[[], object]) -> object:
        try:
            found = act()
        except (PathNotReachableError, FileMissingError):
            self.refused += 1
            return None
        self.done += 1
        return found


def until_both(tally: Tally, act: Callable[[], object]) -> None:
    """Go on until the race was won and lost often enough, or the time is up."""
    until = time.monotonic() + PATIENCE_SECONDS
    rounds = 0
    while rounds < ROUNDS or not (tally.done and tally.refused):
        if time.monotonic() > until:
            raise AssertionError(f"done {tally.done}, refused {tally.refused}")
        tally.attempt(act)
        rounds += 1


@pytest.mark.parametrize(
    ("swapped", "path"),
    [
        (("sub", "twin"), "data/sub/a.txt"),
        (("sub", "twin"), "data/sub/deep/a.txt"),
        (("file.txt", "file-twin"), "data/file.txt"),
    ],
)
def test_a_name_swapped_for_a_link_never_gives_the_secret(tmp_path: Path, swapped: tuple[str, str], path: str) -> None:
    root, _ = trial(tmp_path)
    backend = FilesBackend(root)
    tally = Tally()

    def read() -> None:
        assert backend.disk.read(parse_path(path)) == b"inside"

    with swapping(root / "data" / swapped[0], root / "data" / swapped[1]):
        until_both(tally, read)


def write(disk: Disk, path: str, data: bytes) -> None:
    """Write as a session that never read."""
    disk.write(parse_path(path), data, may_make=lambda _: True, read_tracker=ReadTracker(), session_file=("s", ()))


def remove(disk: Disk, path: str) -> None:
    """Remove as a session that never read."""
    disk.remove(parse_path(path), read_tracker=ReadTracker(), session_file=("s", ()))


@pytest.mark.slow
@pytest.mark.parametrize("act", ["write", "write new", "make folder", "remove"])
def test_a_folder_swapped_for_a_link_never_lets_a_change_out(tmp_path: Path, act: str) -> None:
    root, outside = trial(tmp_path)
    backend = FilesBackend(root)
    disk, before, tally, count = backend.disk, contents(outside), Tally(), iter(range(1_000_000))
    acts: dict[str, Callable[[], object]] = {
        "write": lambda: write(disk, "data/sub/deep/a.txt", b"mine"),
        "write new": lambda: write(disk, f"data/sub/new-{next(count)}/a.txt", b"mine"),
        "make folder": lambda: disk.make_folder(parse_path(f"data/sub/made-{next(count)}/x"), may_make=lambda _: True),
        "remove": lambda: remove(disk, "data/sub/a.txt"),
    }

    def change() -> object:
        if act == "remove":
            for folder in ("sub", "twin"):
                with suppress(OSError):  # through whichever of the two is the real folder by now
                    refill(root / "data" / folder)
        return acts[act]()

    def refill(folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.close(os.open("a.txt", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
        finally:
            os.close(fd)

    with swapping(root / "data" / "sub", root / "data" / "twin"):
        until_both(tally, change)

    assert contents(outside) == before


def swap_after_looking(monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], object]) -> None:
    """Have `swap` happen right after the first look at `name`, before it is opened."""
    real, pending = os.stat, [swap]

    def looked(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        info = real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if path == name and pending:
            pending.pop()()
        return info

    monkeypatch.setattr(os, "stat", looked)


@pytest.mark.parametrize("trap", ["symlink", "hard link", "fifo", "folder"])
@pytest.mark.parametrize("act", ["read", "write"])
def test_a_file_swapped_between_the_look_and_the_opening_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str, act: str
) -> None:
    root, outside = trial(tmp_path)
    target, before = root / "data" / "file.txt", contents(outside)
    disk = (backend := FilesBackend(root)).disk
    traps: dict[str, Callable[[], object]] = {
        "symlink": lambda: target.symlink_to(outside / "a.txt"),
        "hard link": lambda: target.hardlink_to(outside / "a.txt"),
        "fifo": lambda: os.mkfifo(target),
        "folder": target.mkdir,
    }
    swap_after_looking(monkeypatch, "file.txt", lambda: (target.unlink(), traps[trap]()))

    with pytest.raises((PathNotReachableError, FileAccessError)) as caught:
        disk.read(parse_path("data/file.txt")) if act == "read" else write(disk, "data/file.txt", b"mine")

    assert trap == "folder" or isinstance(caught.value, PathNotReachableError)
    assert contents(outside) == before
    assert backend.disk is disk


def test_a_file_swapped_for_a_fifo_does_not_hang_anybody(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"inside")
    os.mkfifo(tmp_path / "pipe")
    backend = FilesBackend(tmp_path)
    tally = Tally()

    def use() -> None:
        assert backend.disk.read(parse_path("a.txt")) == b"inside"

    with swapping(tmp_path / "a.txt", tmp_path / "pipe"):
        until_both(tally, use)


async def test_a_concurrent_reader_sees_one_whole_version(tmp_path: Path) -> None:
    versions = [bytes([letter]) * 200_000 for letter in b"abcd"]
    (tmp_path / "a.bin").write_bytes(versions[0])
    backend = FilesBackend(tmp_path)

    async def rewrite(version: bytes) -> None:
        files = handle(backend, session=str(version[0]), read=[])
        for _ in range(10):
            await files.write_bytes("a.bin", version)

    async def reread(files: FilesHandle) -> None:
        for _ in range(50):
            assert await files.read_bytes("a.bin") in versions
            assert [entry.name for entry in await files.list()] == ["a.bin"]

    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            for version in versions:
                group.start_soon(rewrite, version)
            for number in range(2):
                group.start_soon(reread, handle(backend, session=f"reader {number}"))

    assert names_in(tmp_path) == ["a.bin"]


async def test_many_writers_make_the_same_missing_folders(tmp_path: Path) -> None:
    backend = FilesBackend(tmp_path)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(16):
                group.start_soon(handle(backend).write_text, f"a/b/c/{number}", str(number))

    assert contents(tmp_path / "a" / "b" / "c") == {str(number): str(number).encode() for number in range(16)}


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("old")
    files = handle(FilesBackend(tmp_path))

    def full(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FileAccessError) as caught:
        await files.write_text("a.txt", "new")
    monkeypatch.undo()

    assert caught.value.reason == "full"
    assert contents(tmp_path) == {"a.txt": b"old"}


async def test_a_write_that_is_cancelled_is_done_or_not_done(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    files = handle(FilesBackend(tmp_path))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(files.write_text, "a.txt", "new" * 100_000)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    assert contents(tmp_path) in ({"a.txt": b"old"}, {"a.txt": b"new" * 100_000})
