"""A spool in an object store (S3, GCS, Azure, a local folder, memory), through obstore.

An artifact is two objects: `data/<hash of the id>/<version>`, uploaded in parts and immutable, and
`notes/<hash of the id>`, written last, which holds the version and its line index. Readers request byte ranges. No
conditional writes are needed: versions never share a key, and the last note written wins.
"""

import secrets
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio

from spindle.addresses import hide_credentials
from spindle.artifacts.backends.temporary_file import temporary_copy
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.readers import LineIndexer
from spindle.artifacts.spool import Manifest, NoteStamp, SpoolEntry, to_file_name
from spindle.concurrency import spool_threads
from spindle.errors import ArtifactGoneError, SpoolError, UsageError
from spindle.extras import needs_extra

if TYPE_CHECKING:
    from obstore import ObjectMeta, WritableFile
    from obstore.store import ObjectStore as Client


PART_BYTES = 8 << 20
"""The part size of uploads; S3 allows 10,000 parts, so 80 GB per artifact."""

_CONCURRENT_PARTS = 2
_RETRIES: dict[str, Any] = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_TIMEOUTS: dict[str, Any] = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5)}


@contextmanager
def translate_store_errors() -> Generator[None]:
    """Translate errors of the object store to `SpoolError`; a `FileNotFoundError` is passed on.

    Raises:
        SpoolError: The store is unavailable, full, or denies access.
    """
    from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra

    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        raise SpoolError(
            f"Object store request failed: {_first_line(error)}; check that it is up, and the url and credentials"
        ) from error


