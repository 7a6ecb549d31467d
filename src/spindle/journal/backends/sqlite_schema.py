"""The tables of a SQLite journal, and how a file comes to have them."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

APPLICATION_ID = 0x53504A4C
"""Marks a file as a journal of ours, in the file's header."""

BUSY_SECONDS = 5.0
"""How long to wait for someone who looks into the file from outside."""

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE calls (
            seq INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL,
            idempotency_key TEXT NOT NULL UNIQUE,
            tool_call_id TEXT NOT NULL,
            tool TEXT NOT NULL,
            checksum TEXT NOT NULL,
            state TEXT NOT NULL,
            session_id TEXT,
            turn_id TEXT,
            fingerprint TEXT,
            args TEXT NOT NULL,
            started_at INTEGER NOT NULL,
            attempts INTEGER NOT NULL,
            ended_at INTEGER,
            code TEXT,
            error TEXT,
            result TEXT,
            result_chars INTEGER,
            cost_usd REAL,
            trusted INTEGER,
            artifact_id TEXT
        )
        """,
        "CREATE INDEX calls_unfinished ON calls (seq) WHERE ended_at IS NULL",
        "CREATE INDEX calls_by_tool_call_id ON calls (tool_call_id)",
    ),
)
"""What leads from one version to the next; a version's number is how many of these a file has seen."""

_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a commit that returned survives a power cut, unless its writer wants less
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA cache_size = -16000",
    "PRAGMA journal_size_limit = 16777216",
)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that begins no transaction by itself; it belongs to the thread that asked."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations the file has seen."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Bring the file to the newest version, each step whole or not at all."""
    for number in range(version_of(connection), len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in migrations[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def create(path: Path) -> None:
    """Make an empty journal that only its owner may read; it appears under its name when it is whole."""
    draft = path.with_name(f"{path.name}.new")
    for leftover in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{draft.name}{leftover}").unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with closing(connect(draft)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(connection)
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file's content, or what happened to a folder's names, survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
