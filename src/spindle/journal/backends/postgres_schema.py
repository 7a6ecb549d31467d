"""The tables of a PostgreSQL journal and their migrations."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from spindle.errors import JournalError

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE spindle_calls (
            seq BIGSERIAL PRIMARY KEY,
            key_digest BYTEA NOT NULL UNIQUE,
            run_id BIGINT NOT NULL,
            claim_id BIGINT NOT NULL,
            may_repeat BOOLEAN NOT NULL,
            idempotency_key TEXT COLLATE "C" NOT NULL,
            tool_call_id TEXT COLLATE "C" NOT NULL,
            tool TEXT COLLATE "C" NOT NULL,
            checksum TEXT COLLATE "C" NOT NULL,
            state TEXT COLLATE "C" NOT NULL CHECK (state IN ('started', 'finished', 'interrupted')),
            session_id TEXT COLLATE "C",
            turn_id TEXT COLLATE "C",
            fingerprint TEXT COLLATE "C",
            args TEXT COLLATE "C" NOT NULL,
            started_at BIGINT NOT NULL,
            attempts BIGINT NOT NULL,
            ended_at BIGINT CHECK ((ended_at IS NULL) <> (state = 'finished')),
            code TEXT COLLATE "C",
            error TEXT COLLATE "C",
            result TEXT COLLATE "C",
            result_chars BIGINT,
            cost_usd DOUBLE PRECISION,
            trusted BOOLEAN NOT NULL DEFAULT FALSE,
            artifact_id TEXT COLLATE "C"
        )
        """,
        "CREATE INDEX spindle_calls_unfinished ON spindle_calls (seq) WHERE ended_at IS NULL",
        "CREATE INDEX spindle_calls_running ON spindle_calls (run_id) WHERE state = 'started'",
        "CREATE INDEX spindle_calls_by_tool_call_id ON spindle_calls USING hash (tool_call_id)",
        "CREATE INDEX spindle_calls_by_claim ON spindle_calls (claim_id) WHERE state <> 'finished'",
    ),
    ('ALTER TABLE spindle_calls ADD COLUMN caller TEXT COLLATE "C"',),
    (
        """
        CREATE TABLE spindle_states (
            seq BIGSERIAL PRIMARY KEY,
            kind TEXT COLLATE "C" NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            status TEXT COLLATE "C" NOT NULL,
            data TEXT COLLATE "C" NOT NULL,
            created_at BIGINT NOT NULL,
            version BIGINT NOT NULL,
            sealed BYTEA,
            "group" TEXT COLLATE "C",
            expires_at BIGINT,
            UNIQUE (kind, id)
        )
        """,
        "CREATE INDEX spindle_states_by_status ON spindle_states (kind, status, seq)",
        'CREATE INDEX spindle_states_by_group ON spindle_states (kind, "group", seq)',
    ),
    (
        # The oldest version whose Spindle can still use the tables.
        "ALTER TABLE spindle_journal ADD COLUMN oldest INTEGER NOT NULL DEFAULT 4",
        # Expired records are looked for at intervals.
        "CREATE INDEX spindle_states_by_expiry ON spindle_states (kind, expires_at) WHERE expires_at IS NOT NULL",
    ),
    # An index does not accept long text.
    ("CREATE INDEX spindle_calls_by_session ON spindle_calls (left(session_id, 200), seq)",),
    # Pages of records of one kind, newest first.
    ("CREATE INDEX spindle_states_by_kind ON spindle_states (kind, seq)",),
    (
        "CREATE INDEX spindle_calls_by_turn ON spindle_calls (left(turn_id, 200), seq)",
        "CREATE INDEX spindle_calls_failed ON spindle_calls (seq) WHERE code IS NOT NULL",
    ),
)
"""The statements of each migration; a schema's version is the number of migrations applied.

Steps are never changed, and only go forward. Processes of an older version keep using the tables meanwhile, so a change
takes several releases: one adds what is new beside the old (tables, columns with a default), a later one moves rows,
and a last one, when no process has a version that needs it, removes the old and sets `oldest` to its own version.
"""

_LOCK = 0x53504A4C
_ENTER = "SELECT pg_advisory_xact_lock($1)"
# Queried from the catalog: `to_regclass` may have cached that the table is missing.
_TABLE_EXISTS = """
    SELECT EXISTS (
        SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE relname = 'spindle_journal' AND nspname = current_schema()
    )
"""
_CREATE = "CREATE TABLE spindle_journal (version INTEGER NOT NULL)"
_FIRST = "INSERT INTO spindle_journal VALUES (0)"
_VERSION = "SELECT version FROM spindle_journal"
# Also where the column does not exist.
_OLDEST = "SELECT (to_jsonb(spindle_journal) ->> 'oldest')::integer FROM spindle_journal"
_STEP = "UPDATE spindle_journal SET version = $1"


class Connection(Protocol):
    """The part of asyncpg's connection interface that a journal uses."""

    async def execute(self, query: str, *args: Any) -> Any:
        """Run a statement."""
        ...

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Return the rows of a query."""
        ...

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Return the first row of a query."""
        ...

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - asyncpg's name
        """Return the first value of the first row."""
        ...

    def transaction(self, *, isolation: str) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that runs its block in a transaction."""
        ...


async def migrate(connection: Connection, *, place: str, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Migrate the first schema of the search path to the newest version, each step atomically.

    Tables of a newer Spindle are used as they are, as long as they still have all that this one needs.

    Raises:
        JournalError: The tables were written by a newer Spindle, and this one cannot use them any more.
    """
    version = await _version(connection)
    while version is None or version < len(migrations):
        async with connection.transaction(isolation="read_committed"):
            # The lock serializes processes that open at once: each sees the steps of the one before.
            await connection.execute(_ENTER, _LOCK)
            version = await _version(connection)
            if version is None:
                await connection.execute(_CREATE)
                await connection.execute(_FIRST)
                version = 0
            if version < len(migrations):
                for statement in migrations[version]:
                    await connection.execute(statement)
                version += 1
                await connection.execute(_STEP, version)
    oldest = None if version == len(migrations) else await connection.fetchval(_OLDEST)
    if version > len(migrations) and (oldest is None or oldest > len(migrations)):
        raise JournalError(
            f"The journal in PostgreSQL at {place} has tables of version {version}, written by a newer Spindle; "
            f"this one supports {len(migrations)}. Upgrade Spindle, or use another schema"
        )


async def _version(connection: Connection) -> int | None:
    return await connection.fetchval(_VERSION) if await connection.fetchval(_TABLE_EXISTS) else None
