"""Opening of a SQLite journal: process lock, damage checks, migration, and marking of interrupted calls."""

import fcntl
import logging
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from spindle.errors import JournalDamagedError, JournalError, JournalLockedError
from spindle.journal.backends.sqlite_database import (
    APPLICATION_ID,
    MIGRATIONS,
    Database,
    connect,
    create,
    get_version,
    is_damage,
    mark_interrupted,
    migrate,
    sync,
)
from spindle.journal.entries import OnDamage, Row

SIDE_FILES = ("-wal", "-shm")
_HEADER_BYTES = 100
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")

CHECKED_BYTES = 64 << 20
"""Files up to this size are checked completely when opened; damage in larger files is found on access."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Why a file cannot be used as a journal."""

    reason: str
    is_readable: bool = False
    """Whether another program or version can use the file; it is then renamed only with `on_damage="set_aside"`."""


def check_file(path: Path, *, had_journal: bool) -> Damage | None:
    """Check the headers before SQLite opens the file: it would empty a write-ahead log whose database is missing."""
    header, log = _read_header(path), _read_header(path.with_name(f"{path.name}-wal"))
    if header:
        return _check_header(header, log or b"", path.stat().st_size)
    if log:
        return Damage("the write-ahead log exists, but the database is missing or empty")
    # A journal gets its name when it is complete, so an empty file was truncated later.
    return Damage("the file is empty, but it was not before") if header is not None and had_journal else None


def _check_header(header: bytes, log: bytes, size: int) -> Damage | None:
    if not header.startswith(b"SQLite format 3\x00"):
        return Damage("the file is not a SQLite database")
    if len(header) < _HEADER_BYTES:
        return Damage("the file is truncated within its header")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        return Damage("the file is the SQLite database of another program", is_readable=True)
    if log and log[:4].strip(b"\x00") and log[:4] not in _WAL_MAGIC:
        return Damage("the write-ahead log is invalid")
    # A crash during a checkpoint leaves a log, from which SQLite repairs the file.
    if not log and size % max(int.from_bytes(header[16:18], "big"), 1):
        return Damage("the file is truncated")
    return _check_version(int.from_bytes(header[60:64], "big"))


def check_content(connection: sqlite3.Connection, size: int) -> Damage | None:
    """Check the schema version and the integrity of an open database."""
    if newer := _check_version(get_version(connection)):
        return newer
    if size <= CHECKED_BYTES:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            return Damage(f"the integrity check failed ({found})")
    return None


def check_tables(connection: sqlite3.Connection) -> Damage | None:
    """Check that the table has the columns of this version."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(calls)")}
    missing = {"seq", "run_id", *Row._fields} - columns
    return Damage(f"the table lacks the columns {', '.join(sorted(missing))}") if missing else None


def set_aside(path: Path) -> Path:
    """Rename a database and its side files to an unused name; return the new path."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (f"{path.name}.damaged-{stamp}{f'-{number}' if number else ''}" for number in count())
    aside = next(
        place
        for place in map(path.with_name, names)
        if not any(place.with_name(f"{place.name}{suffix}").exists() for suffix in ("", *SIDE_FILES))
    )
    # The database first: if this is interrupted, the remaining log is not mistaken for a new journal.
    for suffix in ("", *SIDE_FILES):
        part = path.with_name(f"{path.name}{suffix}")
        if part.exists():
            part.rename(aside.with_name(f"{aside.name}{suffix}"))
    sync(path.parent)
    return aside


def find_newest_aside(path: Path) -> Path | None:
    """Return the path of the newest damaged file that was set aside, or `None`."""
    names = [near.name for near in path.parent.iterdir() if near.name.startswith(f"{path.name}.damaged-")]
    return max((path.with_name(name.removesuffix("-wal").removesuffix("-shm")) for name in names), default=None)


def _check_version(version: int) -> Damage | None:
    known = len(MIGRATIONS)
    if version <= known:
        return None
    return Damage(
        f"the file has version {version}, written by a newer Spindle; this one supports {known}", is_readable=True
    )


