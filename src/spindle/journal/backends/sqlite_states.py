"""Records in the SQLite file of a journal; the functions run in the thread that owns the connection."""

from collections.abc import Sequence

from spindle.journal.backends.memory_states import missing_record
from spindle.journal.backends.sqlite_database import Database
from spindle.journal.states import Key, StateOperations, StateQuery, StateRecord

_COLUMNS = ", ".join(f'"{name}"' for name in StateRecord._fields)
_BRIEF = _COLUMNS.replace('"data"', "''").replace('"sealed"', "NULL")
_PLACES = ", ".join("?" * len(StateRecord._fields))
_INSERT = f"INSERT INTO states ({_COLUMNS}) VALUES ({_PLACES}) ON CONFLICT (kind, id) DO NOTHING"  # noqa: S608
_REPLACE = f"""
    UPDATE states SET ({_COLUMNS}) = ({_PLACES}) WHERE kind = ? AND id = ? AND version = ?
"""  # noqa: S608
_GET = f"SELECT {_COLUMNS} FROM states WHERE kind = ? AND id = ?"  # noqa: S608
_CONDITIONS = {
    "status": "status = :status",
    "group": '"group" = :group',
    "expired_at": "expires_at <= :expired_at",
    "before": "seq < (SELECT seq FROM states WHERE kind = :kind AND id = :before)",
    "except_status": "status <> :except_status",
}
"""Of the fields of a query that are not `None`; an index serves a condition only if it is alone in its place."""
_DELETE = "DELETE FROM states WHERE kind = ? AND id = ?"


def insert(database: Database, records: Sequence[StateRecord]) -> list[StateRecord | None]:
    """Add each record, or return the existing one."""
    return [
        None if database.connection.execute(_INSERT, record).rowcount == 1 else _get(database, record.kind, record.id)
        for record in records
    ]


def replace(database: Database, records: Sequence[StateRecord]) -> list[StateRecord | None]:
    """Replace each record that has the version before, or return it as it is."""
    answers: list[StateRecord | None] = []
    for record in records:
        key = (record.kind, record.id, record.version - 1)
        is_replaced = database.connection.execute(_REPLACE, (*record, *key)).rowcount == 1
        known = None if is_replaced else _get(database, record.kind, record.id)
        if not is_replaced and known is None:
            raise missing_record(record)
        answers.append(known)
    return answers


def get(database: Database, keys: Sequence[Key]) -> list[StateRecord | None]:
    """Look up each record."""
    return [_get(database, *key) for key in keys]


def select(database: Database, queries: Sequence[StateQuery]) -> list[list[StateRecord]]:
    """Return the matching records of each query."""
    return [_select(database, query) for query in queries]


def delete(database: Database, keys: Sequence[Key]) -> list[bool]:
    """Delete each record."""
    return [database.connection.execute(_DELETE, key).rowcount == 1 for key in keys]


def _get(database: Database, kind: str, id: str) -> StateRecord | None:
    found = database.connection.execute(_GET, (kind, id)).fetchone()
    return None if found is None else StateRecord._make(found)


def _select(database: Database, query: StateQuery) -> list[StateRecord]:
    values = {**query._asdict(), "limit": -1 if query.limit is None else query.limit}
    wanted = "".join(f" AND {text}" for name, text in _CONDITIONS.items() if values[name] is not None)
    columns = _BRIEF if query.is_brief else _COLUMNS
    select = f"SELECT {columns} FROM states WHERE kind = :kind{wanted} ORDER BY seq DESC LIMIT :limit"  # noqa: S608
    return [StateRecord._make(found) for found in database.connection.execute(select, values)]


OPERATIONS = StateOperations(insert, replace, get, select, delete)
