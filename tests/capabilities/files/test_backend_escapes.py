"""No path leads out: each way is tried with each method, and what is outside stays as it was."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from spindle.capabilities.files.backend import FilesBackend, FilesHandle
from spindle.errors import PathNotReachableError, SpindleError
from tests.capabilities.reaching import SECRET, contents, everything, handle, open_below, trapped

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

OUT_OF_THE_TEXT = [
    "../outside/secret.txt",
    "data/../../outside/secret.txt",
    "data/../private/secret.txt",
    "private/secret.txt",
    "/outside/secret.txt",
    "//outside/secret.txt",
    "/proc/self/cwd/secret.txt",
    "data/\0/../../../outside/secret.txt",
    "data/a.txt\0.png",
    "data/./../../outside/deep/../secret.txt",
    "out/../../outside/secret.txt",
    "out/../private/secret.txt",
    "",
    "data/" + "x" * 300,
    "data/" + "x/" * 3000,
    "data/\ud800",
    "DATA/a.txt",
    "ｄata/a.txt",
]
OUT_ON_THE_DISK = [
    "link/secret.txt",
    "link/deep/secret.txt",
    "link",
    "link/",
    "secret",
    "relative",
    "private/secret.txt",
    "inner/b.txt",
    "up/private/secret.txt",
    "up/data/link/etc/passwd",
    "dangling",
    "dangling/x",
    "loop",
    "loop/x",
    "chain/secret.txt",
    "root/etc/passwd",
    "cwd/secret.txt",
    "cwd/new.txt",
    "hard",
    "fifo",
    "socket",
    "fifo/x",
    "socket/x",
]
READS: dict[str, Callable[[FilesHandle, str], Awaitable[object]]] = {
    "read_text": lambda files, path: files.read_text(path),
    "read_bytes": lambda files, path: files.read_bytes(path),
    "stat": lambda files, path: files.stat(path),
    "exists": lambda files, path: files.exists(path),
}
LISTS: dict[str, Callable[[FilesHandle, str], Awaitable[object]]] = {"list": lambda files, path: files.list(path)}
WRITES: dict[str, Callable[[FilesHandle, str], Awaitable[object]]] = {
    "write_text": lambda files, path: files.write_text(path, "overwritten"),
    "write_bytes": lambda files, path: files.write_bytes(path, b"overwritten"),
    "remove": lambda files, path: files.remove(path),
}
FOLDERS: dict[str, Callable[[FilesHandle, str], Awaitable[object]]] = {
    "make_dir": lambda files, path: files.make_dir(path)
}


def said_so_already(way: str, path: str) -> bool:
    """Whether the wrong kind of path is refused before it matters what is there."""
    if way in {*LISTS, *FOLDERS}:
        return path == "hard"  # a plain file is not a folder, whatever other names it has
    return path.endswith("/") and way not in {"stat", "exists", "remove"}


@pytest.fixture(autouse=True)
def _standing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the working folder one of the test's own, since /proc/self/cwd is among the ways out."""
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "outside")


@pytest.mark.parametrize("path", OUT_OF_THE_TEXT)
async def test_a_path_whose_text_leads_out_is_refused_by_every_method(tmp_path: Path, path: str) -> None:
    files = handle(FilesBackend(trapped(tmp_path)), read=["data"], write=["out"])
    before = contents(tmp_path)

    for way in (READS | LISTS | WRITES | FOLDERS).values():
        with pytest.raises(PathNotReachableError) as caught:
            await way(files, path)
        assert caught.value.path == path
        assert str(tmp_path) not in str(caught.value)

    assert contents(tmp_path) == before


@pytest.mark.parametrize("path", OUT_ON_THE_DISK)
async def test_nothing_is_read_through_a_link_or_a_special_file(tmp_path: Path, path: str) -> None:
    files = handle(FilesBackend(trapped(tmp_path)), read=["data"])

    for way, read in (READS | LISTS).items():
        with anyio.fail_after(30), pytest.raises(SpindleError) as caught:
            await read(files, f"data/{path}")

        assert isinstance(caught.value, PathNotReachableError) or said_so_already(way, path), way
        assert str(tmp_path) not in str(caught.value), way


