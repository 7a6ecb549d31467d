"""A spool in a folder that is private to its owner; versions are written once and published by one rename.

An artifact is two files, `<hash of the id>.<version>.data` with its bytes and `<hash of the id>.note`, which holds the
version and its line index. The data is synced before its note replaces the older note, so a reader finds the old
version, the new one or none, but never a part. The note of a small version holds its bytes too (`small_notes.py`), and
only the note is synced. A replaced version is kept for its readers until it is swept.
"""

import fcntl
import os
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from errno import EDQUOT, EFBIG, ENOSPC
from os import PathLike
from pathlib import Path
from weakref import WeakSet

import anyio
from anyio.lowlevel import checkpoint

from spindle.addresses import parse_local_path
from spindle.artifacts import backends
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.readers import LineIndexer
from spindle.artifacts.spool import Manifest, NoteStamp, SpoolEntry, to_file_name
from spindle.capabilities.withheld import OWN_FILES
from spindle.concurrency import spool_threads
from spindle.errors import ArtifactGoneError, SpoolError
from spindle.text import shorten

_OWN_NAMES = re.compile(r"[0-9a-f]{2}")

_OWNER_ONLY_FILE = 0o600
_OWNER_ONLY_FOLDER = 0o700


@contextmanager
def translate_os_errors(path: Path) -> Generator[None]:
    """Translate an `OSError` to a `SpoolError`.

    Raises:
        SpoolError: The disk is full, or the path is not usable.
    """
    try:
        yield
    except OSError as error:
        is_full = error.errno in {ENOSPC, EDQUOT, EFBIG}
        advice = (
            "free some space or prune the spool" if is_full else "check that the folder exists and belongs to this user"
        )
        raise SpoolError(f"Spool at {path} cannot be used: {error.strerror or error}; {advice}") from error


def make_private_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, and its parents; an existing folder is not changed."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_OWNER_ONLY_FOLDER, exist_ok=True)
    sync_folder(path.parent)


def create_private_file(path: Path) -> int:
    """Create a new file without following links; return a descriptor to write to."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_ONLY_FILE)


def write_fully(handle: int, data: bytes) -> None:
    """Write all of `data`; one system call may write less."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def start_writeback(handle: int, start: int, count: int) -> None:
    """Let the kernel start to write bytes to the disk, without waiting, where it takes such advice."""
    advise: Callable[[int, int, int, int], None] | None = getattr(os, "posix_fadvise", None)
    if advise is not None:
        # Dirty pages are written; they stay cached, because only pages that are clean already are dropped.
        with suppress(OSError):
            advise(handle, start, count, os.POSIX_FADV_DONTNEED)


def read_range(path: Path, start: int, end: int) -> bytes:
    """Read bytes `start` to `end` of a file.

    Raises:
        EOFError: The file is shorter than `end`.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        data = os.pread(handle, end - start, start)
        while len(data) < end - start:
            more = os.pread(handle, end - start - len(data), start + len(data))
            if not more:
                raise EOFError
            data += more
        return data
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Flush a folder, so that renames in it survive power loss."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Try to acquire the lock that a live writer holds on its file; the kernel releases it when the writer dies."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def create_draft_file(path: Path) -> int:
    """Create a private file that no sweep removes: it is locked until it is closed."""
    while True:
        handle = create_private_file(path)
        fcntl.flock(handle, fcntl.LOCK_EX)  # a sweep holds the lock for an instant only
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # a sweep removed it before it was locked


def remove_abandoned(path: Path) -> None:
    """Remove a file, unless a live writer has locked it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # already removed, or not a file of the spool
    try:
        # A file without a name was removed by another sweep: its path may be that of a new one.
        if _try_lock(handle) and os.fstat(handle).st_nlink:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


WRITEBACK_BYTES = 8 << 20
"""How much is written before the kernel is asked to start on it, so that the last sync has little left to wait for."""

REPLACED_SECONDS = 3600.0
"""How long a replaced version is kept for readers in other processes."""