def _read_header(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None


_held: set[int] = set()
"""Descriptors of the locks that this process holds."""


class ProcessLock:
    """The exclusive lock of this process on one journal."""

    def __init__(self, handle: int, *, is_first: bool) -> None:
        self._handle = handle
        self.is_first = is_first
        """Whether the journal was never locked before."""

    @classmethod
    def acquire(cls, journal: Path) -> "ProcessLock":
        """Acquire a lock on `<journal>.lock`, which is never removed: otherwise two processes could hold the lock.

        Raises:
            JournalLockedError: A live process holds the lock.
            OSError: The lock file cannot be opened.
        """
        handle = os.open(f"{journal}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        _held.add(handle)
        try:
            lock = cls(handle, is_first=not os.pread(handle, 1, 0))
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = _holder(handle)
            _close(handle)
            raise _locked_error(journal, holder) from None
        except BaseException:
            _close(handle)
            raise
        return lock

    def release(self) -> None:
        """Release the lock."""
        if self._handle in _held:
            _close(self._handle)


def _close(handle: int) -> None:
    _held.discard(handle)
    os.close(handle)


def _holder(handle: int) -> int | None:
    text = os.pread(handle, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _locked_error(journal: Path, holder: int | None) -> JournalLockedError:
    who = "another process" if holder is None else f"process {holder}"
    if holder == os.getpid():
        who = f"this process ({holder}) under another name of the file"
    return JournalLockedError(
        f"The journal {journal} is locked by {who}, and a SQLite journal has only one writer; "
        "end that process, or use another file here",
        path=str(journal),
        holder_pid=holder,
    )


def _release_locks_in_child() -> None:
    # A forked child shares the lock while it holds the descriptor, so the lock would outlive the parent.
    for handle in list(_held):
        with suppress(OSError):
            _close(handle)


os.register_at_fork(after_in_child=_release_locks_in_child)


_log = logging.getLogger(__name__)


def open_database(path: Path, run_id: str, on_damage: OnDamage) -> Database:
    """Open a journal's file for this process exclusively; the file and its folder are created if missing.

    Raises:
        JournalLockedError: Another process holds the lock.
        JournalDamagedError: The file is unusable, and `on_damage` is `"raise"`.
        JournalError: The path cannot be opened.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = ProcessLock.acquire(path)
    except OSError as error:
        raise _open_error(path, error) from error
    try:
        connection = _open_checked(path, run_id, on_damage, had_journal=not lock.is_first)
        return Database(connection, run_id=run_id, on_close=lock.release)
    except OSError as error:
        lock.release()
        raise _open_error(path, error) from error
    except BaseException:
        lock.release()
        raise


def _open_checked(path: Path, run_id: str, on_damage: OnDamage, *, had_journal: bool) -> sqlite3.Connection:
    if path.exists() and not path.is_file():
        raise JournalError(f"Expected the journal's path to be a file, but {path} is not a regular file")
    if on_damage == "raise" and not path.exists() and (aside := find_newest_aside(path)):
        raise _damaged(path, "it was found damaged when it was opened earlier", aside)
    damage = check_file(path, had_journal=had_journal)
    if damage is not None:
        _set_aside_or_raise(path, damage, on_damage)
    opened = _connection(path, run_id)
    if isinstance(opened, Damage):
        _set_aside_or_raise(path, opened, on_damage)
        opened = _connection(path, run_id)
    if isinstance(opened, Damage):
        raise _damaged(path, opened.reason, None)
    return opened


def _connection(path: Path, run_id: str) -> sqlite3.Connection | Damage:
    if not path.exists() or not path.stat().st_size:
        create(path)
    try:
        connection = connect(path)
    except sqlite3.Error as error:
        return _as_damage(error)
    try:
        damage = _check_and_migrate(connection, run_id, path.stat().st_size)
    except BaseException:
        connection.close()
        raise
    if damage is None:
        return connection
    connection.close()
    return damage


def _check_and_migrate(connection: sqlite3.Connection, run_id: str, size: int) -> Damage | None:
    try:
        damage = check_content(connection, size)
        if damage is None:
            migrate(connection)
            damage = check_tables(connection)
        if damage is None:
            mark_interrupted(connection, run_id)
    except sqlite3.Error as error:
        return _as_damage(error)
    return damage


def _as_damage(error: sqlite3.Error) -> Damage:
    if not is_damage(error):
        raise error
    return Damage(f"SQLite reported: {error}")


def _set_aside_or_raise(path: Path, damage: Damage, on_damage: OnDamage) -> None:
    if on_damage == "raise" and damage.is_readable:
        raise _damaged(path, damage.reason, None)
    try:
        aside = set_aside(path)
    except OSError as error:
        raise _damaged(path, damage.reason, None) from error
    if on_damage == "raise":
        raise _damaged(path, damage.reason, aside)
    _log.warning(
        "The journal %s cannot be used: %s; it was renamed to %s, and a new one was started", path, damage.reason, aside
    )


def _damaged(path: Path, reason: str, aside: Path | None) -> JournalDamagedError:
    where = "It was not moved" if aside is None else f"It was renamed to {aside}"
    return JournalDamagedError(
        f"The journal {path} cannot be used: {reason}. {where}. Restore a valid copy, or set "
        'on_damage="set_aside" to start a new journal without the earlier calls',
        path=str(path),
        aside=None if aside is None else str(aside),
    )


def _open_error(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"The journal {path} cannot be opened: {error.strerror or error}; "
        "check that its folder exists and belongs to this user"
    )
