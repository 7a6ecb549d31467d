"""A session does not overwrite or remove what it has not seen."""

import os
import threading
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Backends, Call, Capabilities, Err, Executor, ToolContext, ToolRegistry, tool
from spindle.capabilities import FileReach
from spindle.capabilities.files.backend import FilesBackend
from spindle.errors import FileMissingError, StaleWriteError
from tests.capabilities.reaching import everything, handle, names_in

pytestmark = pytest.mark.anyio


async def test_a_file_that_changed_since_it_was_read_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    files = everything(tmp_path)
    await files.read_text("a.txt")
    (tmp_path / "a.txt").write_text("other")

    for attempt in (files.write_text("a.txt", "mine"), files.write_bytes("./a.txt", b"mine"), files.remove("a.txt")):
        with pytest.raises(StaleWriteError) as caught:
            await attempt
        assert caught.value.path.endswith("a.txt")

    assert (tmp_path / "a.txt").read_text() == "other"
    assert names_in(tmp_path) == ["a.txt"]


async def test_a_change_is_found_although_size_and_time_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    files = everything(tmp_path)
    await files.read_text("a.txt")
    times = (tmp_path / "a.txt").stat()
    (tmp_path / "a.txt").write_text("FIRST")
    os.utime(tmp_path / "a.txt", ns=(times.st_atime_ns, times.st_mtime_ns))

    with pytest.raises(StaleWriteError):
        await files.write_text("a.txt", "mine")


async def test_reading_again_is_the_way_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    files = everything(tmp_path)
    await files.read_text("a.txt")
    (tmp_path / "a.txt").write_text("other")
    with pytest.raises(StaleWriteError):
        await files.write_text("a.txt", "mine")

    await files.stat("a.txt")
    await files.list()
    with pytest.raises(StaleWriteError):
        await files.write_text("a.txt", "mine")

    await files.read_bytes("a.txt")
    await files.write_text("a.txt", "mine")
    assert (tmp_path / "a.txt").read_text() == "mine"


async def test_a_file_that_vanished_is_stale_until_that_was_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    files = everything(tmp_path)
    await files.read_text("a.txt")
    (tmp_path / "a.txt").unlink()

    for attempt in (files.write_text("a.txt", "mine"), files.remove("a.txt")):
        with pytest.raises(StaleWriteError):
            await attempt
    assert names_in(tmp_path) == []

    with pytest.raises(FileMissingError):
        await files.read_text("a.txt")
    await files.write_text("a.txt", "mine")
    assert (tmp_path / "a.txt").read_text() == "mine"


async def test_a_missing_file_that_another_writer_creates_is_stale(tmp_path: Path) -> None:
    files = everything(tmp_path)
    with pytest.raises(FileMissingError):
        await files.read_text("a.txt")
    (tmp_path / "a.txt").write_text("theirs")

    for attempt in (files.write_text("a.txt", "mine"), files.remove("a.txt")):
        with pytest.raises(StaleWriteError):
            await attempt
    assert (tmp_path / "a.txt").read_text() == "theirs"


async def test_ones_own_writes_are_not_stale(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    files = everything(tmp_path)
    await files.read_text("a.txt")

    await files.write_text("a.txt", "second")
    await files.write_text("a.txt", "third")
    await files.remove("a.txt")
    await files.write_text("a.txt", "fourth")
    assert (tmp_path / "a.txt").read_text() == "fourth"

    (tmp_path / "a.txt").write_text("theirs")
    with pytest.raises(StaleWriteError):
        await files.write_text("a.txt", "fifth")


async def test_tools_of_one_session_share_what_was_read_and_sessions_do_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    backend = FilesBackend(tmp_path)
    reader, writer = handle(backend, write=[]), handle(backend, read=[])
    other = handle(backend, session="s2")
    await reader.read_text("a.txt")
    await other.read_text("a.txt")

    await writer.write_text("a.txt", "second")

    with pytest.raises(StaleWriteError):
        await other.write_text("a.txt", "mine")
    await writer.write_text("a.txt", "third")


async def test_a_file_never_read_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    files = handle(FilesBackend(tmp_path), read=[])

    await files.write_text("a.txt", "second")
    (tmp_path / "a.txt").write_text("theirs")
    await files.write_text("a.txt", "third")
    (tmp_path / "a.txt").unlink()
    await files.write_text("a.txt", "fourth")

    assert (tmp_path / "a.txt").read_text() == "fourth"


async def test_a_file_that_was_touched_or_replaced_by_the_same_is_not_stale(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    files = everything(tmp_path)
    await files.read_text("a.txt")
    (tmp_path / "copy").write_text("first")
    (tmp_path / "copy").rename(tmp_path / "a.txt")
    os.utime(tmp_path / "a.txt", (1, 1))

    await files.write_text("a.txt", "second")
    assert (tmp_path / "a.txt").read_text() == "second"


async def test_of_many_who_read_the_same_only_one_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "count").write_text("0")
    real, second, entered = os.rename, threading.Event(), count()

    def rename(*args: Any, **options: Any) -> None:
        if next(entered) == 0:
            second.wait(0.2)  # long enough for another to come in, if nothing kept it out
        else:
            second.set()
        real(*args, **options)

    monkeypatch.setattr(os, "rename", rename)
    backends = [FilesBackend(tmp_path), FilesBackend(tmp_path)]
    sessions = [handle(backends[number % 2], session=f"s{number}") for number in range(12)]
    won: list[int] = []

    async def write(number: int) -> None:
        try:
            await sessions[number].write_text("count", str(number + 1))
        except StaleWriteError:
            return
        won.append(number)

    for files in sessions:
        assert await files.read_text("count") == "0"
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(len(sessions)):
                group.start_soon(write, number)

    assert len(won) == 1
    assert (tmp_path / "count").read_text() == str(won[0] + 1)


async def test_no_count_is_lost_when_the_stale_read_again(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    backend = FilesBackend(tmp_path)

    async def add(session: str) -> None:
        files = handle(backend, session=session)
        for _ in range(5):
            while True:
                try:
                    await files.write_text("count", str(int(await files.read_text("count")) + 1))
                except StaleWriteError:
                    continue
                break

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(add, f"s{number}")

    assert (tmp_path / "count").read_text() == "20"


async def test_a_stale_write_has_its_own_code(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")

    @tool(capabilities=Capabilities(files=FileReach(read=["."], write=["."])))
    async def edit(*, ctx: ToolContext) -> str:
        """Read a file and write it, while another writer writes it too."""
        await ctx.files.read_text("a.txt")
        (tmp_path / "a.txt").write_text("theirs")
        await ctx.files.write_text("a.txt", "mine")
        return "written"

    executor = Executor(ToolRegistry([edit]), backends=Backends(files=FilesBackend(tmp_path)))
    (outcome,) = await executor.execute_parallel([Call("c1", "edit", {})], ToolContext("s1"))

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "stale_write"
    assert (tmp_path / "a.txt").read_text() == "theirs"
