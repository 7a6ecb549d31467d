import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from spindle.errors import MediaUnreadableError
from spindle.media.readers import (
    CHUNK_BYTES,
    MediaBytesReader,
    MediaReader,
    MediaSpoolReader,
    MediaStream,
    get_length,
    is_media_reader,
    to_reader,
)

pytestmark = pytest.mark.anyio
PARTS = [b"ab", b"", b"cde"]


class Source:
    """A media reader whose methods return the given values."""

    def __init__(self, stream: Callable[[], Any], length: Any = None) -> None:
        self.stream = stream
        self.length = length

    def byte_length(self) -> Any:
        return self.length


async def drained(reader: MediaReader) -> bytes:
    async with aclosing(MediaStream(reader, "it")) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def async_parts() -> AsyncIterator[bytes]:
    for part in PARTS:
        yield part


async def awaited_parts() -> AsyncIterator[bytes]:
    return async_parts()


async def awaited_bytes() -> bytes:
    return b"abcde"


def sync_parts() -> Iterator[bytes]:
    yield from PARTS


@pytest.mark.parametrize(
    "stream",
    [
        async_parts,
        awaited_parts,
        awaited_bytes,
        sync_parts,
        lambda: list(PARTS),
        lambda: b"abcde",
        lambda: bytearray(b"abcde"),
        lambda: memoryview(b"abcde"),
        lambda: "abcde",
        lambda: [bytearray(b"ab"), memoryview(b"cde")],
    ],
)
async def test_a_reader_may_give_its_bytes_in_any_usual_way(stream: Callable[[], Any]) -> None:
    reader = Source(stream)

    assert await drained(reader) == b"abcde"
    assert await drained(reader) == b"abcde"


@pytest.mark.parametrize("stream", [lambda: 5, lambda: None, lambda: [b"a", "b"], lambda: [None], lambda: [1]])
async def test_a_value_that_is_not_bytes_is_refused(stream: Callable[[], Any]) -> None:
    with pytest.raises(MediaUnreadableError) as caught:
        await drained(Source(stream))

    assert caught.value.field == "reader"


async def test_a_blocking_iterator_does_not_block_the_loop() -> None:
    go = threading.Event()
    got: list[bytes] = []

    def slow() -> Iterator[bytes]:
        assert go.wait(30)
        yield b"late"

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                got.append(await drained(Source(slow)))

            tasks.start_soon(read)
            await anyio.lowlevel.checkpoint()
            go.set()
    assert got == [b"late"]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_stream_that_is_left_closes_its_source(kind: str) -> None:
    closed: list[str] = []

    async def asynchronous() -> AsyncIterator[bytes]:
        try:
            for part in PARTS:
                yield part
        finally:
            await anyio.lowlevel.checkpoint()
            closed.append("async")

    def synchronous() -> Iterator[bytes]:
        try:
            yield from PARTS
        finally:
            closed.append("sync")

    stream = MediaStream(Source(asynchronous if kind == "async" else synchronous), "it")
    async with stream as chunks:
        async for chunk in chunks:
            assert chunk == b"ab"
            break

    assert closed == [kind]
    assert [chunk async for chunk in stream] == []
    await stream.aclose()


async def test_a_cancelled_stream_closes_its_source() -> None:
    closed = anyio.Event()

    async def waiting() -> AsyncIterator[bytes]:
        try:
            await anyio.sleep_forever()
            yield b""
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            closed.set()

    with anyio.move_on_after(0.01):
        await drained(Source(waiting))

    assert closed.is_set()


async def test_an_error_of_the_source_passes_and_ends_the_stream() -> None:
    def failing() -> Iterator[bytes]:
        yield b"a"
        raise ConnectionError

    stream = MediaStream(Source(failing), "it")

    assert await anext(stream) == b"a"
    with pytest.raises(ConnectionError):
        await anext(stream)
    assert [chunk async for chunk in stream] == []


async def test_bytes_come_in_pieces() -> None:
    data = bytes(range(256)) * 600
    reader = MediaBytesReader(data)

    pieces = [piece async for piece in MediaStream(reader, "it")]

    assert [len(piece) for piece in pieces] == [CHUNK_BYTES, CHUNK_BYTES, len(data) - 2 * CHUNK_BYTES]
    assert b"".join(pieces) == data
    assert await get_length(reader, "it") == len(data)


async def later(value: Any) -> Any:
    return value


@pytest.mark.parametrize("length", [0, 7, None])
async def test_a_length_may_be_unknown_and_may_be_awaited(length: int | None) -> None:
    assert await get_length(Source(sync_parts, length), "it") == length
    assert await get_length(Source(sync_parts, later(length)), "it") == length


@pytest.mark.parametrize("length", [-1, True, "7", 1.5])
async def test_a_value_that_is_not_a_length_is_refused(length: Any) -> None:
    with pytest.raises(MediaUnreadableError):
        await get_length(Source(sync_parts, length), "it")


def test_a_media_reader_is_known_by_its_shape() -> None:
    assert is_media_reader(MediaBytesReader(b""))
    assert is_media_reader(Source(sync_parts))
    assert not is_media_reader(MediaBytesReader)
    assert not is_media_reader(b"")
    assert not is_media_reader(None)


def test_a_reader_is_made_of_bytes_and_of_a_spools_reader_and_of_nothing_else() -> None:
    reader, other = Source(sync_parts), object()

    assert isinstance(to_reader(bytearray(b"a")), MediaBytesReader)
    assert isinstance(to_reader(WholeSpool()), MediaSpoolReader)
    assert to_reader(reader) is reader
    assert to_reader(other) is other


async def test_bytes_are_copied_when_they_could_change() -> None:
    data = bytearray(b"abc")
    reader = to_reader(data)

    data[0] = 0

    assert await drained(reader) == b"abc"


class WholeSpool:
    """A spool's reader that can only give everything at once."""

    async def read_all(self) -> bytes:
        return b"abcde"

    async def byte_length(self) -> int:
        return 5


class PiecewiseSpool(WholeSpool):
    """A spool's reader that gives pieces."""

    async def read_all(self) -> bytes:
        raise AssertionError("the whole must not be read")

    async def chunks(self, size: int) -> AsyncIterator[bytes]:
        assert size == CHUNK_BYTES
        for part in PARTS:
            yield part


@pytest.mark.parametrize("spool", [WholeSpool(), PiecewiseSpool()])
async def test_a_spools_reader_backs_media(spool: WholeSpool) -> None:
    reader = to_reader(spool)

    assert await drained(reader) == b"abcde"
    assert await drained(reader) == b"abcde"
    assert await get_length(reader, "it") == 5
