"""Opening of a SQLite journal under its lock: damage checks, migration, and marking of interrupted calls."""

import logging
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from spindle.errors import JournalDamagedError, JournalError
from spindle.journal.backends.sqlite_database import Database, is_damage
from spindle.journal.backends.sqlite_locks import FileLock, RunLease, has_no_locks
from spindle.journal.backends.sqlite_schema import (
    APPLICATION_ID,
    MIGRATIONS,
    connect,
    create,
    get_version,
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


def check_content(connection: sqlite3.Connection, *, is_complete: bool) -> Damage | None:
    """Check the schema version of an open database and, if `is_complete`, its integrity."""
    if newer := _check_version(get_version(connection)):
        return newer
    if is_complete:
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


_log = logging.getLogger(__name__)


def open_database(path: Path, on_damage: OnDamage) -> Database:
    """Open a journal's file, which other processes may have open; the file and its folder are created if missing.

    Raises:
        JournalLockedError: Another process does not release the file's lock.
        JournalDamagedError: The file is unusable, and `on_damage` is `"raise"`.
        JournalError: The path cannot be opened.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(path)
    except OSError as error:
        raise open_error(path, error) from error
    try:
        with lock.hold():
            return _open_locked(path, lock, on_damage)
    except OSError as error:
        lock.close()
        raise open_error(path, error) from error
    except BaseException:
        lock.close()
        raise


def _open_locked(path: Path, lock: FileLock, on_damage: OnDamage) -> Database:
    if path.exists() and not path.is_file():
        raise JournalError(f"Expected the journal's path to be a file, but {path} is not a regular file")
    lease = RunLease.acquire(path)
    try:
        file = JournalFile(path, on_damage, is_shared=bool(lease.find_others()))
        connection = file.connect(had_journal=lock.was_used)
        try:
            database = Database(connection, lock, lease)
            database.recover()
        except BaseException:
            connection.close()
            raise
    except BaseException:
        if lease.is_new:
            lease.release()
        raise
    lease.is_new = False
    return database


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A journal's file that is being opened, while its lock is held."""

    path: Path
    on_damage: OnDamage
    is_shared: bool
    """Whether another process has it open, so that it was checked already and must not be renamed."""

    def connect(self, *, had_journal: bool) -> sqlite3.Connection:
        """Check, create or migrate the file, and open a connection.

        Raises:
            JournalDamagedError: The file is unusable, and `on_damage` is `"raise"`.
        """
        if self.on_damage == "raise" and not self.path.exists() and (aside := find_newest_aside(self.path)):
            raise _build_damaged_error(self.path, "it was found damaged when it was opened earlier", aside)
        damage = check_file(self.path, had_journal=had_journal)
        if damage is not None:
            self._set_aside_or_raise(damage)
        opened = self._try_connect()
        if isinstance(opened, Damage):
            self._set_aside_or_raise(opened)
            opened = self._try_connect()
        if isinstance(opened, Damage):
            raise _build_damaged_error(self.path, opened.reason, None)
        return opened

    def _try_connect(self) -> sqlite3.Connection | Damage:
        if not self.path.exists() or not self.path.stat().st_size:
            create(self.path)
        try:
            connection = connect(self.path)
        except sqlite3.Error as error:
            return _as_damage(error)
        try:
            damage = self._check_and_migrate(connection)
        except BaseException:
            connection.close()
            raise
        if damage is None:
            return connection
        connection.close()
        return damage

    def _check_and_migrate(self, connection: sqlite3.Connection) -> Damage | None:
        try:
            is_small = self.path.stat().st_size <= CHECKED_BYTES
            damage = check_content(connection, is_complete=is_small and not self.is_shared)
            if damage is None:
                migrate(connection)
                damage = check_tables(connection)
        except sqlite3.Error as error:
            return _as_damage(error)
        return damage

    def _set_aside_or_raise(self, damage: Damage) -> None:
        if self.is_shared or (self.on_damage == "raise" and damage.is_readable):
            raise _build_damaged_error(self.path, damage.reason, None)
        try:
            aside = set_aside(self.path)
        except OSError as error:
            raise _build_damaged_error(self.path, damage.reason, None) from error
        if self.on_damage == "raise":
            raise _build_damaged_error(self.path, damage.reason, aside)
        _log.warning(
            "The journal %s cannot be used: %s; it was renamed to %s, and a new one was started",
            self.path,
            damage.reason,
            aside,
        )


def _as_damage(error: sqlite3.Error) -> Damage:
    if not is_damage(error):
        raise error
    return Damage(f"SQLite reported: {error}")


def _build_damaged_error(path: Path, reason: str, aside: Path | None) -> JournalDamagedError:
    where = "It was not moved" if aside is None else f"It was renamed to {aside}"
    return JournalDamagedError(
        f"The journal {path} cannot be used: {reason}. {where}. Restore a valid copy, or set "
        'on_damage="set_aside" to start a new journal without the earlier calls',
        path=str(path),
        aside=None if aside is None else str(aside),
    )


def open_error(path: Path, error: OSError) -> JournalError:
    """Convert an error of opening a file to a `JournalError` that says what to check."""
    advice = "check that its folder exists and belongs to this user"
    if has_no_locks(error):
        advice = "its file system does not support file locks or shared memory, which SQLite needs; use a local disk"
    return JournalError(f"The journal {path} cannot be opened: {error.strerror or error}; {advice}")
