"""What can be wrong with a journal's file, and how it is kept when something is."""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from spindle.journal.backends.sqlite_schema import APPLICATION_ID, MIGRATIONS, sync, version_of
from spindle.journal.rows import Row

SIDE_FILES = ("-wal", "-shm")
_HEADER_BYTES = 100
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")

CHECKED_BYTES = 64 << 20
"""Up to this size the whole file is checked at each opening; beyond, damage shows when it is met."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Why a file cannot be used as a journal."""

    reason: str
    is_readable: bool = False
    """Somebody else can use it as it is, so that it is not moved unless we are told to."""


def damage_of_file(path: Path, *, had_journal: bool) -> Damage | None:
    """Judge a file by its outside, before SQLite is let near it: it would empty a log whose database is gone."""
    header, log = _beginning(path), _beginning(path.with_name(f"{path.name}-wal"))
    if header:
        return _damage_of_header(header, log or b"", path.stat().st_size)
    if log:
        return Damage("its write-ahead log is there, but the database is missing or empty")
    # A journal appears under its name when it is whole, so an empty file was emptied by somebody.
    return Damage("it is empty, and it was not before") if header is not None and had_journal else None


def _damage_of_header(header: bytes, log: bytes, size: int) -> Damage | None:
    if not header.startswith(b"SQLite format 3\x00"):
        return Damage("it is not a SQLite database")
    if len(header) < _HEADER_BYTES:
        return Damage("it is cut short within its header")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        return Damage("it is the SQLite database of another program", is_readable=True)
    if log and log[:4].strip(b"\x00") and log[:4] not in _WAL_MAGIC:
        return Damage("its write-ahead log is not one")
    # A crash in the middle of a checkpoint leaves a log, from which SQLite mends the file.
    if not log and size % max(int.from_bytes(header[16:18], "big"), 1):
        return Damage("it is cut short")
    return _newer(int.from_bytes(header[60:64], "big"))


def damage_of_content(connection: sqlite3.Connection, size: int) -> Damage | None:
    """Judge what SQLite finds in it."""
    if newer := _newer(version_of(connection)):
        return newer
    if size <= CHECKED_BYTES:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            return Damage(f"its pages do not fit together ({found})")
    return None


def damage_of_tables(connection: sqlite3.Connection) -> Damage | None:
    """Judge whether it has the columns of this version."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(calls)")}
    missing = {"seq", "run_id", *Row._fields} - columns
    return Damage(f"its table lacks {', '.join(sorted(missing))}") if missing else None


def set_aside(path: Path) -> Path:
    """Rename a file, with those that belong to it, to a name that was free."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (f"{path.name}.damaged-{stamp}{f'-{number}' if number else ''}" for number in count())
    aside = next(
        place
        for place in map(path.with_name, names)
        if not any(place.with_name(f"{place.name}{suffix}").exists() for suffix in ("", *SIDE_FILES))
    )
    # The database first: should this be cut off, a log without a database is not mistaken for a fresh start.
    for suffix in ("", *SIDE_FILES):
        part = path.with_name(f"{path.name}{suffix}")
        if part.exists():
            part.rename(aside.with_name(f"{aside.name}{suffix}"))
    sync(path.parent)
    return aside


def newest_aside(path: Path) -> Path | None:
    """Where the last damaged file of that name was put."""
    names = [near.name for near in path.parent.iterdir() if near.name.startswith(f"{path.name}.damaged-")]
    return max((path.with_name(name.removesuffix("-wal").removesuffix("-shm")) for name in names), default=None)


def _newer(version: int) -> Damage | None:
    known = len(MIGRATIONS)
    if version <= known:
        return None
    return Damage(f"it has version {version}, written by a newer Spindle; this one knows {known}", is_readable=True)


def _beginning(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
