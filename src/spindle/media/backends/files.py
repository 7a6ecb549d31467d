"""Media that lies in a file: opened anew for each stream, never held in memory."""

import os
import stat
from io import FileIO
from pathlib import Path
from typing import Self

import anyio.to_thread

from spindle.errors import MediaUnreadableError
from spindle.media.readers import CHUNK_BYTES


class FileReader:
    """Reads one regular file; a relative path is taken from the folder that is current now."""

    __slots__ = ("path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def stream(self) -> "FilePieces":
        """Open the file anew and give it in pieces of 64 KiB."""
        return FilePieces(self.path)

    async def byte_length(self) -> int:
        """Ask the file system how long the file is.

        Raises:
            MediaUnreadableError: There is no regular file at the path.
        """
        return await anyio.to_thread.run_sync(_size, self.path)


class FilePieces:
    """An open file, closed at its end, by `aclose`, or when the last hold on it is gone."""

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
        """Close the file; nothing more is given."""
        await anyio.to_thread.run_sync(self._close)

    def _read(self) -> bytes:
        if self._path is None:
            return b""
        if self._file is None:
            self._file = _opened(self._path)
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
        # Without this a stream that is left half-way would warn, and keep its descriptor until the collector comes.
        self._close()


def _opened(path: Path) -> FileIO:
    try:
        file = FileIO(path, opener=_open_at_once)
    except (OSError, ValueError) as failure:
        raise _unreadable(path, failure) from failure
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise _no_regular_file(path)


def _open_at_once(path: str, flags: int) -> int:
    # A pipe without a writer would block the opening for ever.
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
    return MediaUnreadableError(f"cannot read the media file {str(path)!r}: {why}", field="reader")


def _no_regular_file(path: Path) -> MediaUnreadableError:
    return MediaUnreadableError(
        f"{str(path)!r} is no regular file; media can be read from files, not from folders, pipes or devices",
        field="reader",
    )
