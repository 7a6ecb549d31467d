"""Records in memory, lost with the process."""

from itertools import islice
from threading import Lock

from anyio.lowlevel import checkpoint

from spindle.errors import JournalError
from spindle.journal.states import StateQuery, StateRecord


class MemoryStateStore:
    """Records in a dict, oldest first."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], StateRecord] = {}
        self._lock = Lock()

    async def insert(self, record: StateRecord) -> StateRecord | None:
        """Add a record, unless there is one of its kind and id."""
        await checkpoint()
        with self._lock:
            known = self._records.get((record.kind, record.id))
            if known is None:
                self._records[record.kind, record.id] = record
            return known

    async def replace(self, record: StateRecord) -> StateRecord | None:
        """Replace the record that has the version before this one."""
        await checkpoint()
        with self._lock:
            known = self._records.get((record.kind, record.id))
            if known is None:
                raise missing_record(record)
            if known.version != record.version - 1:
                return known
            self._records[record.kind, record.id] = record
            return None

    async def get(self, kind: str, id: str) -> StateRecord | None:
        """Look up a record."""
        await checkpoint()
        return self._records.get((kind, id))

    async def select(self, query: StateQuery) -> list[StateRecord]:
        """Return the matching records, newest first."""
        await checkpoint()
        with self._lock:
            newest_first = list(reversed(self._records.values()))
        if query.before is not None:
            known = (place for place, each in enumerate(newest_first) if each[:2] == (query.kind, query.before))
            newest_first = newest_first[next(known, len(newest_first)) + 1 :]
        matching = (
            record._replace(data="", sealed=None) if query.is_brief else record
            for record in newest_first
            if record.kind == query.kind
            and query.status in {None, record.status}
            and query.except_status != record.status
            and query.group in {None, record.group}
            and (query.expired_at is None or (record.expires_at is not None and record.expires_at <= query.expired_at))
        )
        return list(islice(matching, query.limit))

    async def delete(self, kind: str, id: str) -> bool:
        """Delete a record."""
        await checkpoint()
        with self._lock:
            return self._records.pop((kind, id), None) is not None


def missing_record(record: StateRecord) -> JournalError:
    """Build the error for a change of a record that does not exist."""
    return JournalError(f"There is no {record.kind} {record.id!r} to change; it may have been deleted")
