"""A spool in an object store (S3, GCS, Azure, a local folder, memory), through obstore.

An artifact is two objects: `data/<hash of the id>/<version>`, uploaded in parts and never changed, and
`notes/<hash of the id>`, put last, which names the version and indexes its lines; readers ask for ranges. No
conditional write is needed: versions never share a key, and the last note put wins.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakSet

import anyio

from spindle.artifacts.backends.object_client import Objects, storage_errors
from spindle.artifacts.backends.temporary import temporary_copy
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.lines import LineIndexer
from spindle.artifacts.manifest import Manifest, safe_name
from spindle.artifacts.retention import SpoolEntry
from spindle.concurrency import spool_threads
from spindle.errors import ArtifactGoneError, SpoolError

REPLACED_SECONDS = 3600.0
"""How long a replaced version stays for readers in other processes."""


class ObjectStore:
    """Keeps artifacts in an object store, which several processes may share."""

    def __init__(self, objects: Objects, *, replaced_seconds: float = REPLACED_SECONDS) -> None:
        self._objects = objects
        self._replaced_seconds = replaced_seconds
        self._lent: WeakSet[_ObjectRanges] = WeakSet()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> "ObjectStore":
        """Reach the store that a url names; `options` go to its client.

        Raises:
            MissingExtraError: The extra `objects` is not installed.
            UsageError: The url or an option is not understood.
        """
        return cls(Objects.from_url(url, **options))

    async def write(
        self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None, created_at: float
    ) -> BlockReader:
        """Keep everything `content` gives, or nothing at all."""
        upload = await spool_threads.run(_Upload, self._objects, safe_name(id))
        try:
            async for piece in content:
                await spool_threads.run(upload.append, piece)
            manifest = Manifest(
                id=id,
                turn_id=turn_id,
                created_at=created_at,
                version=upload.version,
                index=upload.index.finish(),
            )
            await spool_threads.run(upload.publish, manifest)
        finally:
            with anyio.CancelScope(shield=True):
                await spool_threads.run(upload.close)
        return self._lend(manifest)

    async def read(self, id: str) -> BlockReader | None:
        """Open what was last written under an id, if it is there whole."""
        manifest = await spool_threads.run(self._load, id)
        return None if manifest is None else self._lend(manifest)

    async def delete(self, id: str, *, version: str | None = None) -> bool:
        """Remove every version of an id, or nothing if its version is another by now."""
        return await spool_threads.run(self._delete, id, version)

    async def entries(self) -> list[SpoolEntry]:
        """List what is kept, and sweep away versions that were replaced or never finished."""
        # Listed before the notes are read: what is uploaded meanwhile is not looked at.
        stored = await spool_threads.run(self._objects.listing, "data")
        notes = await spool_threads.run(self._objects.listing, "notes")
        found: list[Manifest] = []
        failed: list[SpoolError] = []
        async with anyio.create_task_group() as tasks:
            for key, _ in notes:
                tasks.start_soon(self._collect, key, found, failed)
        if failed:
            raise failed[0]
        await spool_threads.run(self._sweep, stored, found)
        return [_entry(manifest) for manifest in found]

    async def _collect(self, key: str, found: list[Manifest], failed: list[SpoolError]) -> None:
        try:
            manifest = await spool_threads.run(self._load_note, key.rpartition("/")[2])
        except SpoolError as error:
            failed.append(error)
            return
        if manifest is not None:
            found.append(manifest)

    def _load(self, id: str) -> Manifest | None:
        manifest = self._load_note(safe_name(id))
        if manifest is None or manifest.id != id:
            return None
        # The note is put last, so the bytes are there; unless somebody else touched them.
        size = self._objects.size(_data_key(manifest))
        return manifest if size == manifest.index.byte_length else None

    def _load_note(self, name: str) -> Manifest | None:
        note = self._objects.get(f"notes/{name}")
        return None if note is None else Manifest.from_bytes(note)

    def _delete(self, id: str, version: str | None) -> bool:
        name = safe_name(id)
        manifest = self._load(id)
        if version is not None and (manifest is None or manifest.version != version):
            return False
        self._objects.remove([f"notes/{name}"])
        self._objects.remove([key for key, _ in self._objects.listing(f"data/{name}")])
        return manifest is not None

    def _sweep(self, stored: list[tuple[str, datetime]], found: list[Manifest]) -> None:
        kept = {_data_key(manifest) for manifest in found} | {ranges.key for ranges in list(self._lent)}
        limit = datetime.now(UTC) - timedelta(seconds=self._replaced_seconds)
        self._objects.remove([key for key, written_at in stored if key not in kept and written_at <= limit])

    def _lend(self, manifest: Manifest) -> BlockReader:
        ranges = _ObjectRanges(self._objects, _data_key(manifest), manifest)
        self._lent.add(ranges)
        return BlockReader(ranges, manifest.index)


class _Upload:
    """A version that is being sent; nobody can see it before its note is put."""

    def __init__(self, objects: Objects, name: str) -> None:
        self.version = secrets.token_hex(8)
        self.index = LineIndexer()
        self._objects, self._name = objects, name
        self._key = f"data/{name}/{self.version}"
        self._writer = objects.open_writer(self._key)
        self._is_published = False

    def append(self, piece: bytes) -> None:
        with storage_errors():
            self._writer.write(piece)
        self.index.feed(piece)

    def publish(self, manifest: Manifest) -> None:
        with storage_errors():
            self._writer.close()
        self._objects.put(f"notes/{self._name}", manifest.to_bytes())
        self._is_published = True

    def close(self) -> None:
        """Take back what was not published; ending the upload first leaves no parts behind."""
        if self._is_published:
            return
        with suppress(SpoolError), storage_errors():
            if not self._writer.closed():
                self._writer.close()
        with suppress(SpoolError):
            self._objects.remove([self._key])


class _ObjectRanges:
    """The bytes of one version."""

    search_bytes = 4 << 20

    def __init__(self, objects: Objects, key: str, manifest: Manifest) -> None:
        self.key = key
        self._objects, self._manifest = objects, manifest

    def read(self, start: int, end: int) -> bytes:
        data = self._objects.get_range(self.key, start, end)
        if data is None:
            shown = self._manifest.id[:200]
            raise ArtifactGoneError(f"artifact {shown!r} was deleted; run the call again to get its output")
        if len(data) != end - start:
            raise SpoolError(f"the object {self.key} is shorter than it was written; it was changed from outside")
        return data

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        return temporary_copy(self.read, self._manifest.index.byte_length)


def _data_key(manifest: Manifest) -> str:
    return f"data/{safe_name(manifest.id)}/{manifest.version}"


def _entry(manifest: Manifest) -> SpoolEntry:
    return SpoolEntry(
        id=manifest.id,
        turn_id=manifest.turn_id,
        byte_length=manifest.index.byte_length,
        created_at=manifest.created_at,
        version=manifest.version,
    )