@pytest.mark.parametrize("path", OUT_ON_THE_DISK)
async def test_nothing_is_written_through_a_link_or_a_special_file(tmp_path: Path, path: str) -> None:
    files = handle(FilesBackend(trapped(tmp_path)), write=["out"])
    before = contents(tmp_path)

    for way, write in (WRITES | FOLDERS).items():
        with anyio.fail_after(30), pytest.raises(SpindleError) as caught:
            await write(files, f"out/{path}")

        assert isinstance(caught.value, PathNotReachableError) or said_so_already(way, path), way
        assert contents(tmp_path) == before, way


async def test_a_granted_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside" / "a.txt").write_bytes(SECRET)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "data").symlink_to(tmp_path / "outside")
    files = handle(FilesBackend(tmp_path / "root", read=["data"], write=["data"]), read=["data"], write=["data"])

    for attempt in (files.read_bytes("data/a.txt"), files.list("data"), files.write_bytes("data/b.txt", b"x")):
        with pytest.raises(PathNotReachableError):
            await attempt
    assert contents(tmp_path / "outside") == {"a.txt": SECRET}


async def test_a_root_given_through_a_link_is_the_callers_choice(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    await everything(tmp_path / "root").write_text("a.txt", "x")

    assert (tmp_path / "real" / "a.txt").read_text() == "x"


async def test_hard_links_are_read_and_replaced_only_where_that_is_granted(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_bytes(SECRET)
    (tmp_path / "root").mkdir()
    os.link(tmp_path / "outside.txt", tmp_path / "root" / "a.txt")
    files = handle(FilesBackend(tmp_path / "root", hard_links=True))

    assert await files.read_bytes("a.txt") == SECRET
    await files.write_bytes("a.txt", b"new")

    assert (tmp_path / "root" / "a.txt").read_bytes() == b"new"
    assert (tmp_path / "outside.txt").read_bytes() == SECRET


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")
@pytest.mark.parametrize(
    "path",
    [
        "proc/self/environ",
        "proc/{pid}/environ",
        "proc/{pid}/./root/etc/passwd",
        "proc/{pid}/cwd/x",
        "proc/{pid}/fd/0",
        "proc/{pid}/mem",
        "proc/sys/kernel/hostname",
        "sys/kernel/notes",
        "dev/null",
        "dev/zero",
        "dev/stdin",
        "dev/fd/0",
    ],
)
async def test_kernel_files_are_out_of_reach_even_with_the_root_folder_granted(path: str) -> None:
    files = handle(FilesBackend("/"), write=[])
    path = path.format(pid=os.getpid())

    with anyio.fail_after(30):
        for way in READS.values():  # and no writing: this root is the machine's own
            with pytest.raises(PathNotReachableError):
                await way(files, path)


async def test_a_file_that_is_being_written_is_neither_listed_nor_read(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ".spindle-00ff.draft").write_text("half")
    files = everything(tmp_path / "root")

    assert await files.list() == []
    with pytest.raises(PathNotReachableError):
        await files.read_text(".spindle-00ff.draft")


async def test_refusals_leave_no_descriptor_open(tmp_path: Path) -> None:
    files = handle(FilesBackend(trapped(tmp_path)))
    await files.read_bytes("data/a.txt")
    before = open_below(tmp_path)

    for path in OUT_ON_THE_DISK:
        for way in (READS | LISTS | WRITES | FOLDERS).values():
            with pytest.raises(SpindleError):
                await way(files, f"out/{path}")

    assert open_below(tmp_path) == before


def test_a_forgotten_backend_lets_go_of_its_root(tmp_path: Path) -> None:
    backend = FilesBackend(tmp_path)
    assert open_below(tmp_path) == [str(tmp_path)]

    del backend

    assert open_below(tmp_path) == []
