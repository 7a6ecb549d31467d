"""Records in the PostgreSQL database of a journal."""

from collections.abc import Sequence

from spindle.journal.backends.memory_states import missing_record
from spindle.journal.backends.postgres_queries import CallTable
from spindle.journal.states import Key, StateOperations, StateQuery, StateRecord

_NAMES = [f'"{name}"' for name in StateRecord._fields]
_COLUMNS = ", ".join(_NAMES)
_BRIEF = _COLUMNS.replace('"data"', "''").replace('"sealed"', "NULL")
_PLACES = ", ".join(f"${place}" for place in range(1, len(_NAMES) + 1))
_INSERT = f"""
    INSERT INTO spindle_states ({_COLUMNS}) VALUES ({_PLACES}) ON CONFLICT (kind, id) DO NOTHING RETURNING id
"""  # noqa: S608
_REPLACE = f"""
    UPDATE spindle_states SET ({_COLUMNS}) = ROW ({_PLACES})
    WHERE kind = $1 AND id = $2 AND version = ${StateRecord._fields.index("version") + 1}::bigint - 1 RETURNING id
"""  # noqa: S608
_GET = f"SELECT {_COLUMNS} FROM spindle_states WHERE kind = $1 AND id = $2"  # noqa: S608
_SELECT = f"""
    FROM spindle_states
    WHERE kind = $1 AND ($2::text IS NULL OR status = $2) AND ($3::text IS NULL OR "group" = $3)
    AND ($5::bigint IS NULL OR expires_at <= $5)
    AND seq < CASE WHEN $6::text IS NULL THEN {2**63 - 1}
        ELSE (SELECT seq FROM spindle_states WHERE kind = $1 AND id = $6) END
    AND ($7::text IS NULL OR status <> $7)
    ORDER BY seq DESC LIMIT $4::bigint
"""  # noqa: S608
_SELECT_ALL, _SELECT_BRIEF = f"SELECT {_COLUMNS} {_SELECT}", f"SELECT {_BRIEF} {_SELECT}"
_DELETE = "DELETE FROM spindle_states WHERE kind = $1 AND id = $2 RETURNING id"


async def insert(table: CallTable, records: Sequence[StateRecord]) -> list[StateRecord | None]:
    """Add each record, or return the existing one; an equal one was written before a connection was lost."""
    answers: list[StateRecord | None] = []
    for record in records:
        is_new = bool(await table.connection.fetch(_INSERT, *record))
        known = None if is_new else await _get(table, record.kind, record.id)
        answers.append(None if known == record else known)
    return answers


async def replace(table: CallTable, records: Sequence[StateRecord]) -> list[StateRecord | None]:
    """Replace each record that has the version before, or return it as it is; an equal one was written before."""
    answers: list[StateRecord | None] = []
    for record in records:
        is_replaced = bool(await table.connection.fetch(_REPLACE, *record))
        known = None if is_replaced else await _get(table, record.kind, record.id)
        if not is_replaced and known is None:
            raise missing_record(record)
        answers.append(None if known == record else known)
    return answers


async def get(table: CallTable, keys: Sequence[Key]) -> list[StateRecord | None]:
    """Look up each record."""
    return [await _get(table, *key) for key in keys]


async def select(table: CallTable, queries: Sequence[StateQuery]) -> list[list[StateRecord]]:
    """Return the matching records of each query."""
    return [await _select(table, query) for query in queries]


async def delete(table: CallTable, keys: Sequence[Key]) -> list[bool]:
    """Delete each record."""
    return [bool(await table.connection.fetch(_DELETE, *key)) for key in keys]


async def _select(table: CallTable, query: StateQuery) -> list[StateRecord]:
    *values, is_brief = query
    found = await table.connection.fetch(_SELECT_BRIEF if is_brief else _SELECT_ALL, *values)
    return [StateRecord._make(each) for each in found]


async def _get(table: CallTable, kind: str, id: str) -> StateRecord | None:
    found = await table.connection.fetchrow(_GET, kind, id)
    return None if found is None else StateRecord._make(found)


OPERATIONS = StateOperations(insert, replace, get, select, delete)
