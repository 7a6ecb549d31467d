"""Files in reach are read, written, listed and removed."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle.capabilities.files.backend import FilesBackend
from spindle.errors import CapabilityError, FileAccessError, FileMissingError, PathNotReachableError
from tests.capabilities.reaching import everything, handle, names_in

pytestmark = pytest.mark.anyio


async def test_written_content_is_read_back(tmp_path: Path) -> None:
    files = everything(tmp_path)
    text = "first\r\nsecond\nüñí 👋\x00\n"

    await files.write_text("a.txt", text)
    await files.write_bytes("b.bin", bytes(range(256)))

    assert await files.read_text("a.txt") == text
    assert await files.read_bytes("b.bin") == bytes(range(256))
    assert (tmp_path / "a.txt").read_bytes() == text.encode()


async def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    files = everything(tmp_path)
    await files.write_text("a.txt", "")

    assert await files.read_bytes("a.txt") == b""


async def test_text_is_read_and_written_in_the_encoding_that_is_named(tmp_path: Path) -> None:
    files = everything(tmp_path)
    await files.write_text("a.txt", "café", encoding="latin-1")

    assert (tmp_path / "a.txt").read_bytes() == b"caf\xe9"
    assert await files.read_text("a.txt", encoding="latin-1") == "café"
    assert await files.read_text("a.txt", errors="replace") == "caf\ufffd"


@pytest.mark.parametrize("options", [{}, {"encoding": "no-such"}, {"errors": "no-such"}, {"encoding": "zlib"}])
async def test_bytes_that_are_not_text_are_refused_as_text(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe\xff")

    with pytest.raises(FileAccessError) as caught:
        await everything(tmp_path).read_text("a.bin", **options)

    assert (caught.value.path, caught.value.reason) == ("a.bin", "not_text")


async def test_text_that_cannot_be_encoded_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError) as caught:
        await everything(tmp_path).write_text("a.txt", "half \ud800")

    assert caught.value.reason == "not_text"
    assert names_in(tmp_path) == []


async def test_the_wrong_kind_of_content_is_a_mistake_of_the_tool(tmp_path: Path) -> None:
    files: Any = everything(tmp_path)

    with pytest.raises(TypeError):
        await files.write_bytes("a", 5)
    with pytest.raises(TypeError):
        await files.write_text("a", b"x")

    assert names_in(tmp_path) == []


async def test_a_missing_file_is_reported_by_type_and_path(tmp_path: Path) -> None:
    files = everything(tmp_path)

    with pytest.raises(FileMissingError) as caught:
        await files.read_text("no/such.txt")
    with pytest.raises(FileNotFoundError):
        await files.remove("no-such.txt")

    assert caught.value.path == "no/such.txt"
    assert str(tmp_path) not in str(caught.value)
    assert await files.stat("no/such.txt") is None
    assert not await files.exists("no/such.txt")
    assert await files.list("no") == []


async def test_nothing_is_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    files = everything(tmp_path)

    assert await files.stat("a.txt/b") is None
    assert await files.stat("a.txt/") is None
    assert not await files.exists("a.txt/b/c")
    for attempt in (files.read_bytes("a.txt/b"), files.list("a.txt"), files.make_dir("a.txt"), files.remove("a.txt/")):
        with pytest.raises(FileAccessError) as caught:
            await attempt
        assert caught.value.reason == "not_a_folder"


async def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    files = everything(tmp_path)

    for path in ("data", "data/", ".", "./"):
        for attempt in (files.read_bytes(path), files.write_bytes(path, b"x")):
            with pytest.raises(FileAccessError) as caught:
                await attempt
            assert caught.value.reason == "not_a_file"


async def test_a_file_is_described(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("four")
    os.utime(tmp_path / "data" / "a.txt", (1_000_000_000, 1_000_000_000))
    files = everything(tmp_path)

    found = await files.stat("./data//a.txt")
    folder = await files.stat("data/")
    root = await files.stat(".")

    assert found is not None
    assert (found.path, found.kind, found.size_bytes) == ("data/a.txt", "file", 4)
    assert found.modified_at == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert folder is not None
    assert (folder.path, folder.kind) == ("data", "folder")
    assert root is not None
    assert (root.path, root.kind) == (".", "folder")
    assert await files.exists("data/a.txt")


async def test_a_folder_is_listed_by_name_with_paths_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "b.txt").write_text("b")
    (tmp_path / "data" / "a.txt").write_text("aa")
    (tmp_path / "data" / "link").symlink_to("a.txt")
    os.mkfifo(tmp_path / "data" / "pipe")
    files = everything(tmp_path)

    found = await files.list("data")

    assert [(entry.name, entry.path, entry.kind) for entry in found] == [
        ("a.txt", "data/a.txt", "file"),
        ("b.txt", "data/b.txt", "file"),
        ("link", "data/link", "symlink"),
        ("pipe", "data/pipe", "other"),
        ("sub", "data/sub", "folder"),
    ]
    assert found[0].size_bytes == 2
    assert await files.read_text(found[0].path) == "aa"
    assert [entry.path for entry in await files.list()] == ["data"]


async def test_a_name_that_is_not_a_utf8_is_listed_and_can_be_read(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad-\xff.txt")).write_text("x")
    files = everything(tmp_path)

    (entry,) = await files.list()

    assert entry.name == "bad-\udcff.txt"
    assert await files.read_text(entry.path) == "x"


async def test_too_long_a_list_is_refused_not_cut(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).touch()

    assert len(await handle(FilesBackend(tmp_path, max_entries=4)).list()) == 4
    with pytest.raises(FileAccessError) as caught:
        await handle(FilesBackend(tmp_path, max_entries=3)).list()
    assert caught.value.reason == "too_large"


async def test_files_over_the_limit_are_neither_read_nor_written(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte that takes no room
    (tmp_path / "full").write_bytes(b"x" * 10)
    files = handle(FilesBackend(tmp_path, max_file_bytes=10))

    with anyio.fail_after(30):
        for attempt in (files.read_bytes("huge"), files.write_bytes("new", b"x" * 11)):
            with pytest.raises(FileAccessError) as caught:
                await attempt
            assert caught.value.reason == "too_large"
    await files.write_bytes("new", b"y" * 10)
    assert await files.read_bytes("full") == b"x" * 10
    assert (tmp_path / "new").read_bytes() == b"y" * 10


async def test_files_and_empty_folders_are_removed(tmp_path: Path) -> None:
    files = everything(tmp_path)
    await files.write_text("data/a.txt", "x")

    with pytest.raises(FileAccessError) as caught:
        await files.remove("data")
    await files.remove("data/a.txt")
    await files.remove("data/")

    assert caught.value.reason == "not_empty"
    assert names_in(tmp_path) == []


async def test_the_root_cannot_be_removed(tmp_path: Path) -> None:
    with pytest.raises(PathNotReachableError):
        await everything(tmp_path).remove(".")

    assert names_in(tmp_path) == []


async def test_folders_are_made_with_those_above_them(tmp_path: Path) -> None:
    files = everything(tmp_path)

    await files.make_dir("a/b/c")
    await files.make_dir("a/b/c/")
    await files.make_dir(".")

    assert (tmp_path / "a" / "b" / "c").is_dir()


async def test_a_declared_folder_is_made_on_the_first_write(tmp_path: Path) -> None:
    files = handle(FilesBackend(tmp_path), read=["out"], write=["out/reports"])

    assert await files.list("out/reports") == []
    assert not (tmp_path / "out").exists()
    await files.write_text("out/reports/2026/a.md", "x")

    assert (tmp_path / "out" / "reports" / "2026" / "a.md").read_text() == "x"


async def test_no_folder_is_made_outside_of_what_is_granted(tmp_path: Path) -> None:
    files = handle(FilesBackend(tmp_path, write=["out/reports"]), write=["out/reports"])

    for attempt in (files.write_text("out/reports/a.md", "x"), files.make_dir("out/reports")):
        with pytest.raises(PathNotReachableError):
            await attempt
    assert names_in(tmp_path) == []

    (tmp_path / "out").mkdir()
    await files.write_text("out/reports/a.md", "x")
    assert (tmp_path / "out" / "reports" / "a.md").read_text() == "x"


async def test_reading_and_writing_are_granted_apart(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("x")
    files = handle(FilesBackend(tmp_path, read=["data"], write=["out"]))
    await files.write_text("out/b.txt", "y")

    for attempt in (
        files.read_text("out/b.txt"),
        files.stat("out/b.txt"),
        files.exists("out/b.txt"),
        files.list("out"),
        files.write_text("data/a.txt", "z"),
        files.remove("data/a.txt"),
        files.make_dir("data/sub"),
    ):
        with pytest.raises(PathNotReachableError):
            await attempt
    assert await files.read_text("data/a.txt") == "x"


async def test_undeclared_files_are_unreachable_however_much_is_granted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    files = handle(FilesBackend(tmp_path), read=[], write=[])

    for attempt in (files.read_text("a.txt"), files.list("."), files.write_text("b.txt", "x")):
        with pytest.raises(PathNotReachableError):
            await attempt


async def test_a_name_with_controls_is_not_made_but_can_be_replaced_and_removed(tmp_path: Path) -> None:
    files = everything(tmp_path)
    for attempt in (files.write_text("a\nb", "x"), files.make_dir("a\nb")):
        with pytest.raises(PathNotReachableError):
            await attempt
    assert names_in(tmp_path) == []

    (tmp_path / "a\nb").write_text("old")
    await files.write_text("a\nb", "new")
    assert await files.read_text("a\nb") == "new"
    await files.remove("a\nb")


async def test_nothing_but_the_file_is_left_behind(tmp_path: Path) -> None:
    files = everything(tmp_path)
    (tmp_path / "folder").mkdir()
    await files.write_text("a.txt", "1")
    await files.write_text("a.txt", "2")
    with pytest.raises(FileAccessError):
        await files.write_text("folder", "x")

    assert names_in(tmp_path) == ["a.txt", "folder"]


@pytest.mark.parametrize("root", ["missing", "file", "/proc", "/proc/self", "/sys"])
def test_a_root_must_be_a_folder_of_ones_own(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CapabilityError) as caught:
        FilesBackend(tmp_path / root)

    assert caught.value.field == "files"


@pytest.mark.parametrize(
    "options", [{"read": "data"}, {"write": ["../out"]}, {"read": ["/etc"]}, {"max_file_bytes": 0}, {"max_entries": -1}]
)
def test_bad_grants_are_refused_when_the_backend_is_made(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(CapabilityError):
        FilesBackend(tmp_path, **options)


def test_a_declared_path_out_of_the_root_is_refused_when_the_handle_is_opened(tmp_path: Path) -> None:
    with pytest.raises(CapabilityError):
        handle(FilesBackend(tmp_path), read=["../other"])


async def test_the_root_is_the_folder_it_was_also_after_its_name_was_given_to_another(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.txt").write_text("ours")
    files = everything(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "moved")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.txt").write_text("theirs")

    assert await files.read_text("a.txt") == "ours"
