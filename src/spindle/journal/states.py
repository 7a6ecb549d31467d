"""Small records beside the journal that several processes read and change, such as pending approvals.

A record has a version, and a change names the version that it replaces: of two concurrent changes one is made, and the
other gets the record as it is now.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias


class StateRecord(NamedTuple):
    """One record; a change is made by writing a copy with the next version."""

    kind: str
    """What the record is, such as `approval`; ids are unique within a kind."""
    id: str
    status: str
    """One word by which records are selected."""
    data: str
    """JSON, without anything secret."""
    created_at: int
    """In microseconds since 1970, as all times here."""
    version: int = 1
    sealed: bytes | None = None
    """What only the owner of the state key can read."""
    group: str | None = None
    """A text by which records are selected, such as the key of the call they belong to."""
    expires_at: int | None = None


class StateQuery(NamedTuple):
    """A filter of records, newest first; `None` matches any."""

    kind: str
    status: str | None = None
    group: str | None = None
    limit: int | None = None
    expired_at: int | None = None
    """Only records that have expired by this time."""
    before: str | None = None
    """Only records that were added before the one with this id, for the next page; none if that was deleted."""
    except_status: str | None = None
    """Only records with another status."""
    is_brief: bool = False
    """Leave `data` and `sealed` empty, which may be large."""


class StateStore(Protocol):
    """The protocol of a backend for records; a change survives a killed process and power loss when it returns."""

    async def insert(self, record: StateRecord) -> StateRecord | None:
        """Add a record and return `None`; return the existing one of its kind and id, if there is one."""
        ...

    async def replace(self, record: StateRecord) -> StateRecord | None:
        """Replace the record that has the version before this one, and return `None`; else return it as it is.

        Raises:
            JournalError: There is no such record.
        """
        ...

    async def get(self, kind: str, id: str) -> StateRecord | None:
        """Look up a record."""
        ...

    async def select(self, query: StateQuery) -> list[StateRecord]:
        """Return the matching records, newest first."""
        ...

    async def delete(self, kind: str, id: str) -> bool:
        """Delete a record; return whether it existed."""
        ...


Key: TypeAlias = tuple[str, str]
"""The kind and the id of a record."""
Operation: TypeAlias = Callable[[Any, Sequence[Any]], Any]
"""Does the same with each of several items on a database, and returns their answers."""


class StateOperations(NamedTuple):
    """The operations of a database on records."""

    insert: Operation
    replace: Operation
    get: Operation
    select: Operation
    delete: Operation


class WorkerStateStore:
    """The records of a database that a worker owns; `run` runs an operation on one item there, durably."""

    def __init__(self, run: Callable[[Operation, Any], Awaitable[Any]], operations: StateOperations) -> None:
        self._run = run
        self._operations = operations

    async def insert(self, record: StateRecord) -> StateRecord | None:
        """Add a record, unless there is one of its kind and id."""
        return await self._run(self._operations.insert, record)

    async def replace(self, record: StateRecord) -> StateRecord | None:
        """Replace the record that has the version before this one."""
        return await self._run(self._operations.replace, record)

    async def get(self, kind: str, id: str) -> StateRecord | None:
        """Look up a record."""
        return await self._run(self._operations.get, (kind, id))

    async def select(self, query: StateQuery) -> list[StateRecord]:
        """Return the matching records, newest first."""
        return await self._run(self._operations.select, query)

    async def delete(self, kind: str, id: str) -> bool:
        """Delete a record."""
        return await self._run(self._operations.delete, (kind, id))
