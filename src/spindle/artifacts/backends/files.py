"""A spool in a folder: written once, published by one rename, private to its owner.

An artifact is two files, `<hash of the id>.<version>.data` with its bytes and `<hash of the id>.note`, which names the
version and indexes its lines. The bytes are on disk before the note that names them replaces the older note, so a
reader finds the old version, the new one or none, and never a part. A version that was replaced stays until it is
swept, for those who still read it.
"""

import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from os import PathLike
from pathlib import Path
from weakref import WeakSet

import anyio
from anyio.lowlevel import checkpoint

from spindle.artifacts.backends.folder import (
    create_private_file,
    make_private_folder,
    read_range,
    remove_abandoned,
    storage_errors,
    sync_folder,
    try_lock,
    write_fully,
)
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.lines import LineIndexer
from spindle.artifacts.manifest import Manifest, safe_name
from spindle.artifacts.retention import SpoolEntry
from spindle.concurrency import spool_threads
from spindle.errors import ArtifactGoneError, SpoolError

REPLACED_SECONDS = 3600.0
"""How long a replaced version stays for readers in other processes."""


class FileStore:
    """Keeps artifacts in a folder, which several processes may share."""

    def __init__(self, path: str | PathLike[str], *, replaced_seconds: float = REPLACED_SECONDS) -> None:
        self._root = Path(path).absolute()
        self._replaced_seconds = replaced_seconds
        self._lent: WeakSet[_FileRanges] = WeakSet()
        self._is_tidy = False

    async def write(
        self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None, created_at: float
    ) -> BlockReader:
        """Keep everything `content` gives, or nothing at all."""
        draft = await spool_threads.run(self._begin, id)
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
        return self._lend(manifest)

    async def read(self, id: str) -> BlockReader | None:
        """Open what was last written under an id, if it is there whole."""
        manifest = await spool_threads.run(self._load, id)
        return None if manifest is None else self._lend(manifest)

    async def delete(self, id: str, *, version: str | None = None) -> bool:
        """Remove every version of an id, or nothing if its version is another by now."""
        return await spool_threads.run(self._delete, id, version)

    async def entries(self) -> list[SpoolEntry]:
        """List what is kept, and sweep away what dead writers and replaced versions left."""
        return await spool_threads.run(self._entries)

    def _begin(self, id: str) -> "_Draft":
        name = safe_name(id)
        folder = self._folder(name)
        with storage_errors(self._root):
            make_private_folder(self._root)
            make_private_folder(folder)
            if not self._is_tidy:
                self._is_tidy = True
                self._sweep_drafts()
            return _Draft.create(folder, name)

    def _publish(self, draft: "_Draft", manifest: Manifest) -> None:
        with storage_errors(self._root):
            replaced = self._load(manifest.id)
            draft.publish(manifest)
            if replaced is not None:
                # The time of a replaced version says since when it is replaced.
                with suppress(OSError):
                    os.utime(self._data_path(replaced))

    def _load(self, id: str) -> Manifest | None:
        name = safe_name(id)
        manifest = self._load_note(self._folder(name) / f"{name}.note")
        return manifest if manifest is not None and manifest.id == id else None

    def _load_note(self, path: Path) -> Manifest | None:
        with storage_errors(self._root):
            try:
                manifest = Manifest.from_bytes(path.read_bytes())
                if manifest is None or self._data_path(manifest).stat().st_size != manifest.index.byte_length:
                    return None
            except FileNotFoundError:
                return None
        return manifest

    def _delete(self, id: str, version: str | None) -> bool:
        name = safe_name(id)
        manifest = self._load(id)
        if version is not None and (manifest is None or manifest.version != version):
            return False
        with storage_errors(self._root):
            (self._folder(name) / f"{name}.note").unlink(missing_ok=True)
            for path in self._folder(name).glob(f"{name}.*.data"):
                path.unlink(missing_ok=True)
        return manifest is not None

    def _entries(self) -> list[SpoolEntry]:
        with storage_errors(self._root):
            self._sweep_drafts()
            self._sweep_replaced()
            notes = [self._load_note(path) for path in self._paths("*.note")]
        return [
            SpoolEntry(
                id=note.id,
                turn_id=note.turn_id,
                byte_length=note.index.byte_length,
                created_at=note.created_at,
                version=note.version,
            )
            for note in notes
            if note is not None
        ]

    def _sweep_drafts(self) -> None:
        for path in self._paths("*.draft"):
            remove_abandoned(path)

    def _sweep_replaced(self) -> None:
        lent = {ranges.path for ranges in list(self._lent)}
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

    def _lend(self, manifest: Manifest) -> BlockReader:
        ranges = _FileRanges(self._data_path(manifest), manifest.id)
        self._lent.add(ranges)
        return BlockReader(ranges, manifest.index)

    def _folder(self, name: str) -> Path:
        return self._root / name[:2]

    def _data_path(self, manifest: Manifest) -> Path:
        name = safe_name(manifest.id)
        return self._folder(name) / f"{name}.{manifest.version}.data"

    def _paths(self, pattern: str) -> Iterator[Path]:
        return self._root.glob(f"[0-9a-f][0-9a-f]/{pattern}")


class _Draft:
    """A version that is being written; the lock on its file tells others that its writer lives."""

    def __init__(self, handle: int, folder: Path, name: str, version: str) -> None:
        self.version = version
        self.index = LineIndexer()
        self._handle, self._folder, self._name = handle, folder, name
        self._draft, self._note_draft, self._data = (
            folder / f"{name}.{version}.{kind}" for kind in ("draft", "note.draft", "data")
        )
        self._is_published = False

    @classmethod
    def create(cls, folder: Path, name: str) -> "_Draft":
        while True:
            version = secrets.token_hex(8)
            path = folder / f"{name}.{version}.draft"
            handle = create_private_file(path)
            # A sweeper may have come between creating and locking; then this file is lost, and the next one is tried.
            if try_lock(handle) and os.fstat(handle).st_nlink:
                return cls(handle, folder, name, version)
            os.close(handle)

    def append(self, piece: bytes) -> None:
        with storage_errors(self._folder):
            write_fully(self._handle, piece)
        self.index.feed(piece)

    def publish(self, manifest: Manifest) -> None:
        os.fsync(self._handle)
        self._draft.rename(self._data)
        note = create_private_file(self._note_draft)
        try:
            # Locked as well: to a sweeper this is a draft like any other.
            try_lock(note)
            write_fully(note, manifest.to_bytes())
            os.fsync(note)
            self._note_draft.rename(self._folder / f"{self._name}.note")
        finally:
            os.close(note)
        self._is_published = True
        sync_folder(self._folder)

    def close(self) -> None:
        """Let go of the file; what was not published is removed."""
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
            with storage_errors(self.path):
                return read_range(self.path, start, end)
        except SpoolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._gone() from error.__cause__
            raise
        except EOFError as error:
            raise SpoolError(f"{self.path} is shorter than it was written; it was changed from outside") from error

    @asynccontextmanager
    async def local_path(self) -> AsyncGenerator[Path]:
        await checkpoint()
        if not self.path.exists():
            raise self._gone()
        yield self.path

    def _gone(self) -> ArtifactGoneError:
        shown = self._id if len(self._id) <= 200 else f"{self._id[:200]}…"
        return ArtifactGoneError(f"artifact {shown!r} was deleted; run the call again to get its output")
