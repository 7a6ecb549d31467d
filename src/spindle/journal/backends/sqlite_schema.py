"""The tables of a SQLite journal, their migrations, and how its files are created and opened."""

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

APPLICATION_ID = 0x53504A4C
"""Identifies a Spindle journal in the header of a SQLite file."""

BUSY_SECONDS = 5.0
"""How long to wait for other programs that have locked the file."""

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        # Large columns last: to read what stands behind one, SQLite reads all of its pages. Older files have `args`
        # before `started_at`, and `error` and `result` before `result_chars`; statements name their columns.
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
            started_at INTEGER NOT NULL,
            attempts INTEGER NOT NULL,
            ended_at INTEGER,
            code TEXT,
            result_chars INTEGER,
            cost_usd REAL,
            trusted INTEGER,
            artifact_id TEXT,
            args TEXT NOT NULL,
            error TEXT,
            result TEXT
        )
        """,
        "CREATE INDEX calls_unfinished ON calls (seq) WHERE ended_at IS NULL",
        "CREATE INDEX calls_by_tool_call_id ON calls (tool_call_id)",
    ),
    # Several processes: an older version, which would take their unfinished calls for interrupted, refuses the file.
    (),
    ("ALTER TABLE calls ADD COLUMN caller TEXT",),
    (
        """
        CREATE TABLE states (
            seq INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            id TEXT NOT NULL,
            status TEXT NOT NULL,
            data TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            version INTEGER NOT NULL,
            sealed BLOB,
            "group" TEXT,
            expires_at INTEGER,
            UNIQUE (kind, id)
        )
        """,
        "CREATE INDEX states_by_status ON states (kind, status, seq)",
        'CREATE INDEX states_by_group ON states (kind, "group", seq)',
    ),
    ("CREATE INDEX calls_by_session ON calls (session_id, seq)",),
    # Pages of records of one kind, newest first.
    ("CREATE INDEX states_by_kind ON states (kind, seq)",),
    (
        "CREATE INDEX calls_by_turn ON calls (turn_id, seq)",
        "CREATE INDEX calls_failed ON calls (seq) WHERE code IS NOT NULL",
    ),
)
"""The statements of each migration; a file's version is the number of migrations applied."""

_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a commit survives power loss, unless a transaction lowers this
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA cache_size = -16000",
    "PRAGMA journal_size_limit = 16777216",
    "PRAGMA secure_delete = ON",  # the sealed arguments of an answered call must not stay in free space
)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection in autocommit mode, for use in the calling thread only."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
        _check_journal_mode(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_journal_mode(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        raise OSError(errno.ENOTSUP, "SQLite's write-ahead log is not supported")


def get_version(connection: sqlite3.Connection) -> int:
    """Return the number of migrations applied to the file."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Migrate the file to the newest version, each step atomically."""
    for number in range(get_version(connection), len(migrations)):
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


def create(
    path: Path, *, application_id: int = APPLICATION_ID, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Create an empty file that only its owner may read; it gets its name when it is complete."""
    draft = path.with_name(f"{path.name}.new")
    for leftover in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{draft.name}{leftover}").unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with closing(connect(draft)) as connection:
        connection.execute(f"PRAGMA application_id = {application_id}")
        migrate(connection, migrations)
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, so that they survive power loss."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
