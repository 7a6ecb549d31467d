"""Media in a local file, opened for each stream and never held in memory."""

import os
import stat
from io import FileIO
from pathlib import Path
from typing import Self

import anyio.to_thread

from spindle.addresses import parse_local_path
from spindle.errors import MediaUnreadableError
from spindle.media.readers import CHUNK_BYTES


class FileReader:
    """A reader of one regular file; a relative path is resolved against the current folder at construction."""

    __slots__ = ("path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = parse_local_path(path)

    def stream(self) -> "FileChunks":
        """Open the file again and return it in chunks of 64 KiB."""
        return FileChunks(self.path)

    async def byte_length(self) -> int:
        """Return the size of the file.

        Raises:
            MediaUnreadableError: The path is not a readable regular file.
        """
        return await anyio.to_thread.run_sync(_size, self.path)


class FileChunks:
    """An async iterator over a file, which is closed at its end, by `aclose`, or on garbage collection."""

    __slots__ = ("_file", "_path")

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path
        self._file: FileIO | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await anyio.to_thread.run_sync(self._read)
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Close the file and end the iteration."""
        await anyio.to_thread.run_sync(self._close)

    def _read(self) -> bytes:
        if self._path is None:
            return b""
        if self._file is None:
            self._file = _open_regular_file(self._path)
        try:
            piece = self._file.read(CHUNK_BYTES) or b""
        except OSError as failure:
            raise _unreadable(self._path, failure) from failure
        if not piece:
            self._close()
        return piece

    def _close(self) -> None:
        self._path = None
        if self._file is not None:
            self._file.close()

    def __del__(self) -> None:
        # An abandoned stream would otherwise emit a ResourceWarning and keep its descriptor until garbage collection.
        self._close()


def _open_regular_file(path: Path) -> FileIO:
    try:
        file = FileIO(path, opener=_open_nonblocking)
    except (OSError, ValueError) as failure:
        raise _unreadable(path, failure) from failure
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise _no_regular_file(path)


def _open_nonblocking(path: str, flags: int) -> int:
    # Opening a pipe without a writer would block forever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except (OSError, ValueError) as failure:
        raise _unreadable(path, failure) from failure
    if not stat.S_ISREG(found.st_mode):
        raise _no_regular_file(path)
    return found.st_size


def _unreadable(path: Path, failure: Exception) -> MediaUnreadableError:
    why = failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)
    return MediaUnreadableError(f"cannot read media file {str(path)!r}: {why}", field="reader")


def _no_regular_file(path: Path) -> MediaUnreadableError:
    return MediaUnreadableError(
        f"{str(path)!r} is not a regular file; media cannot be read from folders, pipes or devices",
        field="reader",
    )