class FileStore:
    """A spool store in a folder, which several processes may share."""

    def __init__(self, path: str | PathLike[str], *, replaced_seconds: float = REPLACED_SECONDS) -> None:
        self._root = parse_local_path(path)
        OWN_FILES.add(self._root, members=_OWN_NAMES)
        self._replaced_seconds = replaced_seconds
        self._open_ranges: WeakSet[_FileRanges] = WeakSet()
        self._has_swept_drafts = False

    async def write(
        self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None, created_at: float
    ) -> BlockReader:
        """Store all of `content` or nothing."""
        draft = await spool_threads.run(self._create_draft, id)
        try:
            async for piece in content:
                await spool_threads.run(draft.append, piece)
            manifest = Manifest(
                id=id, turn_id=turn_id, created_at=created_at, version=draft.version, index=draft.index.finish()
            )
            await spool_threads.run(self._publish, draft, manifest)
        finally:
            with anyio.CancelScope(shield=True):
                await spool_threads.run(draft.close)
        return self._open_reader(manifest)

    async def read(self, id: str) -> BlockReader | None:
        """Return a reader for the latest version of an id, or `None` if it is missing or incomplete."""
        manifest = await spool_threads.run(self._load, id)
        return None if manifest is None else self._open_reader(manifest)

    @classmethod
    def reopen(cls, data_file: Path) -> BlockReader | None:
        """Return a reader for a version by its file (`BlockReader.stored_file`), or `None` if it is gone."""
        store = cls(data_file.parent.parent)
        manifest = store._load_note(data_file.with_name(f"{data_file.name.partition('.')[0]}.note"))
        if manifest is None or store._data_path(manifest) != data_file:
            return None
        return store._open_reader(manifest)

    async def delete(self, id: str, *, version: str | None = None) -> bool:
        """Delete all versions of an id, or nothing if it no longer has `version`."""
        return await spool_threads.run(self._delete, id, version)

    async def entries(self) -> list[SpoolEntry]:
        """Return the stored entries, and delete abandoned drafts and replaced versions."""
        return await spool_threads.run(self._entries)

    def _create_draft(self, id: str) -> "_Draft":
        name = to_file_name(id)
        folder = self._folder(name)
        with translate_os_errors(self._root):
            make_private_folder(self._root)
            make_private_folder(folder)
            if not self._has_swept_drafts:
                self._has_swept_drafts = True
                self._sweep_drafts()
            return _Draft.create(folder, name)

    def _publish(self, draft: "_Draft", manifest: Manifest) -> None:
        with translate_os_errors(self._root):
            replaced = self._load(manifest.id)
            draft.publish(manifest)
            if replaced is not None:
                # The modification time of a replaced version records when it was replaced.
                with suppress(OSError):
                    os.utime(self._data_path(replaced))

    def _load(self, id: str) -> Manifest | None:
        name = to_file_name(id)
        manifest = self._load_note(self._folder(name) / f"{name}.note")
        return manifest if manifest is not None and manifest.id == id else None

    def _load_note(self, path: Path) -> Manifest | None:
        with translate_os_errors(self._root):
            try:
                note = backends.read_note(path)
                if note is None:
                    return None
                data = self._data_path(note.manifest)
                if note.may_lack_data:
                    backends.restore_data(data, path)
                return note.manifest if data.stat().st_size == note.manifest.index.byte_length else None
            except FileNotFoundError:
                return None

    def _delete(self, id: str, version: str | None) -> bool:
        name = to_file_name(id)
        manifest = self._load(id)
        if version is not None and (manifest is None or manifest.version != version):
            return False
        with translate_os_errors(self._root):
            (self._folder(name) / f"{name}.note").unlink(missing_ok=True)
            for path in self._folder(name).glob(f"{name}.*.data"):
                path.unlink(missing_ok=True)
        return manifest is not None

    def _entries(self) -> list[SpoolEntry]:
        with translate_os_errors(self._root):
            with suppress(FileNotFoundError):  # nothing was spooled yet
                os.scandir(self._root).close()  # a search by name does not tell a folder that cannot be read
            self._sweep_drafts()
            self._sweep_replaced()
            notes = [self._load_note(path) for path in self._paths("*.note")]
        return [note.to_entry() for note in notes if note is not None]

    def list_stamps(self) -> list[NoteStamp]:
        """Return the name and the modification time of each note, without reading it."""
        with translate_os_errors(self._root):
            return [NoteStamp(at, name) for name, at in backends.list_notes(self._root)]

    def name_note(self, id: str) -> str:
        """Return the name of the note of an id."""
        return to_file_name(id)

    def load_entry(self, name: str) -> SpoolEntry | None:
        """Read one note."""
        manifest = self._load_note(self._folder(name) / f"{name}.note")
        return None if manifest is None else manifest.to_entry()

    def _sweep_drafts(self) -> None:
        for path in self._paths("*.draft"):
            remove_abandoned(path)

    def _sweep_replaced(self) -> None:
        lent = {ranges.path for ranges in list(self._open_ranges)}
        limit = time.time() - self._replaced_seconds
        for path in self._paths("*.data"):
            if path in lent:
                continue
            with suppress(FileNotFoundError):
                if path.stat().st_mtime <= limit and not self._is_current(path):
                    remove_abandoned(path)

    def _is_current(self, path: Path) -> bool:
        name, version, _ = path.name.split(".")
        manifest = self._load_note(path.with_name(f"{name}.note"))
        return manifest is not None and manifest.version == version

    def _open_reader(self, manifest: Manifest) -> BlockReader:
        ranges = _FileRanges(self._data_path(manifest), manifest.id)
        self._open_ranges.add(ranges)
        return BlockReader(ranges, manifest.index)

    def _folder(self, name: str) -> Path:
        return self._root / name[:2]

    def _data_path(self, manifest: Manifest) -> Path:
        name = to_file_name(manifest.id)
        return self._folder(name) / f"{name}.{manifest.version}.data"

    def _paths(self, pattern: str) -> Iterator[Path]:
        return self._root.glob(f"[0-9a-f][0-9a-f]/{pattern}")


