import gc
import os
import pickle
import socket
import tracemalloc
from pathlib import Path

import pytest

from spindle.errors import MediaUnreadableError
from spindle.media.backends.files import FileReader
from spindle.media.readers import CHUNK_BYTES
from tests.bounds import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big.bin"
    path.write_bytes(CONTENT)
    return path


def open_files_of(path: Path) -> int:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("this system does not list a process's descriptors")
    gc.collect()
    return sum(os.path.realpath(link) == str(path) for link in descriptors.iterdir())


def wait_until_closed(path: Path) -> None:
    """Wait for the worker thread too, which drops its reference to a stream after it has answered."""
    wait_until(lambda: open_files_of(path) == 0)


async def test_a_file_comes_in_pieces_as_often_as_asked(big: Path) -> None:
    reader = FileReader(big)

    for _ in range(2):
        pieces = [piece async for piece in reader.stream()]
        assert {len(piece) for piece in pieces[:-1]} == {CHUNK_BYTES}
        assert b"".join(pieces) == CONTENT
    assert await reader.byte_length() == 256_000
    wait_until_closed(big)


async def test_two_streams_of_one_file_do_not_meet(big: Path) -> None:
    reader = FileReader(str(big))
    one, two = reader.stream(), reader.stream()

    assert await anext(one) == await anext(two)
    assert open_files_of(big) == 2
    del one, two
    wait_until_closed(big)


async def test_a_stream_that_is_left_half_way_closes_its_file(big: Path) -> None:
    async for _ in FileReader(big).stream():
        break

    wait_until_closed(big)


async def test_a_file_is_never_whole_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    length = 0

    tracemalloc.start()
    try:
        async for piece in FileReader(path).stream():
            length += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert length == 64 * 1024 * 1024
    assert peak < 2 * 1024 * 1024


async def test_an_empty_file_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    reader = FileReader(tmp_path / "empty")

    assert [piece async for piece in reader.stream()] == []
    assert await reader.byte_length() == 0


def kinds_of_nothing(folder: Path) -> dict[str, Path]:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    return {
        "missing": folder / "missing",
        "folder": folder,
        "pipe": folder / "pipe",
        "device": Path("/dev/zero"),
        "loop": folder / "loop",
        "nul": folder / "a\0b",
        "below a file": Path(__file__) / "x",
    }


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "device", "loop", "nul", "below a file"])
async def test_only_regular_files_are_read(kind: str, tmp_path: Path) -> None:
    reader = FileReader(kinds_of_nothing(tmp_path)[kind])

    with pytest.raises(MediaUnreadableError) as caught:
        await anext(reader.stream())
    assert caught.value.field == "reader"
    with pytest.raises(MediaUnreadableError):
        await reader.byte_length()


async def test_a_socket_is_not_media(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))

        with pytest.raises(MediaUnreadableError):
            await anext(FileReader(tmp_path / "s").stream())


async def test_a_relative_path_is_kept_when_the_folder_changes(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(big.parent)
    reader = FileReader("big.bin")
    monkeypatch.chdir("/")

    assert await reader.byte_length() == 256_000
    assert await pickle.loads(pickle.dumps(reader)).byte_length() == 256_000


async def test_a_closed_stream_gives_nothing_more(big: Path) -> None:
    stream = FileReader(big).stream()
    await anext(stream)

    await stream.aclose()

    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    wait_until_closed(big)
