"""Stores on this machine: in memory, shared by all threads and event loops of the process, and in a SQLite file."""

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from spindle.addresses import parse_local_path
from spindle.capabilities.storage.store import StorageQuota, Write, admit
from spindle.capabilities.withheld import OWN_FILES
from spindle.concurrency import storage_threads
from spindle.errors import StorageError

SWEEP_SECONDS = 60.0
"""How often all namespaces are cleared of expired entries; a write clears its own namespace."""


class _Entry(NamedTuple):
    value: bytes
    expires_at: float | None

    def is_alive(self, now: float) -> bool:
        return self.expires_at is None or self.expires_at > now


class MemoryKeyValueStore:
    """A store that keeps entries in dicts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spaces: dict[str, dict[bytes, _Entry]] = {}
        self._swept_at = float("-inf")

    async def get(self, namespace: str, key: bytes, now: float) -> bytes | None:
        """Return the value, or None if there is none."""
        with self._lock:
            entry = self._spaces.get(namespace, {}).get(key)
        return entry.value if entry is not None and entry.is_alive(now) else None

    async def set(self, namespace: str, write: Write, quota: StorageQuota) -> None:
        """Store the value if it fits the quota."""
        with self._lock:
            self._sweep(namespace, write.now)
            space = self._spaces.get(namespace, {})
            others = {key: entry for key, entry in space.items() if key != write.key}
            other_bytes = sum(len(key) + len(entry.value) for key, entry in others.items())
            admit(quota, write, other_keys=len(others), other_bytes=other_bytes)
            self._spaces.setdefault(namespace, space)[write.key] = _Entry(write.value, write.expires_at)

    async def delete(self, namespace: str, key: bytes, now: float) -> bool:
        """Remove the entry; return True if it existed."""
        with self._lock:
            space = self._spaces.get(namespace, {})
            entry = space.pop(key, None)
            if not space:
                self._spaces.pop(namespace, None)
        return entry is not None and entry.is_alive(now)

    async def keys(self, namespace: str, prefix: bytes, now: float) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        with self._lock:
            entries = list(self._spaces.get(namespace, {}).items())
        return [key for key, entry in entries if key.startswith(prefix) and entry.is_alive(now)]

    def _sweep(self, namespace: str, now: float) -> None:
        is_due = not self._swept_at <= now < self._swept_at + SWEEP_SECONDS
        for name in list(self._spaces) if is_due else [namespace]:
            kept = {key: entry for key, entry in self._spaces.get(name, {}).items() if entry.is_alive(now)}
            if kept:
                self._spaces[name] = kept
            else:
                self._spaces.pop(name, None)
        self._swept_at = now if is_due else self._swept_at


T = TypeVar("T")

APPLICATION_ID = 0x53505354
"""Identifies a storage file, in the header of the SQLite file."""
VERSION = 1
BUSY_SECONDS = 10.0
"""How long to wait for locks of other processes."""

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS entries (
        namespace BLOB NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        expires_at REAL,
        PRIMARY KEY (namespace, key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS entries_that_expire ON entries (expires_at) WHERE expires_at IS NOT NULL",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
_GET = "SELECT value FROM entries WHERE namespace = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)"
_KEYS = """
    SELECT key FROM entries
    WHERE namespace = ? AND substr(key, 1, ?) = ? AND (expires_at IS NULL OR expires_at > ?)
"""
_DELETE_EXPIRED = "DELETE FROM entries WHERE expires_at IS NOT NULL AND expires_at <= ?"
_OTHERS = """
    SELECT count(*), coalesce(sum(length(key) + length(value)), 0) FROM entries WHERE namespace = ? AND key <> ?
"""
_SET = "INSERT OR REPLACE INTO entries (namespace, key, value, expires_at) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM entries WHERE namespace = ? AND key = ?"
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space",
    sqlite3.SQLITE_BUSY: "other processes keep it locked: retry",
    sqlite3.SQLITE_CORRUPT: "it is damaged: restore a backup, or move it away to start with an empty one",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite file: move it away, or pass another path",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder exists and is accessible",
    sqlite3.SQLITE_READONLY: "it is read-only: check the permissions of the file and its folder",
}


class SqliteKeyValueStore:
    """A store in the SQLite file at `path`, which is created on first use and readable only by its owner."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = parse_local_path(path)
        OWN_FILES.add_database(self._path)
        self._lock = Lock()
        self._pid = os.getpid()

    async def get(self, namespace: str, key: bytes, now: float) -> bytes | None:
        """Return the value, or None if there is none."""
        return await self._in_thread(lambda db: _first(db.execute(_GET, (_name(namespace), key, now)).fetchone()))

    async def set(self, namespace: str, write: Write, quota: StorageQuota) -> None:
        """Store the value if it fits the quota."""
        await self._in_thread(lambda db: _write(db, _name(namespace), write, quota))

    async def delete(self, namespace: str, key: bytes, now: float) -> bool:
        """Remove the entry; return True if it existed."""

        def remove(db: sqlite3.Connection) -> bool:
            db.execute(_DELETE_EXPIRED, (now,))
            return db.execute(_DELETE, (_name(namespace), key)).rowcount == 1

        return await self._in_thread(remove)

    async def keys(self, namespace: str, prefix: bytes, now: float) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        wanted = (_name(namespace), len(prefix), prefix, now)
        return await self._in_thread(lambda db: [row[0] for row in db.execute(_KEYS, wanted)])

    async def _in_thread(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # Not abandoned on cancellation: a transaction is short and atomic.
        return await storage_threads.run(lambda: self._run(work))

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._exclusive(), _translate_errors(self._path), closing(self._connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                _initialise(db, self._path)
                answer = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return answer

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        """Serialize transactions in this process: SQLite's own lock waiting sleeps and is not fair."""
        if self._pid != os.getpid():
            self._pid, self._lock = (
                os.getpid(),
                Lock(),
            )  # a forked child inherits the lock, but not the thread that holds it
        with self._lock:
            yield

    def _connect(self) -> sqlite3.Connection:
        if not self._path.exists():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return db


def _initialise(db: sqlite3.Connection, path: Path) -> None:
    [mark], [version] = db.execute("PRAGMA application_id").fetchone(), db.execute("PRAGMA user_version").fetchone()
    if (mark, version) == (APPLICATION_ID, VERSION):
        return
    if mark or version or db.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
        raise StorageError(
            f"the file {path} is not a storage file of this version and was left unchanged; pass another path",
            field="storage",
        )
    for statement in _TABLES:
        db.execute(statement)


def _write(db: sqlite3.Connection, namespace: bytes, write: Write, quota: StorageQuota) -> None:
    db.execute(_DELETE_EXPIRED, (write.now,))
    other_keys, other_bytes = db.execute(_OTHERS, (namespace, write.key)).fetchone()
    admit(quota, write, other_keys=other_keys, other_bytes=other_bytes)
    db.execute(_SET, (namespace, write.key, write.value, write.expires_at))


def _first(row: tuple[bytes] | None) -> bytes | None:
    return None if row is None else row[0]


def _name(namespace: str) -> bytes:
    return namespace.encode("utf-8", "surrogatepass")


@contextmanager
def _translate_errors(path: Path) -> Generator[None]:
    """Translate exceptions of SQLite and the operating system into StorageError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        advice = _ADVICE.get(code, "nothing was changed")
        raise StorageError(f"the storage {path} failed: {error}; {advice}", field="storage") from error
    except OSError as error:
        raise StorageError(
            f"the storage {path} cannot be opened: {error.strerror or error}; check the permissions of its folder",
            field="storage",
        ) from error
