"""From a path to a database that is locked, sound, of the newest version, and knows who was interrupted."""

import logging
import sqlite3
from pathlib import Path

from spindle.errors import JournalDamagedError, JournalError
from spindle.journal.backends.process_lock import ProcessLock
from spindle.journal.backends.sqlite_damage import (
    Damage,
    damage_of_content,
    damage_of_file,
    damage_of_tables,
    newest_aside,
    set_aside,
)
from spindle.journal.backends.sqlite_database import Database, mark_interrupted
from spindle.journal.backends.sqlite_errors import is_damage
from spindle.journal.backends.sqlite_schema import connect, create, migrate
from spindle.journal.entries import OnDamage

_log = logging.getLogger(__name__)


def open_database(path: Path, run_id: str, on_damage: OnDamage) -> Database:
    """Open a journal's file for this process alone; it is made, with its folder, when it is not there.

    Raises:
        JournalLockedError: Another process has it.
        JournalDamagedError: It cannot be used, and nobody chose to go on without it.
        JournalError: Its place cannot be used.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = ProcessLock.take(path)
    except OSError as error:
        raise _no_place(path, error) from error
    try:
        connection = _sound_connection(path, run_id, on_damage, had_journal=not lock.is_first)
        return Database(connection, run_id=run_id, on_close=lock.release)
    except OSError as error:
        lock.release()
        raise _no_place(path, error) from error
    except BaseException:
        lock.release()
        raise


def _sound_connection(path: Path, run_id: str, on_damage: OnDamage, *, had_journal: bool) -> sqlite3.Connection:
    if path.exists() and not path.is_file():
        raise JournalError(f"the journal {path} is no file; give the path of a file")
    if on_damage == "raise" and not path.exists() and (aside := newest_aside(path)):
        raise _damaged(path, "it was found damaged earlier", aside)
    damage = damage_of_file(path, had_journal=had_journal)
    if damage is not None:
        _take_away(path, damage, on_damage)
    opened = _connection(path, run_id)
    if isinstance(opened, Damage):
        _take_away(path, opened, on_damage)
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
        damage = _brought_up(connection, run_id, path.stat().st_size)
    except BaseException:
        connection.close()
        raise
    if damage is None:
        return connection
    connection.close()
    return damage


def _brought_up(connection: sqlite3.Connection, run_id: str, size: int) -> Damage | None:
    try:
        damage = damage_of_content(connection, size)
        if damage is None:
            migrate(connection)
            damage = damage_of_tables(connection)
        if damage is None:
            mark_interrupted(connection, run_id)
    except sqlite3.Error as error:
        return _as_damage(error)
    return damage


def _as_damage(error: sqlite3.Error) -> Damage:
    if not is_damage(error):
        raise error
    return Damage(f"SQLite says: {error}")


def _take_away(path: Path, damage: Damage, on_damage: OnDamage) -> None:
    if on_damage == "raise" and damage.is_readable:
        raise _damaged(path, damage.reason, None)
    try:
        aside = set_aside(path)
    except OSError as error:
        raise _damaged(path, damage.reason, None) from error
    if on_damage == "raise":
        raise _damaged(path, damage.reason, aside)
    _log.warning(
        "the journal %s cannot be used: %s; it is kept as %s, and a fresh one begins", path, damage.reason, aside
    )


def _damaged(path: Path, reason: str, aside: Path | None) -> JournalDamagedError:
    where = "It was left where it is" if aside is None else f"It is kept as {aside}"
    return JournalDamagedError(
        f"the journal {path} cannot be used: {reason}. {where}. Put a sound copy in its place, or say "
        'on_damage="set_aside" to go on with a fresh journal, which knows nothing of earlier calls',
        path=str(path),
        aside=None if aside is None else str(aside),
    )


def _no_place(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"the journal {path} cannot be opened: {error.strerror or error}; check that its folder is there and is yours"
    )
