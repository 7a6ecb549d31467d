"""The files backend on a folder of this machine, and the handle that tools use."""

import os
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

from spindle.capabilities.declare import CallScope, FileReach
from spindle.capabilities.files.backend_disk import Disk
from spindle.capabilities.files.backend_open import build_access_error, open_root
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
from spindle.capabilities.withheld import WithheldPaths
from spindle.concurrency import file_threads
from spindle.errors import CapabilityError, FileMissingError
from spindle.json_types import untyped

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 10_000


class FilesBackend:
    """A backend that serves files below `root`: those a tool declared and `read` and `write` grant."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        read: Iterable[str] | None = None,
        write: Iterable[str] | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_entries: int = MAX_ENTRIES,
        hard_links: bool = False,
        credential_files: Iterable[str] = (),
    ) -> None:
        """Open the root folder, which stays open as long as the backend is referenced.

        Credential files such as `.ssh` are withheld, except for the paths below the root in `credential_files`.

        Raises:
            CapabilityError: The root is not a folder, a grant is not a list of paths below it, or a limit is below 1;
                or the root is within a credential folder, and `credential_files` does not open it.
        """
        for name, limit in (("max_file_bytes", max_file_bytes), ("max_entries", max_entries)):
            if isinstance(limit, bool) or limit < 1:
                raise CapabilityError(f"files: {name} must be at least 1, got {limit!r}", field="files")
        self._read = Places((".",) if read is None else read, what="files: read")
        self._write = Places((".",) if write is None else write, what="files: write")
        opened = Places(credential_files, what="files: credential_files")
        fd = open_root(root)
        self.withheld = WithheldPaths(os.path.realpath(root), opened)
        reason = self.withheld.find_reason(())
        if reason is not None:
            os.close(fd)
            raise CapabilityError(f"files: {os.fspath(root)!r} cannot be a root: {reason}", field="files")
        self.disk = Disk(
            root=fd,
            max_file_bytes=max_file_bytes,
            max_entries=max_entries,
            hard_links=hard_links,
            withheld=self.withheld,
        )
        self.read_tracker = ReadTracker()
        # Closed only here: if it were closed while a thread uses it, the number could be reused for another folder.
        weakref.finalize(self, os.close, fd)

    def open(self, need: FileReach, scope: CallScope) -> "FilesHandle":
        """Return the handle of one call.

        Raises:
            CapabilityError: The tool declared a path outside the root.
        """
        return FilesHandle(
            backend=self,
            session_id=scope.session_id,
            readable=OneWay("read", Places(need.read, what="files: read"), self._read, self.withheld),
            writable=OneWay("write", Places(need.write, what="files: write"), self._write, self.withheld),
        )

    def lacking(self, need: FileReach) -> list[str]:
        """Return the declared paths that are not granted."""
        ways = (("read", need.read, self._read), ("write", need.write, self._write))
        return [
            f"{access} {path!r}"
            for access, paths, granted in ways
            for path in paths
            if not granted.covers(parse_path(path).names)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesHandle:
    """The files handle of one call, `ctx.files`; every path is relative to the root.

    Each method raises `PathNotReachableError` for a path that is not allowed, and `FileAccessError` for an allowed path
    on which the operation fails.
    """

    backend: FilesBackend
    session_id: str
    readable: OneWay
    writable: OneWay

    async def read_bytes(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            FileMissingError: The file does not exist.
        """
        return await self._read(self.readable.judge(path))

    async def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the text of a file; line endings are unchanged.

        Raises:
            FileMissingError: The file does not exist.
        """
        place = self.readable.judge(path)
        return await file_threads.run_abandonable(_decode, place, await self._read(place), encoding, errors)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Atomically create or replace a file with `data`; missing folders are created.

        Raises:
            StaleWriteError: The file changed since this session read it.
        """
        place = self.writable.judge(path)
        if not isinstance(untyped(data), (bytes, bytearray, memoryview)):
            raise TypeError(f"write_bytes: expected bytes, got {type(data).__name__}")
        await file_threads.run(self._write, place, bytes(data))

    async def write_text(self, path: str, text: str, *, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Atomically create or replace a file with `text`; missing folders are created.

        Raises:
            StaleWriteError: The file changed since this session read it.
        """
        place = self.writable.judge(path)
        if not isinstance(untyped(text), str):
            raise TypeError(f"write_text: expected text, got {type(text).__name__}")
        await file_threads.run(lambda: self._write(place, _encode(place, text, encoding, errors)))

    async def stat(self, path: str) -> FileStat | None:
        """Return the status of a file or folder, or None if it does not exist."""
        place = self.readable.judge(path)
        return await file_threads.run_abandonable(lambda: self.backend.disk.stat(place))

    async def exists(self, path: str) -> bool:
        """Return True if a file or folder exists."""
        return await self.stat(path) is not None

    async def remove(self, path: str) -> None:
        """Remove a file or an empty folder.

        Raises:
            StaleWriteError: The file changed since this session read it.
            FileMissingError: The file does not exist.
        """
        place = self.writable.judge(path)
        await file_threads.run(self._remove, place)

    async def make_dir(self, path: str) -> None:
        """Create a folder and its parents; an existing folder is left unchanged."""
        place = self.writable.judge(path)
        await file_threads.run(lambda: self.backend.disk.make_folder(place, may_make=self.writable.granted.covers))

    async def list(self, path: str = ".") -> Entries:
        """List a folder, sorted by name; a folder that does not exist yields an empty list."""
        place = self.readable.judge(path)
        return await file_threads.run_abandonable(lambda: self.backend.disk.list_entries(place))

    async def _read(self, place: Place) -> bytes:
        memory, known_as = self.backend.read_tracker, self._session_file(place)
        began = memory.begin()
        try:
            data, seen = await file_threads.run_abandonable(self._read_now, place)
        except FileMissingError:
            memory.record_read(known_as, NOTHING, began=began)
            raise
        # Recorded here and not in the thread: a cancelled caller never received the data, so it has not read the file.
        memory.record_read(known_as, seen, began=began)
        return data

    # Functions run in threads are bound methods, because the handle keeps the backend and its root open.

    def _read_now(self, place: Place) -> tuple[bytes, FileVersion]:
        data = self.backend.disk.read(place)
        return data, FileVersion.of(data)

    def _remove(self, place: Place) -> None:
        self.backend.disk.remove(place, read_tracker=self.backend.read_tracker, session_file=self._session_file(place))

    def _write(self, place: Place, data: bytes) -> None:
        self.backend.disk.write(
            place,
            data,
            may_make=self.writable.granted.covers,
            read_tracker=self.backend.read_tracker,
            session_file=self._session_file(place),
        )

    def _session_file(self, place: Place) -> SessionFile:
        return self.session_id, place.names


def _decode(place: Place, data: bytes, encoding: str, errors: str) -> str:
    try:
        return data.decode(encoding, errors)
    except LookupError as error:
        raise build_access_error(
            place, "not_text", f"unknown encoding {encoding!r} or error handler {errors!r}"
        ) from error
    except UnicodeError as error:
        raise build_access_error(
            place, "not_text", f"it is not {encoding} text; read its bytes, or pass another encoding"
        ) from error


def _encode(place: Place, text: str, encoding: str, errors: str) -> bytes:
    try:
        return text.encode(encoding, errors)
    except LookupError as error:
        raise build_access_error(
            place, "not_text", f"unknown encoding {encoding!r} or error handler {errors!r}"
        ) from error
    except UnicodeError as error:
        raise build_access_error(
            place, "not_text", f"the text cannot be encoded as {encoding}; pass another encoding"
        ) from error
