"""Readers and streams of media bytes, from memory and spools; `backends/files.py` reads the disk."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from inspect import isawaitable
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeGuard

import anyio.lowlevel
import anyio.to_thread

from spindle.errors import MediaUnreadableError
from spindle.json_types import is_buffer, untyped

CHUNK_BYTES: Final = 64 * 1024
_END: Final = object()

Chunks = AsyncIterator[bytes] | Iterable[bytes] | bytes
"""What a reader's `stream` may return."""


class SpooledBytes(Protocol):
    """The part of a spool's reader that `MediaSpoolReader` needs; `chunks(size)` is used if there is one."""

    def read_all(self) -> bytes | Awaitable[bytes]:
        """Return all bytes."""
        ...

    def byte_length(self) -> int | Awaitable[int]:
        """Return the number of bytes."""
        ...


class MediaReader(Protocol):
    """A re-readable source of media bytes; both methods may be sync or async."""

    def stream(self) -> Chunks | Awaitable[Chunks]:
        """Open the source again and return its bytes in chunks."""
        ...

    def byte_length(self) -> int | Awaitable[int | None] | None:
        """Return the number of bytes, or `None` if it is not known without reading."""
        ...


def is_media_reader(value: object) -> TypeGuard[MediaReader]:
    """Return whether `value` has the methods of a `MediaReader`."""
    return not isinstance(value, type) and _has(value, "stream") and _has(value, "byte_length")


def to_bytes(value: object) -> bytes | None:
    """Convert a bytes-like value to bytes; return `None` for anything else."""
    if isinstance(value, bytes):
        return value
    return bytes(value) if is_buffer(value) else None


def to_reader(source: object) -> Any:
    """Wrap bytes or a spool's reader in a media reader; return anything else unchanged."""
    data = to_bytes(source)
    if data is not None:
        return MediaBytesReader(data)
    if not is_media_reader(source) and _is_spooled(source):
        return MediaSpoolReader(source)
    return source


class MediaBytesReader:
    """Bytes in memory."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def stream(self) -> AsyncIterator[bytes]:
        """Return the bytes in chunks."""
        return _Slices(self.data)

    def byte_length(self) -> int:
        """Return the number of bytes."""
        return len(self.data)


class MediaSpoolReader:
    """A spool's reader as a media reader: in chunks if it has `chunks(size)`, otherwise all at once."""

    __slots__ = ("_reader",)

    def __init__(self, reader: SpooledBytes) -> None:
        self._reader = reader

    def stream(self) -> Chunks | Awaitable[Chunks]:
        """Read the spooled bytes from the start."""
        chunks: Callable[[int], Chunks] | None = getattr(self._reader, "chunks", None)
        return self._reader.read_all() if chunks is None else chunks(CHUNK_BYTES)

    def byte_length(self) -> int | Awaitable[int]:
        """Return the number of bytes."""
        return self._reader.byte_length()


class MediaStream:
    """One pass over the bytes of media, from the start.

    The source is closed at the end and on an error. To stop earlier, use `async with media.stream() as chunks:` or
    call `aclose()`.
    """

    __slots__ = ("_chunks", "_name", "_reader")

    def __init__(self, reader: MediaReader, name: str) -> None:
        self._reader: MediaReader | None = reader
        self._chunks: AsyncIterator[object] | None = None
        self._name = name

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._chunks is None:
            if self._reader is None:
                raise StopAsyncIteration
            self._chunks = await self._open(self._reader)
        try:
            return self._check_chunk(await anext(self._chunks))
        except BaseException:
            # Also on cancellation, since iteration does not resume.
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the source and end the stream."""
        chunks, self._chunks, self._reader = self._chunks, None, None
        close = getattr(chunks, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _open(self, reader: MediaReader) -> AsyncIterator[object]:
        opened: Any = reader.stream()
        if isawaitable(opened):
            opened = await opened
        if isinstance(opened, str):
            opened = opened.encode()
        data = to_bytes(opened)
        if data is not None:
            return _Slices(data)
        if hasattr(opened, "__aiter__"):
            return aiter(opened)
        if hasattr(opened, "__iter__"):
            return _ThreadedIterator(iter(opened))
        raise MediaUnreadableError(
            f"{self._name}: stream() returned {type(opened).__name__}; expected bytes or an iterator of bytes",
            field="reader",
        )

    def _check_chunk(self, chunk: object) -> bytes:
        data = to_bytes(chunk)
        if data is not None:
            return data
        raise MediaUnreadableError(
            f"{self._name}: expected chunks of bytes, got {type(chunk).__name__}; open the source in binary mode",
            field="reader",
        )


async def get_length(reader: MediaReader, name: str) -> int | None:
    """Return the length of a reader, or `None` if unknown.

    Raises:
        MediaUnreadableError: `byte_length()` returned something else.
    """
    length = untyped(reader.byte_length())
    if isawaitable(length):
        length = await length
    if length is None or (isinstance(length, int) and not isinstance(length, bool) and length >= 0):
        return length
    raise MediaUnreadableError(
        f"{name}: byte_length() returned {length!r}; expected an integer of at least 0, or None if unknown",
        field="reader",
    )


class _Slices:
    """An async iterator over slices of bytes; an abandoned async generator would need finalizing by the event loop."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self._at >= len(self._data):
            raise StopAsyncIteration
        start, self._at = self._at, self._at + CHUNK_BYTES
        return self._data[start : self._at]


class _ThreadedIterator:
    """An async iterator that advances a blocking iterator in a thread, since it may read a disk."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: Iterator[object]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        chunk = await anyio.to_thread.run_sync(next, self._chunks, _END)
        if chunk is _END:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            await anyio.to_thread.run_sync(close)


def _is_spooled(value: object) -> TypeGuard[SpooledBytes]:
    return _has(value, "read_all") and _has(value, "byte_length")


def _has(value: object, method: str) -> bool:
    return callable(getattr(value, method, None))