@dataclass(frozen=True, slots=True)
class ObjectClient:
    """The operations of an object store that a spool uses."""

    client: "Client"

    @classmethod
    def from_url(cls, url: str, *, allow_http: bool | None = None, **options: Any) -> "ObjectClient":
        """Create a client for the store of a url; retries and timeouts are limited unless `options` override them.

        Raises:
            MissingExtraError: The extra `objects` is not installed.
            UsageError: The url or an option is invalid.
        """
        with needs_extra("objects"):
            from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra
            from obstore.store import from_url  # noqa: PLC0415 - an extra

        client_options = _TIMEOUTS | ({} if allow_http is None else {"allow_http": allow_http})
        options["client_options"] = client_options | options.get("client_options", {})
        options["retry_config"] = _RETRIES | options.get("retry_config", {})
        if url.startswith("file:"):
            options.setdefault("mkdir", True)
        try:
            return cls(from_url(url, **options))
        except (BaseError, OSError, ValueError, TypeError) as error:
            raise UsageError(
                f"Invalid object store url {hide_credentials(url)!r} or options: {_first_line(error)}", field="url"
            ) from error

    def open_writer(self, key: str) -> "WritableFile":
        """Start an upload in parts, with only a few of them in memory at a time."""
        import obstore  # noqa: PLC0415 - an extra

        with translate_store_errors():
            return obstore.open_writer(self.client, key, buffer_size=PART_BYTES, max_concurrency=_CONCURRENT_PARTS)

    def put(self, key: str, data: bytes) -> None:
        """Write a small object, replacing an older one."""
        with translate_store_errors():
            self.client.put(key, data)

    def get(self, key: str) -> bytes | None:
        """Return a small object, or `None` if it is missing."""
        with suppress(FileNotFoundError), translate_store_errors():
            return bytes(self.client.get(key).bytes())
        return None

    def get_range(self, key: str, start: int, end: int) -> bytes | None:
        """Return a byte range of an object, or `None` if it is missing."""
        if start == end:
            return b""
        with suppress(FileNotFoundError), translate_store_errors():
            return bytes(self.client.get_range(key, start=start, end=end))
        return None

    def size(self, key: str) -> int | None:
        """Return the size of an object in bytes, or `None` if it is missing."""
        with suppress(FileNotFoundError), translate_store_errors():
            return self.client.head(key)["size"]
        return None

    def list_keys(self, folder: str) -> list[tuple[str, datetime]]:
        """Return the keys in a folder with their modification times."""
        with suppress(FileNotFoundError), translate_store_errors():
            found_in = self.client.list  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  an overload names a type of an optional package
            pages: Iterable[Sequence[ObjectMeta]] = found_in(f"{folder}/")
            return [(found["path"], found["last_modified"]) for page in pages for found in page]
        return []

    def remove(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""
        for key in keys:
            with suppress(FileNotFoundError), translate_store_errors():
                self.client.delete(key)


def _first_line(error: Exception) -> str:
    # The following lines dump internal structures of the client.
    return str(error).partition("\n")[0]


REPLACED_SECONDS = 3600.0
"""How long a replaced version is kept for readers in other processes."""


class ObjectStore:
    """A spool store in an object store, which several processes may share."""

    def __init__(self, objects: ObjectClient, *, replaced_seconds: float = REPLACED_SECONDS) -> None:
        self._objects = objects
        self._replaced_seconds = replaced_seconds
        self._open_ranges: WeakSet[_ObjectRanges] = WeakSet()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> "ObjectStore":
        """Create a spool store for a url; `options` are passed to the client.

        Raises:
            MissingExtraError: The extra `objects` is not installed.
            UsageError: The url or an option is invalid.
        """
        return cls(ObjectClient.from_url(url, **options))

    async def write(
        self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None, created_at: float
    ) -> BlockReader:
        """Store all of `content` or nothing."""
        upload = await spool_threads.run(_Upload, self._objects, to_file_name(id))
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
        return self._open_reader(manifest)

    async def read(self, id: str) -> BlockReader | None:
        """Return a reader for the latest version of an id, or `None` if it is missing or incomplete."""
        manifest = await spool_threads.run(self._load, id)
        return None if manifest is None else self._open_reader(manifest)

    async def delete(self, id: str, *, version: str | None = None) -> bool:
        """Delete all versions of an id, or nothing if it no longer has `version`."""
        return await spool_threads.run(self._delete, id, version)

    async def entries(self) -> list[SpoolEntry]:
        """Return the stored entries, and delete versions that were replaced or never completed."""
        # Listed before the notes are read, so that later uploads are not swept.
        stored = await spool_threads.run(self._objects.list_keys, "data")
        notes = await spool_threads.run(self._objects.list_keys, "notes")
        found: list[Manifest] = []
        failed: list[SpoolError] = []
        async with anyio.create_task_group() as tasks:
            for key, _ in notes:
                tasks.start_soon(self._collect, key, found, failed)
        if failed:
            raise failed[0]
        await spool_threads.run(self._sweep, stored, found)
        return [manifest.to_entry() for manifest in found]

    def list_stamps(self) -> list[NoteStamp]:
        """Return the name and the modification time of each note, without reading it."""
        found = self._objects.list_keys("notes")
        return [NoteStamp(written_at.timestamp(), key.rpartition("/")[2]) for key, written_at in found]

    def name_note(self, id: str) -> str:
        """Return the name of the note of an id."""
        return to_file_name(id)

    def load_entry(self, name: str) -> SpoolEntry | None:
        """Read one note."""
        manifest = self._load_note(name)
        return None if manifest is None else manifest.to_entry()

    async def _collect(self, key: str, found: list[Manifest], failed: list[SpoolError]) -> None:
        try:
            manifest = await spool_threads.run(self._load_note, key.rpartition("/")[2])
        except SpoolError as error:
            failed.append(error)
            return
        if manifest is not None:
            found.append(manifest)

    def _load(self, id: str) -> Manifest | None:
        manifest = self._load_note(to_file_name(id))
        if manifest is None or manifest.id != id:
            return None
        # The note is written last, so the data exists unless it was changed externally.
        size = self._objects.size(_data_key(manifest))
        return manifest if size == manifest.index.byte_length else None

    def _load_note(self, name: str) -> Manifest | None:
        note = self._objects.get(f"notes/{name}")
        return None if note is None else Manifest.from_bytes(note)

    def _delete(self, id: str, version: str | None) -> bool:
        name = to_file_name(id)
        manifest = self._load(id)
        if version is not None and (manifest is None or manifest.version != version):
            return False
        self._objects.remove([f"notes/{name}"])
        self._objects.remove([key for key, _ in self._objects.list_keys(f"data/{name}")])
        return manifest is not None

    def _sweep(self, stored: list[tuple[str, datetime]], found: list[Manifest]) -> None:
        kept = {_data_key(manifest) for manifest in found} | {ranges.key for ranges in list(self._open_ranges)}
        limit = datetime.now(UTC) - timedelta(seconds=self._replaced_seconds)
        self._objects.remove([key for key, written_at in stored if key not in kept and written_at <= limit])

    def _open_reader(self, manifest: Manifest) -> BlockReader:
        ranges = _ObjectRanges(self._objects, _data_key(manifest), manifest)
        self._open_ranges.add(ranges)
        return BlockReader(ranges, manifest.index)


class _Upload:
    """A version that is being uploaded; it is invisible until its note is written."""

    def __init__(self, objects: ObjectClient, name: str) -> None:
        self.version = secrets.token_hex(8)
        self.index = LineIndexer()
        self._objects, self._name = objects, name
        self._key = f"data/{name}/{self.version}"
        self._writer = objects.open_writer(self._key)
        self._is_published = False

    def append(self, piece: bytes) -> None:
        with translate_store_errors():
            self._writer.write(piece)
        self.index.feed(piece)

    def publish(self, manifest: Manifest) -> None:
        with translate_store_errors():
            self._writer.close()
        self._objects.put(f"notes/{self._name}", manifest.to_bytes())
        self._is_published = True

    def close(self) -> None:
        """Delete an unpublished version; completing the upload first leaves no parts behind."""
        if self._is_published:
            return
        with suppress(SpoolError), translate_store_errors():
            if not self._writer.closed():
                self._writer.close()
        with suppress(SpoolError):
            self._objects.remove([self._key])


class _ObjectRanges:
    """The bytes of one version."""

    search_bytes = 4 << 20

    def __init__(self, objects: ObjectClient, key: str, manifest: Manifest) -> None:
        self.key = key
        self._objects, self._manifest = objects, manifest

    def read(self, start: int, end: int) -> bytes:
        data = self._objects.get_range(self.key, start, end)
        if data is None:
            shown = self._manifest.id[:200]
            raise ArtifactGoneError(f"artifact {shown!r} was deleted; run the call again to get its output")
        if len(data) != end - start:
            raise SpoolError(f"Object {self.key} is shorter than when it was written; it was modified externally")
        return data

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        return temporary_copy(self.read, self._manifest.index.byte_length)


def _data_key(manifest: Manifest) -> str:
    return f"data/{to_file_name(manifest.id)}/{manifest.version}"