class _Draft:
    """A version that is being written; the lock on its file shows that its writer is alive."""

    def __init__(self, handle: int, folder: Path, name: str, version: str) -> None:
        self.version = version
        self.index = LineIndexer()
        self._handle, self._folder, self._name = handle, folder, name
        self._draft, self._note_draft, self._data = (
            folder / f"{name}.{version}.{kind}" for kind in ("draft", "note.draft", "data")
        )
        self._is_published = False
        self._written = self._started = 0
        self._content: bytearray | None = None if backends.get_boot_id() is None else bytearray()
        """All bytes, as long as they are few."""

    @classmethod
    def create(cls, folder: Path, name: str) -> "_Draft":
        version = secrets.token_hex(8)
        return cls(create_draft_file(folder / f"{name}.{version}.draft"), folder, name, version)

    def append(self, piece: bytes) -> None:
        with translate_os_errors(self._folder):
            write_fully(self._handle, piece)
        self._written += len(piece)
        if self._content is not None:
            self._content = self._content + piece if self._written <= backends.SMALL_BYTES else None
        if self._written - self._started >= WRITEBACK_BYTES:
            start_writeback(self._handle, self._started, self._written - self._started)
            self._started = self._written
        self.index.feed(piece)

    def publish(self, manifest: Manifest) -> None:
        content, boot_id = self._content, backends.get_boot_id()
        if content is None or boot_id is None:
            os.fsync(self._handle)
            text = manifest.to_bytes()
        else:
            text = backends.build_small_note(manifest, bytes(content), boot_id)
        self._draft.rename(self._data)
        note = create_draft_file(self._note_draft)
        try:
            write_fully(note, text)
            os.fsync(note)
            self._note_draft.rename(self._folder / f"{self._name}.note")
        finally:
            os.close(note)
        self._is_published = True
        sync_folder(self._folder)

    def close(self) -> None:
        """Close the file; an unpublished version is removed."""
        if not self._is_published:
            for path in (self._draft, self._note_draft, self._data):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        os.close(self._handle)


class _FileRanges:
    """The bytes of one version."""

    search_bytes = 1 << 20

    def __init__(self, path: Path, id: str) -> None:
        self.path = path
        self._id = id

    def read(self, start: int, end: int) -> bytes:
        try:
            with translate_os_errors(self.path):
                return read_range(self.path, start, end)
        except SpoolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._build_gone_error() from error.__cause__
            raise
        except EOFError as error:
            raise SpoolError(f"{self.path} is shorter than when it was written; it was modified externally") from error

    @asynccontextmanager
    async def local_path(self) -> AsyncGenerator[Path]:
        await checkpoint()
        if not self.path.exists():
            raise self._build_gone_error()
        yield self.path

    def _build_gone_error(self) -> ArtifactGoneError:
        return ArtifactGoneError(
            f"artifact {shorten(self._id, 200)!r} was deleted; run the call again to get its output"
        )
