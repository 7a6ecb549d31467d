"""Where the bytes of media come from; nothing here touches the disk."""

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from inspect import isawaitable
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

import anyio.lowlevel
import anyio.to_thread

from spindle.errors import MediaUnreadableError

CHUNK_BYTES: Final = 64 * 1024
_END: Final = object()

Chunks = AsyncIterator[bytes] | Iterable[bytes] | bytes
"""What a reader's `stream` may give."""


class MediaReader(Protocol):
    """Gives the bytes of media, from the start, as often as it is asked; both methods may be sync or async."""

    def stream(self) -> Chunks | Awaitable[Chunks]:
        """Open the source anew and give its bytes in pieces."""
        ...

    def byte_length(self) -> int | Awaitable[int | None] | None:
        """Count the bytes, or give `None` when that is not known beforehand."""
        ...


def is_media_reader(value: object) -> bool:
    """Say whether `value` has the shape of a `MediaReader`."""
    return not isinstance(value, type) and _has(value, "stream") and _has(value, "byte_length")


def bytes_of(value: object) -> bytes | None:
    """Give what is bytes, or a view of them, as bytes; `None` for anything else."""
    if isinstance(value, bytes):
        return value
    return bytes(cast("bytearray", value)) if isinstance(value, bytearray | memoryview) else None


def reader_of(source: object) -> Any:
    """Make a media reader of bytes, of a spool's reader, or of what is one already; anything else is given back."""
    data = bytes_of(source)
    if data is not None:
        return BytesReader(data)
    if not is_media_reader(source) and _has(source, "read_all") and _has(source, "byte_length"):
        return SpoolSource(source)
    return source


class BytesReader:
    """Bytes in memory."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> AsyncIterator[bytes]:
        """Give the bytes in slices."""
        return _Slices(self._data)

    def byte_length(self) -> int:
        """Count the bytes."""
        return len(self._data)


class SpoolSource:
    """What a spool's reader gives: in pieces where it has `chunks(size)`, otherwise all at once."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def stream(self) -> Chunks | Awaitable[Chunks]:
        """Read the spooled bytes from the start."""
        return self._reader.chunks(CHUNK_BYTES) if _has(self._reader, "chunks") else self._reader.read_all()

    def byte_length(self) -> int | Awaitable[int]:
        """Count the bytes."""
        return self._reader.byte_length()


class MediaStream:
    """One reading of media, from its start.

    It closes its source at the end and on an error; who leaves earlier says `async with media.stream() as chunks:` or
    calls `aclose()`.
    """

    __slots__ = ("_chunks", "_name", "_reader")

    def __init__(self, reader: MediaReader, name: str) -> None:
        self._reader: MediaReader | None = reader
        self._chunks: AsyncIterator[bytes] | None = None
        self._name = name

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._chunks is None:
            if self._reader is None:
                raise StopAsyncIteration
            self._chunks = await self._open(self._reader)
        try:
            return self._checked(await anext(self._chunks))
        except BaseException:
            # Also when cancelled: nobody comes back for the rest.
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the source; the stream gives nothing more."""
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

    async def _open(self, reader: MediaReader) -> AsyncIterator[bytes]:
        opened: Any = reader.stream()
        if isawaitable(opened):
            opened = await opened
        if isinstance(opened, str):
            opened = opened.encode()
        data = bytes_of(opened)
        if data is not None:
            return _Slices(data)
        if hasattr(opened, "__aiter__"):
            return aiter(opened)
        if hasattr(opened, "__iter__"):
            return _Stepped(iter(opened))
        raise MediaUnreadableError(
            f"{self._name}: stream() gave {type(opened).__name__}; it must give bytes, or an iterator of bytes",
            field="reader",
        )

    def _checked(self, chunk: object) -> bytes:
        data = bytes_of(chunk)
        if data is not None:
            return data
        raise MediaUnreadableError(
            f"{self._name}: its stream gave {type(chunk).__name__} where bytes are due; read the source in binary mode",
            field="reader",
        )


async def length_of(reader: MediaReader, name: str) -> int | None:
    """Ask a reader for its length, and refuse what is none."""
    length: Any = reader.byte_length()
    if isawaitable(length):
        length = await length
    if length is None or (isinstance(length, int) and not isinstance(length, bool) and length >= 0):
        return length
    raise MediaUnreadableError(
        f"{name}: byte_length() gave {length!r}; it must be a number from 0, or None for unknown", field="reader"
    )


class _Slices:
    """An iterator of its own: an async generator left half-way would have to be collected by the event loop."""

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


class _Stepped:
    """A blocking iterator, stepped in a thread: it may well read a disk."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: Iterator[Any]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        chunk = await anyio.to_thread.run_sync(next, self._chunks, _END)
        if chunk is _END:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            await anyio.to_thread.run_sync(close)


def _has(value: object, method: str) -> bool:
    return callable(getattr(value, method, None))
