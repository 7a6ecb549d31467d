"""The files capability on a folder of this machine."""

import os
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

from spindle.capabilities.declare import CallScope, FileReach
from spindle.capabilities.files.backend_disk import Disk
from spindle.capabilities.files.backend_open import not_possible, open_root
from spindle.capabilities.files.paths import (
    NOTHING,
    Entries,
    FileStat,
    FileVersion,
    OneWay,
    Place,
    Places,
    ReadTracker,
    SessionFile,
    parse_path,
)
from spindle.concurrency import file_threads
from spindle.errors import CapabilityError, FileMissingError

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 10_000


class FilesBackend:
    """Serves files below `root`: to each tool what it declared, as far as `read` and `write` grant it."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        read: Iterable[str] | None = None,
        write: Iterable[str] | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_entries: int = MAX_ENTRIES,
        hard_links: bool = False,
    ) -> None:
        """Open the root, which stays open as long as anybody holds the backend.

        Raises:
            CapabilityError: The root is no folder, a grant is no list of paths below it, or a limit is not positive.
        """
        for name, limit in (("max_file_bytes", max_file_bytes), ("max_entries", max_entries)):
            if isinstance(limit, bool) or limit < 1:
                raise CapabilityError(f"files: {name} must be at least 1, got {limit!r}", field="files")
        self._read = Places((".",) if read is None else read, what="files: read")
        self._write = Places((".",) if write is None else write, what="files: write")
        fd = open_root(root)
        self.disk = Disk(root=fd, max_file_bytes=max_file_bytes, max_entries=max_entries, hard_links=hard_links)
        self.memory = ReadTracker()
        # There is no other way to close it: a descriptor closed under a thread at work would soon be another folder's.
        weakref.finalize(self, os.close, fd)

    def open(self, need: FileReach, scope: CallScope) -> "FilesHandle":
        """Give one call its handle.

        Raises:
            CapabilityError: The tool declared a path that leads out of the root.
        """
        return FilesHandle(
            backend=self,
            session_id=scope.session_id,
            reading=OneWay("read", Places(need.read, what="files: read"), self._read),
            writing=OneWay("write", Places(need.write, what="files: write"), self._write),
        )

    def lacking(self, need: FileReach) -> list[str]:
        """Name the declared places that are not granted."""
        ways = (("read", need.read, self._read), ("write", need.write, self._write))
        return [
            f"{access} {path!r}"
            for access, paths, granted in ways
            for path in paths
            if not granted.covers(parse_path(path).names)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesHandle:
    """`ctx.files`: what one call may do to files. Every path is relative to the root.

    Each method raises `PathNotReachableError` for a path that is out of reach, and `FileAccessError` for one that is
    in reach and cannot be used as asked.
    """

    backend: FilesBackend
    session_id: str
    reading: OneWay
    writing: OneWay

    async def read_bytes(self, path: str) -> bytes:
        """Give a file's bytes.

        Raises:
            FileMissingError: It does not exist.
        """
        return await self._read(self.reading.judge(path))

    async def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Give a file's text; line ends stay as they are.

        Raises:
            FileMissingError: It does not exist.
        """
        place = self.reading.judge(path)
        return await file_threads.run_abandonable(_decoded, place, await self._read(place), encoding, errors)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Put `data` in the place of a file at once, or make it, with the folders it needs.

        Raises:
            StaleWriteError: It changed since this session read it.
        """
        place = self.writing.judge(path)
        if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise TypeError(f"write_bytes: expected bytes, got {type(data).__name__}")
        await file_threads.run(self._write, place, bytes(data))

    async def write_text(self, path: str, text: str, *, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Put `text` in the place of a file at once, or make it, with the folders it needs.

        Raises:
            StaleWriteError: It changed since this session read it.
        """
        place = self.writing.judge(path)
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise TypeError(f"write_text: expected text, got {type(text).__name__}")
        await file_threads.run(lambda: self._write(place, _encoded(place, text, encoding, errors)))

    async def stat(self, path: str) -> FileStat | None:
        """Look at a file or folder; `None` if nothing is there."""
        place = self.reading.judge(path)
        return await file_threads.run_abandonable(lambda: self.backend.disk.stat(place))

    async def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return await self.stat(path) is not None

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty.

        Raises:
            StaleWriteError: It changed since this session read it.
            FileMissingError: It does not exist.
        """
        place = self.writing.judge(path)
        await file_threads.run(self._remove, place)

    async def make_dir(self, path: str) -> None:
        """Make a folder and those above it; one that exists is left as it is."""
        place = self.writing.judge(path)
        await file_threads.run(lambda: self.backend.disk.make_folder(place, may_make=self.writing.granted.covers))

    async def list(self, path: str = ".") -> Entries:
        """List a folder by name; one that does not exist is empty."""
        place = self.reading.judge(path)
        return await file_threads.run_abandonable(lambda: self.backend.disk.entries(place))

    async def _read(self, place: Place) -> bytes:
        memory, known_as = self.backend.memory, self._known_as(place)
        began = memory.begin()
        try:
            data, seen = await file_threads.run_abandonable(self._read_now, place)
        except FileMissingError:
            memory.read(known_as, NOTHING, began=began)
            raise
        # Noted here and not in the thread: what a cancelled caller never got, it has not read.
        memory.read(known_as, seen, began=began)
        return data

    # What runs in a thread is bound to the handle, which holds the backend and with it the root.

    def _read_now(self, place: Place) -> tuple[bytes, FileVersion]:
        data = self.backend.disk.read(place)
        return data, FileVersion.of(data)

    def _remove(self, place: Place) -> None:
        self.backend.disk.remove(place, memory=self.backend.memory, session_file=self._known_as(place))

    def _write(self, place: Place, data: bytes) -> None:
        self.backend.disk.write(
            place,
            data,
            may_make=self.writing.granted.covers,
            memory=self.backend.memory,
            session_file=self._known_as(place),
        )

    def _known_as(self, place: Place) -> SessionFile:
        return self.session_id, place.names


def _decoded(place: Place, data: bytes, encoding: str, errors: str) -> str:
    try:
        return data.decode(encoding, errors)
    except LookupError as error:
        raise not_possible(
            place, "not_text", f"{encoding!r} with errors={errors!r} is no way to decode text"
        ) from error
    except UnicodeError as error:
        raise not_possible(
            place, "not_text", f"it is no {encoding} text; read its bytes, or name another encoding"
        ) from error


def _encoded(place: Place, text: str, encoding: str, errors: str) -> bytes:
    try:
        return text.encode(encoding, errors)
    except LookupError as error:
        raise not_possible(
            place, "not_text", f"{encoding!r} with errors={errors!r} is no way to encode text"
        ) from error
    except UnicodeError as error:
        raise not_possible(
            place, "not_text", f"the text cannot be written as {encoding}; name another encoding"
        ) from error
